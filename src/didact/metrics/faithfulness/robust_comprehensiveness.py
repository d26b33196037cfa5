"""Robust comprehensiveness (F-Fidelity's Fid+): comprehensiveness that strange inputs do not fool."""

from __future__ import annotations

from dataclasses import dataclass

from didact.metrics.base import register
from didact.metrics.faithfulness._robust import Robust
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="robust_comprehensiveness",
        family="faithfulness",
        summary="Fall of a mask-trained surrogate's probability when few random units of the explanation are removed.",
        reference="Zheng et al. 2025 (F-Fidelity)",
        higher_is_better=True,
        low=-1,
        high=1,
        needs=frozenset({"surrogate"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class RobustComprehensiveness(Robust):
    """Mean over k and over random draws R from the top k % of units of q(x) - q(x without R).

    q is the probability that a surrogate gives the explained label: a copy of the model that was fine-tuned to keep
    its predictions when random units are missing (``didact.models.surrogate.fine_tune_masked``). As no more than a
    ``share`` of the text is missing at a time, the surrogate never sees what it was not trained for, whereas
    ``comprehensiveness`` may measure nothing but the model's surprise at mutilated texts. It costs ``samples`` rows per
    text and percent, fewer where draws repeat.

    Args:
        percents: how much of the text the explanation makes up.
        fraction: how much of the explanation is taken out at a time, at least one unit.
        share: largest share of the text that is taken out at a time; what the surrogate was fine-tuned for.
        samples: random draws per percent.
        seed: decides the draws, together with the text.
        absence: how an absent unit is shown; what the surrogate was fine-tuned for.

    Example:
        >>> from didact.protocols import Evidence
        >>> RobustComprehensiveness().measure(Evidence(explanations, surrogate=surrogate))  # doctest: +SKIP
    """

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Take out units of the explanation."""
        return self.falls(evidence, lambda chosen: chosen)
