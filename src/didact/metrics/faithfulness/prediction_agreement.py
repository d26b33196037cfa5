"""Prediction agreement (L2E): whether the top units alone give the same prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didact.metrics.base import register
from didact.metrics.faithfulness._erasure import Erasure, model_of, named
from didact.metrics.faithfulness._labels import score_all_labels
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="prediction_agreement",
        family="faithfulness",
        summary="Whether the model predicts the same label when all but the top 30 % of units are masked.",
        reference="Situ et al. 2021 (L2E)",
        higher_is_better=True,
        low=0,
        high=1,
        needs=frozenset({"model", "classes"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class PredictionAgreement(Erasure):
    """1 where the label predicted from the top units, all others masked, is that of the whole text, else 0.

    With several percents, the mean over them. Every explanation is judged by itself: a random one that agrees half of
    the time scores a half. A text of which all units are selected agrees by definition, and counts.

    It costs one row per text, percent and label. ``sufficiency`` measures by how much the probability changes where
    this checks only whether the label does.

    Args:
        percents: how much of the text is left.
        rounding: "ceil" leaves at least one unit; under "floor" there may be none, and the model sees masks alone.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.

    Example:
        >>> from didact.protocols import Evidence
        >>> PredictionAgreement().measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    percents: tuple[float, ...] = (30.0,)
    absence: str = "mask"

    def grade(self, evidence: Evidence) -> list[Grade]:
        """One row per text, percent and label."""
        keep = [self.selections(explanation) for explanation in evidence.explanations]
        scored = score_all_labels(model_of(evidence), evidence.explanations, keep, self.absence)
        grades = []
        for explanation, masks, outputs in zip(evidence.explanations, keep, scored, strict=True):
            same = (outputs.argmax(axis=1) == explanation.prediction.index) | masks.all(axis=1)
            grades.append(Grade(float(same.mean()), named(self.percents, same.astype(np.float64))))
        return grades
