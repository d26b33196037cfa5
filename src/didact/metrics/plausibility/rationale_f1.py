"""Rationale F1: the words with the highest scores as a prediction of the rationale's words."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics._words import overlap, top
from didact.metrics.base import register
from didact.metrics.plausibility._helpers import Bools, Plausibility, check_size, selection_size
from didact.types import Floats, Grade, MetricCard

SHARE = 0.3
"""Of the words, selected where neither ``k`` nor ``share`` is given."""


@register(
    MetricCard(
        name="rationale_f1",
        family="plausibility",
        summary="F1 of the 30 % highest scored words against the rationale's words, with precision and recall.",
        reference="DeYoung et al. 2020 (ERASER, token F1); Situ et al. 2021 (L2E)",
        low=0.0,
        high=1.0,
        needs=frozenset({"rationale"}),
        default=True,
        aliases=("token_f1", "token_f1_plau"),
    )
)
@dataclass(frozen=True, kw_only=True)
class RationaleF1(Plausibility):
    """Harmonic mean of precision and recall of the K highest scored words, text by text.

    The mean over texts is therefore the macro average; the parts "hits", "selected" and "gold", summed over texts, give
    the micro average: 2 hits / (selected + gold). Stop words are taken out before the K words are chosen, so that every
    explainer has K words left. K does not look at the rationale: with K the size of the rationale, precision, recall
    and F1 would be one number, that of ``rationale_recall_at_k``. Words tied at the cut share the places that are left.

    Args:
        k: how many words are selected.
        share: the same as a share of the text's words, rounded up. Without either it is 30 %, as in L2E.

    Example:
        >>> RationaleF1(share=0.2, stop_words="english").measure(evidence)  # doctest: +SKIP
    """

    k: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self, self.k, self.share)

    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Compare the selection with the rationale."""
        share = SHARE if self.k is None and self.share is None else self.share
        size, wanted = selection_size(gold, self.k, share), int(gold.sum())
        hits = overlap(top(scores, size), gold.astype(float))
        counts = {"hits": hits, "selected": float(size), "gold": float(wanted)}
        return Grade(2 * hits / (size + wanted), {"precision": hits / size, "recall": hits / wanted, **counts})
