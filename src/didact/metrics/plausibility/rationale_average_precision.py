"""Rationale average precision: precision at every word of the rationale, averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didact.metrics.base import register
from didact.metrics.plausibility._helpers import Bools, Plausibility
from didact.types import Floats, Grade, MetricCard


@register(
    MetricCard(
        name="rationale_average_precision",
        family="plausibility",
        summary="Average precision (area under the precision-recall curve) of the scores against the human rationale.",
        reference="Fernandes et al. 2022 (SMaT); DeYoung et al. 2020 (ERASER)",
        low=0.0,
        high=1.0,
        needs=frozenset({"rationale"}),
        default=True,
        aliases=("auprc", "average_precision", "auprc_plau"),
    )
)
@dataclass(frozen=True, kw_only=True)
class RationaleAveragePrecision(Plausibility):
    """Sum over the distinct scores, from the highest, of the gain in recall times the precision there.

    Tied words enter together. Chance gives about the rationale's share of the words, so values of texts with rationales
    of different size are not alike; ``rationale_auc`` has 0.5 for chance everywhere.

    Example:
        >>> RationaleAveragePrecision().measure(evidence)  # doctest: +SKIP
    """

    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Walk down the distinct scores."""
        order = np.argsort(-scores, kind="stable")
        last = np.append(np.diff(scores[order]) != 0, True)  # of each group of ties
        hits = np.cumsum(gold[order])[last]
        selected = np.arange(1, len(scores) + 1)[last]
        gains = np.diff(hits, prepend=0) / gold.sum()
        return Grade(float((gains * hits / selected).sum()))
