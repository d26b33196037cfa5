"""What a worker can be given to compute: predictions, or explanations by one explainer with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from didact.counterfactuals.flip import Flip
from didact.decisions.record import DecisionRecord
from didact.models import estimate as forecast
from didact.protocols import Explainer, Model, TargetLike
from didact.trained.explainer import LearnedExplainer
from didact.types import Estimate, Example, Explanation, Prediction, Units
from didact.validation import dump_json

Computed = Prediction | Explanation | Flip | DecisionRecord

ONE_TOKEN = forecast.Pace(1.0, 1)
"""A pace at which an estimate's seconds are model evaluations x tokens."""


class Task(Protocol):
    """Work on examples that can be shared by requests: those with equal keys are computed in one call."""

    @property
    def key(self) -> str:
        """What decides the results, besides model, examples and targets."""
        ...

    @property
    def method(self) -> str:
        """What is run, for measured rates."""
        ...

    def estimate(self, model: Model, examples: Sequence[Example]) -> Estimate:
        """What it takes; ``seconds`` holds the cost: model evaluations x tokens."""
        ...

    def run(self, model: Model, examples: Sequence[Example], targets: Sequence[TargetLike]) -> Sequence[Computed]:
        """One result per example."""
        ...


@dataclass(frozen=True)
class Predicting:
    """Plain predictions."""

    key = "predict"
    method = "predict"

    def estimate(self, model: Model, examples: Sequence[Example]) -> Estimate:
        """One forward per example."""
        units = model.units(examples)
        return Estimate("predict", len(units), sum(map(len, units)), len(units), 0, float(sum(map(_tokens, units))))

    def run(self, model: Model, examples: Sequence[Example], targets: Sequence[TargetLike]) -> Sequence[Prediction]:
        """The model's answers."""
        return model.predict(examples)


class Explaining:
    """Explanations by one explainer.

    Args:
        explainer: a method with its settings, or a learned explainer.
        name: what its measured rate is filed under; the explainer's registered name when not given.
    """

    def __init__(self, explainer: Explainer, name: str | None = None) -> None:
        self.explainer = explainer
        self.method = name or explainer.card.name
        self.key = dump_json([self.method, dict(explainer.parameters)])

    def estimate(self, model: Model, examples: Sequence[Example]) -> Estimate:
        """As a dry run gives it."""
        level = self.explainer.parameters.get("level")
        units = model.units(examples, level if isinstance(level, str) else None)
        return forecast.estimate(model, units, self.explainer, ONE_TOKEN)

    def run(self, model: Model, examples: Sequence[Example], targets: Sequence[TargetLike]) -> Sequence[Explanation]:
        """Explain; nobody but the service has the model, so a learned explainer need not read all its weights."""
        if isinstance(self.explainer, LearnedExplainer):
            return self.explainer.explain(model, examples, targets, predictions=model.predict(examples))
        return self.explainer.explain(model, examples, targets)


def _tokens(units: Units) -> int:
    return max(1, sum(len(places) for places in units.positions))
