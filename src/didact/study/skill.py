"""Ratings as SMaT prints them: a skill for each explainer, updated after every ranking.

Such ratings depend on the order in which rankings arrive: the newest count the most. They are printed beside the
worths because SMaT's table has them, with the range over random orders; the worths are what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import CapabilityError
from didact.progress import advance, working
from didact.study.rows import StudyAnswer

MU, SIGMA = 0.0, 0.5
"""Of an explainer before any ranking, as in SMaT."""
ORDERS = 10
"""Random orders that the range is taken over."""


@dataclass(frozen=True)
class SkillRating:
    """A rating.

    Attributes:
        mu: in the order in which answers came.
        sigma: its uncertainty as the rating system sees it.
        low: the smallest mu over random orders of the same answers.
        high: the largest.
    """

    mu: float
    sigma: float
    low: float
    high: float


def skill_ratings(rows: Sequence[StudyAnswer], explainers: Sequence[str], seed: int = 0) -> dict[str, SkillRating]:
    """Ratings by openskill's Plackett-Luce model.

    Args:
        rows: answers in the order in which they came.
        explainers: all of the study.
        seed: of the random orders.

    Raises:
        CapabilityError: openskill is not installed.
    """
    games = [[row.ranks[name] for name in explainers] for row in rows if row.phase == "main" and row.ranks]
    came = _rated(games, len(explainers))
    rng = np.random.default_rng([seed, 3])
    drawn = []
    with working("ratings over random orders", ORDERS):
        for _ in range(ORDERS):
            drawn.append(_rated([games[at] for at in rng.permutation(len(games))], len(explainers)))
            advance(1)
    result = {}
    for at, name in enumerate(explainers):
        others = [order[at][0] for order in drawn]
        result[name] = SkillRating(*came[at], min(others), max(others))
    return result


def _rated(games: Sequence[Sequence[int]], count: int) -> list[tuple[float, float]]:
    try:
        from openskill.models import PlackettLuce
    except ImportError:
        raise CapabilityError("ratings of skill need openskill: pip install 'didact[study]'") from None
    model = PlackettLuce(mu=MU, sigma=SIGMA, beta=SIGMA / 2, tau=SIGMA / 100)
    ratings = [model.rating() for _ in range(count)]
    for ranks in games:
        ratings = [team[0] for team in model.rate([[rating] for rating in ratings], ranks=[float(r) for r in ranks])]
    return [(float(rating.mu), float(rating.sigma)) for rating in ratings]
