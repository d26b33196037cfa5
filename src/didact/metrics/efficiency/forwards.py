"""Forwards: evaluations of the model that an explanation requested."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="forwards",
        family="efficiency",
        summary="Evaluations of the model requested, with how many of them were differentiated.",
        reference="our own",
        higher_is_better=False,
        low=0.0,
        default=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class Forwards(BaseMetric):
    """Rows, not batches, the plain prediction included; the part "backwards" counts those that were differentiated.

    It depends on the method and the text alone, so it is the same on every machine. ``evaluated`` counts a repeated
    variant once, ``seconds`` is what it took here.

    Example:
        >>> Forwards().measure(Evidence(explanations))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Read the cost."""
        costs = [explanation.cost for explanation in evidence.explanations]
        return [Grade(float(cost.forwards), {"backwards": float(cost.backwards)}) for cost in costs]
