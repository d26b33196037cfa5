"""Rationale IoU: the words with the highest scores and the rationale's words, intersection over union."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics._words import overlap, top, union
from didact.metrics.base import register
from didact.metrics.plausibility._helpers import Bools, Plausibility, check_size, selection_size
from didact.types import Floats, Grade, MetricCard


@register(
    MetricCard(
        name="rationale_iou",
        family="plausibility",
        summary="Intersection over union of the highest scored words and the rationale's words.",
        reference="DeYoung et al. 2020 (ERASER, token IoU)",
        low=0.0,
        high=1.0,
        needs=frozenset({"rationale"}),
        aliases=("token_iou", "token_iou_plau"),
    )
)
@dataclass(frozen=True, kw_only=True)
class RationaleIou(Plausibility):
    """Words that are both among the K highest scored and in the rationale, over words that are either.

    With K the size of the rationale it orders explanations of one text as ``rationale_recall_at_k`` does, R / (2 - R),
    but punishes misses more: report one of the two. Words tied at the cut share the places that are left.

    Args:
        k: how many words are selected.
        share: the same as a share of the text's words, rounded up. Without either it is the size of the rationale.

    Example:
        >>> RationaleIou(share=0.1).measure(evidence)  # doctest: +SKIP
    """

    k: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self, self.k, self.share)

    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Compare the selection with the rationale."""
        chosen, wanted = top(scores, selection_size(gold, self.k, self.share)), gold.astype(float)
        return Grade(overlap(chosen, wanted) / union(chosen, wanted))
