"""Log-probability drop: what AML calls log-odds (LO)."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._erasure import Erasure, model_of, named, score_variants, whole
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="log_probability_drop",
        family="faithfulness",
        summary="Change of the log-probability when the top 20 % of units are masked (AML's LO).",
        reference="Shrikumar et al. 2017; Barkan et al. 2024 (AML)",
        higher_is_better=False,
        needs=frozenset({"model", "classes"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class LogProbabilityDrop(Erasure):
    """Mean over k of log p(x with its top k % of units masked) - log p(x), p being that of the explained label.

    Below 0 where masking takes evidence away, and the lower the better. AML and others call this "log-odds" though no
    odds are in it; ``log_odds_difference`` is the difference of log-odds, with the opposite direction.
    AML's own is ``rounding="floor"`` on tokens.

    Args:
        percents: how much of the text is masked.
        rounding: "ceil" masks at least one unit; under "floor", AML's rule, the value is 0 where none is.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.

    Example:
        >>> from didact.protocols import Evidence
        >>> LogProbabilityDrop().measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    percents: tuple[float, ...] = (20.0,)
    absence: str = "mask"

    def grade(self, evidence: Evidence) -> list[Grade]:
        """One row per text and percent."""
        keep = [~self.selections(explanation) for explanation in evidence.explanations]
        outputs = score_variants(model_of(evidence), evidence.explanations, keep, self.absence, "log_probability")
        grades = []
        for explanation, values in zip(evidence.explanations, outputs, strict=True):
            changes = values - whole(explanation, "log_probability")
            grades.append(Grade(float(changes.mean()), named(self.percents, changes)))
        return grades
