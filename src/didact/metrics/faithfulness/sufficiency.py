"""Sufficiency (ERASER): how far the probability falls when only the top units are left."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._erasure import Erasure, model_of, named, score_variants, whole
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="sufficiency",
        family="faithfulness",
        summary="Fall of the probability when only the top units are left, averaged over several k % (AOPC).",
        reference="DeYoung et al. 2020 (ERASER)",
        higher_is_better=False,
        low=-1,
        high=1,
        needs=frozenset({"model"}),
        default=True,
        aliases=("aopc_sufficiency",),
    )
)
@dataclass(frozen=True, kw_only=True)
class Sufficiency(Erasure):
    """Mean over k of p(x) - p(the top k % of units alone), p being the probability of the explained label.

    Small where the top units are enough for the prediction, below 0 where they alone make the model surer. This is
    ERASER's term; elsewhere "sufficiency" also means that equal explanations go with equal labels. With one percent
    this is sufficiency at k %; with several it is the area over the perturbation curve (AOPC), the plain mean, and the
    parts are the values at each k. AML's "Suff" is ``percents=[20], rounding="floor"`` on tokens, its "A-S" the default
    with ``rounding="floor"``. For a regression p is the output itself, and the range on the card does not hold.

    A few units alone are far from any text the model has seen: put ``robust_sufficiency`` beside it.

    Args:
        percents: how much of the text is left.
        rounding: "ceil" leaves at least one unit; under "floor", AML's rule, the value is 0, the best there is, where
            none is left.
        absence: how an absent unit is shown; "delete" means the model's default for images, which lose no pixels.

    Example:
        >>> from didact.protocols import Evidence
        >>> Sufficiency(percents=(20,)).measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """One row per text and percent."""
        keep = [self.selections(explanation) for explanation in evidence.explanations]
        outputs = score_variants(model_of(evidence), evidence.explanations, keep, self.absence)
        grades = []
        for explanation, masks, values in zip(evidence.explanations, keep, outputs, strict=True):
            falls = whole(explanation) - values
            falls[~masks.any(axis=1)] = 0.0  # AML's rule where no unit is left
            grades.append(Grade(float(falls.mean()), named(self.percents, falls)))
        return grades
