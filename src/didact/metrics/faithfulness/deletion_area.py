"""Area under the deletion curve: units leave the text, the most important first."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._curves import CurveMetric, top
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="deletion_area",
        family="faithfulness",
        summary="Area under the curve of the probability as units are removed, most important first.",
        reference="Petsiuk et al. 2018 (RISE)",
        higher_is_better=False,
        low=0,
        high=1,
        needs=frozenset({"model"}),
        default=True,
        aliases=("deletion_auc", "deletion"),
    )
)
@dataclass(frozen=True, kw_only=True)
class DeletionArea(CurveMetric):
    """Area under p against the share of units that have left; small where the probability falls at once.

    The area is exact for the curve through the evaluated points (trapezoids). The parts are the curve itself at the
    shares 0, 1/steps, ..., 1. For a regression p is the output itself, and the range on the card does not hold.

    Where ``comprehensiveness`` looks at a few sizes of explanation, this one looks at the whole order. It costs
    ``steps`` + 1 rows per text, fewer for short ones. ``insertion_area`` goes the other way.

    Args:
        steps: into how many parts the curve is cut.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.

    Example:
        >>> from didact.protocols import Evidence
        >>> DeletionArea(steps=20).measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """All variants of all texts at once."""
        return self.areas(evidence, lambda explanation, counts: ~top(explanation, counts))
