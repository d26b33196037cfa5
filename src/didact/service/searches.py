"""Tasks of the playground beside explanations: the smallest change that flips a prediction, and the decision record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.counterfactuals.flip import BUDGET, Flip, find_flip
from didact.decisions.record import DecisionRecord, make_record
from didact.protocols import Explainer, Model, TargetLike
from didact.service.tasks import Explaining, Predicting
from didact.types import Estimate, Example


@dataclass(frozen=True)
class Flipping:
    """Searches for flips, of single texts.

    Attributes:
        budget: plain passes per text at most.
    """

    budget: int = BUDGET
    method = "flip"

    @property
    def key(self) -> str:
        """Searches with equal budgets can be computed together."""
        return f"flip:{self.budget}"

    def estimate(self, model: Model, examples: Sequence[Example]) -> Estimate:
        """The whole budget, which few texts need."""
        single = Predicting().estimate(model, examples)
        passes = self.budget * len(examples)
        return Estimate("flip", len(examples), single.units, passes, 0, self.budget * single.seconds)

    def run(self, model: Model, examples: Sequence[Example], targets: Sequence[TargetLike]) -> Sequence[Flip]:
        """One flip per text."""
        return [
            find_flip(model, example, target=target, budget=self.budget)
            for example, target in zip(examples, targets, strict=True)
        ]


class Recording:
    """Decision records by one explainer: explanation, flip and a measure of trust.

    Args:
        explainer: a method with its settings, or a learned explainer.
    """

    method = "record"

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self.explaining = Explaining(explainer)
        self.key = f"record:{self.explaining.key}"

    def estimate(self, model: Model, examples: Sequence[Example]) -> Estimate:
        """What the explanation and the search take; trust is measured by far fewer passes."""
        explaining = self.explaining.estimate(model, examples)
        flipping = Flipping().estimate(model, examples)
        return Estimate(
            "record",
            len(examples),
            explaining.units,
            explaining.forwards + flipping.forwards,
            explaining.backwards,
            explaining.seconds + flipping.seconds,
        )

    def run(self, model: Model, examples: Sequence[Example], targets: Sequence[TargetLike]) -> Sequence[DecisionRecord]:
        """One record per text."""
        return [make_record(model, self.explainer, example, budget=BUDGET) for example in examples]
