"""Top-k agreement: how many of the most important words two explainers share."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics._words import overlap, top, top_size
from didact.metrics.agreement._helpers import with_each_other
from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.settings import at_least, check_share
from didact.types import Floats, Grade, MetricCard


@register(
    MetricCard(
        name="top_k_agreement",
        family="agreement",
        summary="Share of the highest scored words that other explainers score highest too.",
        reference="Pruthi et al. 2022 (overlap of the top 10 %); Krishna et al. 2022 (feature agreement)",
        higher_is_better=None,
        low=0.0,
        high=1.0,
        needs=frozenset({"others"}),
        default=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class TopKAgreement(BaseMetric):
    """Words that are among the K highest scored of both explainers, over K; mean over the other explainers.

    Chance gives K over the number of words. The parts, one per other explainer, are a row of the overlap matrix. Words
    tied at the cut share the places that are left.

    Args:
        share: K as a share of the words, rounded up.
        k: K itself, at most all words, instead of ``share``.
        magnitude: compare absolute scores, as is fair where one explainer's scores have a sign and another's have not.

    Example:
        >>> TopKAgreement(k=5).measure(Evidence(explanations, others={"lime": by_lime}))  # doctest: +SKIP
    """

    share: float = 0.1
    k: int | None = None
    magnitude: bool = False

    def __post_init__(self) -> None:
        check_share(self, "share")
        if self.k is not None:
            at_least(self, k=1)

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Compare with every other explainer."""
        return with_each_other(self.card.name, evidence, self.magnitude, self._compare)

    def _compare(self, first: Floats, second: Floats) -> float:
        size = min(self.k, len(first)) if self.k is not None else top_size(len(first), self.share)
        return overlap(top(first, size), top(second, size)) / size if size else float("nan")
