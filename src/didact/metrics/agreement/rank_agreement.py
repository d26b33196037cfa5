"""Rank agreement: whether two explainers put the words in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from didact.metrics._ranks import Coefficient, rank_correlation
from didact.metrics.agreement._helpers import with_each_other
from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="rank_agreement",
        family="agreement",
        summary="Rank correlation of the scores with those of other explainers.",
        reference="Krishna et al. 2022 (rank correlation)",
        higher_is_better=None,
        low=-1.0,
        high=1.0,
        needs=frozenset({"others"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class RankAgreement(BaseMetric):
    """Mean over the other explainers of the rank correlation between the words' scores.

    Two explainers that both tie all words agree (1); one that ties all of them and one that does not are
    unrelated (0). The parts are the values for each other explainer.

    Args:
        coefficient: "spearman" or "kendall" (τ-b).
        magnitude: compare absolute scores, as is fair where one explainer's scores have a sign and another's have not.

    Example:
        >>> RankAgreement().measure(Evidence(explanations, others={"lime": by_lime}))  # doctest: +SKIP
    """

    coefficient: Coefficient = "spearman"
    magnitude: bool = False

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Compare with every other explainer."""
        compare = partial(rank_correlation, coefficient=self.coefficient)
        return with_each_other(self.card.name, evidence, self.magnitude, compare)
