"""Rationale recall at K: how much of the rationale is among the highest scores."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics._words import overlap, top
from didact.metrics.base import register
from didact.metrics.plausibility._helpers import Bools, Plausibility, check_size, selection_size
from didact.types import Floats, Grade, MetricCard


@register(
    MetricCard(
        name="rationale_recall_at_k",
        family="plausibility",
        summary="Share of the rationale's words that are among the K highest scores.",
        reference="Fernandes et al. 2022 (SMaT)",
        low=0.0,
        high=1.0,
        needs=frozenset({"rationale"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class RationaleRecallAtK(Plausibility):
    """Recall of the K words with the highest scores; K is the size of the rationale unless given.

    Words tied at the cut share the places that are left: the value is what a random order of the tied words gives on
    average.

    Args:
        k: how many words; as many as the rationale has when not given, as in the paper.

    Example:
        >>> RationaleRecallAtK(k=10).measure(evidence)  # doctest: +SKIP
    """

    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self, self.k)

    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Count the rationale's words among the highest scores."""
        chosen = top(scores, selection_size(gold, self.k))
        return Grade(overlap(chosen, gold.astype(float)) / float(gold.sum()))
