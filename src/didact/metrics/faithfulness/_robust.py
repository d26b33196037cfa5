"""Grading with a surrogate that was trained on texts with a few units missing; no more than that is taken out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from didact.errors import InputError
from didact.metrics.base import BaseMetric
from didact.metrics.faithfulness._erasure import (
    ERASER_PERCENTS,
    Bools,
    check_percents,
    count,
    first,
    named,
    ranking,
    settled,
)
from didact.ops.masking import Absence
from didact.protocols import Evidence
from didact.settings import at_least, check_share
from didact.types import Explanation, Floats, Grade

Part = Callable[[Bools], Bools]
"""From the explanation's units to those that may be taken out."""


@dataclass(frozen=True, kw_only=True)
class Robust(BaseMetric):
    """Base of F-Fidelity's two metrics.

    For each percent some units are taken out at random from one part of the text: a ``fraction`` of that part, and
    never more than a ``share`` of the text, at least one unit. The draws come from seed and text alone, so all
    explainers are judged with the same ones.

    Args:
        percents: how much of the text the explanation makes up; the value is the mean over them.
        fraction: how much of the part is taken out at a time.
        share: largest share of the text that is taken out at a time; what the surrogate was fine-tuned for.
        samples: random draws per percent.
        seed: decides the draws, together with the text.
        absence: how an absent unit is shown; what the surrogate was fine-tuned for.
    """

    percents: tuple[float, ...] = ERASER_PERCENTS
    fraction: float = 0.5
    share: float = 0.1
    samples: int = 10
    seed: int = 0
    absence: str = "mask"

    def __post_init__(self) -> None:
        check_percents(self)
        at_least(self, samples=1)
        Absence.parse(self.absence)
        check_share(self, "fraction", "share")

    def falls(self, evidence: Evidence, part: Part) -> list[Grade]:
        """Mean fall of the surrogate's probability over the draws, for each percent."""
        if evidence.surrogate is None:
            raise InputError(f"{self.card.name} needs a surrogate; make one with didact.models.surrogate")
        explanations = evidence.explanations
        keep = [np.concatenate([_everything(each), self._draws(each, part)]) for each in explanations]
        targets = [dataclasses.replace(each.target, scale="probability") for each in explanations]
        units = [each.units for each in explanations]
        absence = settled(evidence.surrogate, self.absence)
        outputs = evidence.surrogate.score(units, targets, keep, absence)
        return [self._grade(values) for values in outputs]

    def _draws(self, explanation: Explanation, part: Part) -> Bools:
        """Keep masks, the draws of the first percent first: (percents * samples, units)."""
        n = len(explanation.units)
        counts = [count(n, percent) for percent in self.percents]
        allowed = np.repeat([part(row) for row in first(ranking(explanation), counts)], self.samples, axis=0)
        sizes = allowed.sum(axis=1)
        most = np.minimum(np.ceil(np.round(self.fraction * sizes, 9)), count(n, 100 * self.share))
        rng = np.random.default_rng([self.seed, int(explanation.example.fingerprint, 16)])
        drawn = np.tile(rng.random((self.samples, n)), (len(self.percents), 1))
        places = np.where(allowed, drawn, 2.0).argsort(axis=1).argsort(axis=1)
        removed: Bools = places < most[:, None]
        return ~removed

    def _grade(self, values: Floats) -> Grade:
        falls = (values[0] - values[1:]).reshape(len(self.percents), self.samples).mean(axis=1)
        return Grade(float(falls.mean()), named(self.percents, falls))


def _everything(explanation: Explanation) -> Bools:
    return np.ones((1, len(explanation.units)), dtype=np.bool_)
