"""Break-even: after how many explanations a trained explainer has repaid its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.metrics._words import mean_defined
from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.settings import at_least
from didact.types import Explanation, Grade, MetricCard


@register(
    MetricCard(
        name="break_even",
        family="efficiency",
        summary="Explanations after which training has cost less time than a slower explainer would have.",
        reference="our own; after Covert et al. 2024 (stochastic amortisation)",
        higher_is_better=False,
        low=0.0,
        needs=frozenset({"corpus"}),
        timed=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class BreakEven(BaseMetric):
    """Training time over what each explanation saves: training / (slow - own), with mean seconds of all texts.

    One number for all texts, repeated on each. It is NaN when the explainer saves nothing, so that training never pays,
    and when ``slow_seconds`` is not given; the part "saved" tells the two apart, as it is negative or zero in the first
    case. Where other explainers are given, there is a part for each, as if it were the slow one.

    Args:
        training_seconds: what training took, its reference explanations included; 0 for an explainer without
            training.
        slow_seconds: what one explanation of the slower explainer takes.

    Example:
        >>> BreakEven(training_seconds=3600, slow_seconds=2.5).measure(Evidence(explanations))  # doctest: +SKIP
    """

    training_seconds: float = 0.0
    slow_seconds: float | None = None

    def __post_init__(self) -> None:
        at_least(self, training_seconds=0)
        if self.slow_seconds is not None:
            at_least(self, slow_seconds=0)

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Compare mean times."""
        own = _mean_seconds(evidence.explanations)
        slow = float("nan") if self.slow_seconds is None else self.slow_seconds
        parts = {label: self._after(_mean_seconds(others) - own) for label, others in evidence.others.items()}
        grade = Grade(self._after(slow - own), {"saved": slow - own, **parts})
        return [grade] * len(evidence.explanations)

    def _after(self, saved: float) -> float:
        return self.training_seconds / saved if saved > 0 else float("nan")


def _mean_seconds(explanations: Sequence[Explanation]) -> float:
    times = [explanation.cost.seconds for explanation in explanations]
    return mean_defined(float("nan") if seconds is None else seconds for seconds in times)
