"""Rationale AUC: how well the scores put the words of the rationale above the others."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.plausibility._helpers import Bools, Plausibility, roc_auc
from didact.types import Floats, Grade, MetricCard


@register(
    MetricCard(
        name="rationale_auc",
        family="plausibility",
        summary="Area under the ROC curve of the scores against the human rationale.",
        reference="Fernandes et al. 2022 (SMaT)",
        low=0.0,
        high=1.0,
        needs=frozenset({"rationale"}),
        default=True,
        aliases=("rationale_auroc", "auc_plausibility"),
    )
)
@dataclass(frozen=True, kw_only=True)
class RationaleAuc(Plausibility):
    """Probability that a word of the rationale scores above another word, ties counting half.

    Signed scores count as they are: the rationale is evidence for the label, so a method that scores it negative is
    wrong, unless ``evidence`` says otherwise. Chance gives 0.5 whatever the size of the rationale, unlike
    ``rationale_average_precision``. The settings are those of all comparisons with rationales.

    Example:
        >>> from didact.metrics.plausibility.rationale_auc import RationaleAuc
        >>> RationaleAuc(stop_words="english").measure(evidence)  # doctest: +SKIP
    """

    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Count the pairs in the right order."""
        return Grade(roc_auc(scores, gold))
