"""Area under the insertion curve: units enter an empty text, the most important first."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._curves import CurveMetric, top
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="insertion_area",
        family="faithfulness",
        summary="Area under the curve of the probability as units are inserted, most important first.",
        reference="Petsiuk et al. 2018 (RISE)",
        higher_is_better=True,
        low=0,
        high=1,
        needs=frozenset({"model"}),
        default=True,
        aliases=("insertion_auc", "insertion"),
    )
)
@dataclass(frozen=True, kw_only=True)
class InsertionArea(CurveMetric):
    """Area under p against the share of units that are there; large where few units bring the prediction back.

    The area is exact for the curve through the evaluated points (trapezoids). The parts are the curve itself at the
    shares 0, 1/steps, ..., 1. For a regression p is the output itself, and the range on the card does not hold.

    Where ``sufficiency`` looks at a few sizes of explanation, this one looks at the whole order. It costs ``steps`` + 1
    rows per text, fewer for short ones. ``deletion_area`` goes the other way.

    Args:
        steps: into how many parts the curve is cut.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.

    Example:
        >>> from didact.protocols import Evidence
        >>> InsertionArea(steps=20).measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """All variants of all texts at once."""
        return self.areas(evidence, top)
