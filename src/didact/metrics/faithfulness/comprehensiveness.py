"""Comprehensiveness (ERASER): how far the probability falls when the top units are taken out."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._erasure import Erasure, model_of, named, score_variants, whole
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="comprehensiveness",
        family="faithfulness",
        summary="Fall of the probability when the top units are deleted, averaged over several k % (AOPC).",
        reference="DeYoung et al. 2020 (ERASER)",
        higher_is_better=True,
        low=-1,
        high=1,
        needs=frozenset({"model"}),
        default=True,
        aliases=("aopc_comprehensiveness", "aopc_compr"),
    )
)
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness(Erasure):
    """Mean over k of p(x) - p(x without its top k % of units), p being the probability of the explained label.

    With one percent this is comprehensiveness at k %; with several it is ERASER's area over the perturbation curve
    (AOPC), the plain mean, and the parts are the values at each k. AML's "Comp" is ``percents=[20], rounding="floor"``
    on tokens, its "A-C" the default with ``rounding="floor"``. For a regression p is the output itself, and the range
    on the card does not hold.

    Deleting makes texts that the model may never have seen: put ``robust_comprehensiveness`` beside it. ``sufficiency``
    measures the opposite.

    Args:
        percents: how much of the text is taken out.
        rounding: "ceil" takes out at least one unit; under "floor", AML's rule, the value is 0 where none is.
        absence: how an absent unit is shown; "delete" means the model's default for images, which lose no pixels.

    Example:
        >>> from didact.protocols import Evidence
        >>> Comprehensiveness(percents=(20,)).measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """One row per text and percent."""
        keep = [~self.selections(explanation) for explanation in evidence.explanations]
        outputs = score_variants(model_of(evidence), evidence.explanations, keep, self.absence)
        pairs = zip(evidence.explanations, outputs, strict=True)
        falls = [whole(explanation) - values for explanation, values in pairs]
        return [Grade(float(fall.mean()), named(self.percents, fall)) for fall in falls]
