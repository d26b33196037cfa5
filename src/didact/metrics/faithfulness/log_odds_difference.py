"""Log-odds difference (L2E): how far the log-odds fall when the top units are masked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didact.metrics.base import register
from didact.metrics.faithfulness._erasure import Erasure, model_of, named
from didact.metrics.faithfulness._labels import score_all_labels
from didact.protocols import Evidence
from didact.settings import at_least
from didact.types import Explanation, Floats, Grade, MetricCard, Prediction


@register(
    MetricCard(
        name="log_odds_difference",
        family="faithfulness",
        summary="Fall of the log-odds when the top 30 % of units are masked.",
        reference="Situ et al. 2021 (L2E)",
        higher_is_better=True,
        needs=frozenset({"model", "classes"}),
        aliases=("log_odds",),
    )
)
@dataclass(frozen=True, kw_only=True)
class LogOddsDifference(Erasure):
    """Mean over k of LO(p(x)) - LO(p(x with its top k % of units masked)), where LO(p) = ln(p / (1 - p)).

    High where the units that support the label carry it. The log-odds are computed from the outputs of all labels,
    the label's own against the others together, so that a probability that rounds to 1 still has the log-odds it
    should; they are held to plus and minus ``limit``, for functions that return exactly 0 or 1. Where labels do not
    exclude each other, the log-odds of a label are its logit. Texts of which all units are selected count like others.

    It costs one row per text, percent and label. ``log_probability_drop``, which AML calls "log-odds", is another
    number with the opposite direction.

    Args:
        percents: how much of the text is masked.
        rounding: "ceil" masks at least one unit; under "floor" the value is 0 where none is.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.
        limit: largest size of the log-odds.

    Example:
        >>> from didact.protocols import Evidence
        >>> LogOddsDifference().measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    percents: tuple[float, ...] = (30.0,)
    absence: str = "mask"
    limit: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, limit=1)

    def grade(self, evidence: Evidence) -> list[Grade]:
        """One row per text, percent and label."""
        keep = [~self.selections(explanation) for explanation in evidence.explanations]
        scored = score_all_labels(model_of(evidence), evidence.explanations, keep, self.absence)
        grades = []
        for explanation, masks, outputs in zip(evidence.explanations, keep, scored, strict=True):
            plain = self._log_odds(explanation, np.array([explanation.prediction.outputs]))
            falls = plain - self._log_odds(explanation, outputs)
            falls[masks.all(axis=1)] = 0.0
            grades.append(Grade(float(falls.mean()), named(self.percents, falls)))
        return grades

    def _log_odds(self, explanation: Explanation, outputs: Floats) -> Floats:
        """Log-odds of the label against the others, or the contrasted one: (variants, labels) -> (variants,)."""
        index, other = explanation.target.index, explanation.target.contrast
        own = outputs[:, index]
        if other is not None:
            own = own - outputs[:, other]
        elif _excludes(explanation.prediction):
            own = own - np.logaddexp.reduce(np.delete(outputs, index, axis=1), axis=1)
        return np.clip(own, -self.limit, self.limit)


def _excludes(prediction: Prediction) -> bool:
    """Whether the probabilities are the softmax of the outputs, that is, whether one label excludes the others."""
    outputs = np.array(prediction.outputs)
    softmax = np.exp(outputs - np.logaddexp.reduce(outputs))
    return bool(np.allclose(softmax, prediction.probabilities, atol=1e-3))
