"""Evaluated: evaluations of the model that really ran."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="evaluated",
        family="efficiency",
        summary="Evaluations of the model that really ran, a repeated variant counted once.",
        reference="our own",
        higher_is_better=False,
        low=0.0,
    )
)
@dataclass(frozen=True, kw_only=True)
class Evaluated(BaseMetric):
    """At most ``forwards``; NaN where it was not measured. Texts explained in one call share its count by their cost.

    Example:
        >>> Evaluated().measure(Evidence(explanations))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Read the cost."""
        counts = [explanation.cost.evaluated for explanation in evidence.explanations]
        return [Grade(float("nan") if count is None else float(count)) for count in counts]
