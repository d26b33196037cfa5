"""Explainers that wrap a learned one: they look at its explanations and make some of them anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from didact.protocols import ExampleLike, Model, TargetLike
from didact.trained.explainer import LearnedExplainer
from didact.types import Card, Cost, Explanation, JsonValue, Level, Prediction, Units


class WrappedExplainer(ABC):
    """Explains by a learned explainer and then revises its explanations.

    Args:
        learned: makes the first explanations.
    """

    card: ClassVar[Card]

    def __init__(self, learned: LearnedExplainer) -> None:
        self.learned = learned

    @property
    def level(self) -> Level:
        """What gets a score."""
        return self.learned.about.level

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """Those of the learned explainer; a subclass adds its own."""
        return {f"learned.{name}": value for name, value in self.learned.parameters.items()}

    @abstractmethod
    def cost(self, units: Units) -> Cost:
        """Declared cost of explaining this example, revision included."""

    @abstractmethod
    def revise(self, model: Model, explanations: Sequence[Explanation]) -> list[Explanation]:
        """One explanation for each that the learned explainer made, in order, with the cost of both."""

    def explain(
        self,
        model: Model,
        examples: Sequence[ExampleLike],
        targets: Sequence[TargetLike] | None = None,
        *,
        predictions: Sequence[Prediction] | None = None,
    ) -> list[Explanation]:
        """One explanation per example, in order.

        Args:
            model: the explained model.
            examples: texts or pairs.
            targets: what to explain; the predicted class where not given.
            predictions: the model's predictions where they are known already.
        """
        return self.revise(model, self.learned.explain(model, examples, targets, predictions=predictions))


def added(first: Cost, second: Cost) -> Cost:
    """The cost of both; unknown where either is."""
    return Cost(
        first.forwards + second.forwards,
        first.backwards + second.backwards,
        None if first.evaluated is None or second.evaluated is None else first.evaluated + second.evaluated,
        None if first.seconds is None or second.seconds is None else first.seconds + second.seconds,
    )
