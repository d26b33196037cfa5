"""Solvex: search for the order of units that a faithfulness metric rates best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, at_most, register
from didact.ops.coalitions import Bools
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Target, Units

MetricName = Literal["comprehensiveness", "sufficiency", "difference"]


@register(
    Card(
        name="solvex",
        family="perturbation",
        summary="Order of units found by beam search on comprehensiveness, sufficiency or their difference.",
        reference="Zhou and Shah 2023",
        cost="about n + beam x candidates x steps forwards (twice that for difference)",
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class Solvex(Attribution):
    """Treats a metric as the thing to solve for: the explanation is the best order that a beam search meets.

    An order takes one unit after another; S is what it has taken so far. Each step adds to its worth

    * comprehensiveness: f(x) - f(x without S),
    * sufficiency, to be small: f(S alone) - f(x),
    * difference: comprehensiveness - sufficiency, that is f(S alone) - f(x without S).

    After each step the ``beam`` best orders go on. Of the orders that have taken the same units only the best can win,
    so the others stay only where there is nothing else to fill the beam with. The score is the rank: 1 for the unit
    taken first, 1/n for the last. Units not taken by the end of the search follow in the order of their worth as a
    first unit.

    Scores reproduce an order and have no sign. They show what the metric can reach at most, and they optimise what they
    may later be judged by: state this when they are put beside other methods. ``occlusion`` orders by the first step
    alone.

    Args:
        metric: what is optimised.
        beam: orders kept after each step.
        depth: how far to search, in percent of the units; metrics of the top 20 % do not see the rest.
        steps: how far to search, in units; ends the search of a long text before ``depth`` does.
        candidates: after the first step only so many units are tried, those that were worth most as a first unit, and
            never fewer than ``beam`` or ``steps``; all when None.
        absence: how an absent unit is shown; the model's default when not given.

    The authors search all the way on probabilities (``beam=50, depth=100, steps=1000, candidates=None,
    scale="probability"``), which takes some 50 n^2 forwards; the defaults here take about 2 n^2 up to 50 units, and
    about 4,000 + 2 n beyond.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="solvex", beam=20, scale="probability")  # doctest: +SKIP
    """

    metric: MetricName = "difference"
    beam: int = 5
    depth: float = 20.0
    steps: int = 10
    candidates: int | None = 50
    absence: str | None = None

    def __post_init__(self) -> None:
        at_least(self, beam=1, depth=0, steps=1)
        if self.candidates is not None:
            at_least(self, candidates=1)
        at_most(self, depth=100)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Take one unit more in every beam of every example, all evaluated together, until each is deep enough."""
        full = model.score(units, targets, [np.ones((1, len(unit)), dtype=np.bool_) for unit in units], self.absence)
        beams = [_Beam(len(unit), self.beam, self._pool(len(unit))) for unit in units]
        steps = [self._steps(len(unit)) for unit in units]
        for step in range(max(steps)):
            active = [i for i, last in enumerate(steps) if step < last]
            taken = [beams[i].extensions() for i in active]
            keep = [self._rows(rows) for rows in taken]
            values = model.score([units[i] for i in active], [targets[i] for i in active], keep, self.absence)
            for i, rows, value in zip(active, taken, values, strict=True):
                beams[i].advance(rows, self._worth(value, float(full[i][0])))
        return [
            Outcome(beam.scores(), float(value[0]), {"objective": beam.best / last})
            for beam, value, last in zip(beams, full, steps, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the full text, and every extension of every order in the beam."""
        n, width, rows = len(units), 1, 0
        for step in range(self._steps(n)):
            tried = n if step == 0 else self._pool(n) - step
            rows += width * tried
            width = min(self.beam, width * tried)
        return Cost(forwards=2 + rows * (2 if self.metric == "difference" else 1))

    def _steps(self, n: int) -> int:
        return min(max(1, math.ceil(n * self.depth / 100)), self.steps, n)

    def _pool(self, n: int) -> int:
        """Units tried after the first step."""
        return n if self.candidates is None else min(n, max(self.candidates, self.beam, self._steps(n)))

    def _rows(self, taken: Bools) -> Bools:
        """Keep masks that the metric needs for these sets of taken units."""
        if self.metric == "difference":
            return np.concatenate([~taken, taken])
        return taken if self.metric == "sufficiency" else ~taken

    def _worth(self, values: Floats, full: float) -> Floats:
        if self.metric == "difference":
            without, alone = np.split(values, 2)
            return alone - without
        return values - full if self.metric == "sufficiency" else full - values


class _Beam:
    """The orders of one example's units that are still in the race, best first; after a step, of the best so many."""

    def __init__(self, n: int, width: int, pool: int) -> None:
        self.n = n
        self.width = width
        self.pool = pool
        self.tried = list(range(n))
        self.orders: list[tuple[int, ...]] = [()]
        self.worth: Floats = np.zeros(1)
        self.first: Floats = np.zeros(n)

    @property
    def best(self) -> float:
        """Added-up worth of the best order."""
        return float(self.worth[0])

    def extensions(self) -> Bools:
        """Sets of taken units after one more step, order by order and unit by unit: (extensions, n)."""
        orders = self._extended()
        rows = np.zeros((len(orders), self.n), dtype=np.bool_)
        for row, order in zip(rows, orders, strict=True):
            row[list(order)] = True
        return rows

    def advance(self, taken: Bools, worth: Floats) -> None:
        """Keep the best extensions, the best of each set before any repeated set."""
        orders = self._extended()
        total = np.repeat(self.worth, len(orders) // len(self.orders)) + worth
        if len(self.orders[0]) == 0:
            self.first = worth
            self.tried = sorted(np.argsort(-worth, kind="stable")[: self.pool].tolist())
        ranked = np.argsort(-total, kind="stable")
        seen: set[bytes] = set()
        repeats = np.zeros(len(ranked), dtype=np.bool_)
        for place, i in enumerate(ranked):
            key = taken[i].tobytes()
            repeats[place] = key in seen
            seen.add(key)
        fill = np.concatenate([ranked[~repeats], ranked[repeats]])[: self.width]
        kept = fill[np.argsort(-total[fill], kind="stable")]
        self.orders = [orders[i] for i in kept]
        self.worth = total[kept]

    def scores(self) -> Floats:
        """Rank scores of the best order: 1 for its first unit, 1/n for the last."""
        order = list(self.orders[0])
        rest = [int(i) for i in np.argsort(-self.first, kind="stable") if int(i) not in set(order)]
        scores = np.empty(self.n)
        scores[[*order, *rest]] = np.arange(self.n, 0, -1) / self.n
        return scores

    def _extended(self) -> list[tuple[int, ...]]:
        return [(*order, i) for order in self.orders for i in self.tried if i not in order]
