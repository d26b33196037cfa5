"""Curves of the explained output while units leave or enter the text one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from didact.metrics.base import BaseMetric
from didact.metrics.faithfulness._erasure import Bools, first, model_of, ranking, score_variants
from didact.ops.masking import Absence
from didact.protocols import Evidence
from didact.settings import at_least
from didact.types import Explanation, Floats, Grade


@dataclass(frozen=True, kw_only=True)
class CurveMetric(BaseMetric):
    """Base of the areas under curves.

    The curve goes through the values at 0, 1/steps, ..., 1 of the units, rounded to whole units; a text of at most
    ``steps`` units is followed unit by unit. Between these it is a straight line, so that curves of texts of any
    length can be averaged at the same shares.

    Args:
        steps: into how many parts the curve is cut.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.
    """

    steps: int = 10
    absence: str = "mask"

    def __post_init__(self) -> None:
        at_least(self, steps=1)
        Absence.parse(self.absence)

    def areas(self, evidence: Evidence, variants: Callable[[Explanation, list[int]], Bools]) -> list[Grade]:
        """Area and points of the curve over all variants, which are given by numbers of units."""
        counts = [self._counts(len(explanation.units)) for explanation in evidence.explanations]
        keep = [variants(*pair) for pair in zip(evidence.explanations, counts, strict=True)]
        outputs = score_variants(model_of(evidence), evidence.explanations, keep, self.absence)
        return [self._grade(np.array(at) / at[-1], values) for at, values in zip(counts, outputs, strict=True)]

    def _counts(self, n: int) -> list[int]:
        return sorted({(2 * n * step + self.steps) // (2 * self.steps) for step in range(self.steps + 1)})

    def _grade(self, shares: Floats, values: Floats) -> Grade:
        points = np.arange(self.steps + 1) / self.steps
        heights = np.interp(points, shares, values)
        parts = {f"{100 * share:g}%": float(height) for share, height in zip(points, heights, strict=True)}
        return Grade(float(np.trapezoid(values, shares)), parts)


def top(explanation: Explanation, counts: list[int]) -> Bools:
    """Masks of the first so many units: (counts, units)."""
    return first(ranking(explanation), counts)
