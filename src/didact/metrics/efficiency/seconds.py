"""Seconds: wall time of an explanation."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="seconds",
        family="efficiency",
        summary="Wall time per explanation.",
        reference="our own",
        higher_is_better=False,
        low=0.0,
        timed=True,
        default=True,
        aliases=("time", "runtime"),
    )
)
@dataclass(frozen=True, kw_only=True)
class Seconds(BaseMetric):
    """As measured where the explanation was made; texts explained in one call share its time by their cost.

    NaN where it was not measured.

    Example:
        >>> Seconds().measure(Evidence(explanations))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Read the cost."""
        times = [explanation.cost.seconds for explanation in evidence.explanations]
        return [Grade(float("nan") if seconds is None else seconds) for seconds in times]
