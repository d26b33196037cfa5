"""Fallback: texts on which a learned explainer is expected to be far from its reference are explained by a slow one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from didact.errors import ParameterError
from didact.meter import metered
from didact.protocols import Explainer, Model
from didact.trained.checked import checked_disagreement
from didact.trained.checking import quick_method
from didact.trained.explainer import LearnedExplainer
from didact.trained.wrapping import WrappedExplainer, added
from didact.types import Card, Cost, Explanation, JsonValue, Units


class FallbackExplainer(WrappedExplainer):
    """Explains by a learned explainer, and again by a slow one where disagreement with its reference is expected.

    ``method`` of an explanation is the explainer that made it; the expected disagreement stays among its details, and
    its cost is that of both. Without ``check`` the estimate holds for texts like those of the training alone and may
    miss texts of another kind; with it, a few evaluations of the model on each text enter the estimate.

    Args:
        learned: an explainer with an estimate of its disagreement.
        slow: explains the texts above the threshold; mostly the reference.
        above: expected disagreement above which a text is explained again; the threshold of the estimate when not
            given.
        check: evaluate the model on each text, as often as ``checks`` of the training says, to see whether the scores
            predict it.
    """

    card: ClassVar[Card] = Card(
        name="fallback",
        family="learned",
        summary="A learned explainer, and a slow one for texts on which much disagreement is expected.",
        reference="didact",
        cost="that of the learned explainer; above the threshold also that of the slow one",
    )

    def __init__(
        self, learned: LearnedExplainer, slow: Explainer, *, above: float | None = None, check: bool = False
    ) -> None:
        super().__init__(learned)
        estimate = learned.checked if check else learned.disagreement
        if estimate is None:
            raise ParameterError(
                "a fallback was given, but this explainer has no estimate of its disagreement with a reference; "
                + (
                    "train it with held-out texts"
                    if learned.about.masks is None
                    else "it learned from none, so refine it instead (command line: --refine)"
                )
            )
        self.slow = slow
        self.check = check
        self.checking = estimate.measured if check else None
        self.above = estimate.threshold if above is None else above

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The threshold, and the parameters of both explainers."""
        own = {f"slow.{name}": value for name, value in self.slow.parameters.items()}
        return {**super().parameters, "above": self.above, "check": self.check, "slow": self.slow.card.name, **own}

    def cost(self, units: Units) -> Cost:
        """That of a doubtful text, which is the most."""
        return added(added(self.learned.cost(units), self._cost_of_checks(units)), self.slow.cost(units))

    def revise(self, model: Model, explanations: Sequence[Explanation]) -> list[Explanation]:
        """Those with an expected disagreement above the threshold made again by the slow explainer, all at once."""
        explanations = self._checked(model, explanations) if self.check else explanations
        doubtful = [n for n, one in enumerate(explanations) if one.details["disagreement"] > self.above]
        if not doubtful:
            return list(explanations)
        first = [explanations[number] for number in doubtful]
        again = self.slow.explain(model, [one.example for one in first], [one.target for one in first])
        revised = list(explanations)
        for number, learned, slow in zip(doubtful, first, again, strict=True):
            details = {**slow.details, "disagreement": learned.details["disagreement"]}
            revised[number] = dataclasses.replace(slow, details=details, cost=added(learned.cost, slow.cost))
        return revised

    def _checked(self, model: Model, explanations: Sequence[Explanation]) -> list[Explanation]:
        """The same with the disagreement that is expected after checks."""
        with metered() as meter:
            values = checked_disagreement(self.learned, model, explanations)
        count = max(1, len(explanations))
        evaluated, seconds = round(meter.evaluated / count), meter.seconds / count
        costs = [
            dataclasses.replace(self._cost_of_checks(one.units), evaluated=evaluated, seconds=seconds)
            for one in explanations
        ]
        return [
            dataclasses.replace(one, details={**one.details, "disagreement": float(value)}, cost=added(one.cost, cost))
            for one, value, cost in zip(explanations, values, costs, strict=True)
        ]

    def _cost_of_checks(self, units: Units) -> Cost:
        """Evaluations of the model on a text, and the quick method that is compared with."""
        if self.checking is None:
            return Cost()
        checks = Cost(forwards=self.checking.checks)
        return checks if self.checking.beside is None else added(checks, quick_method(self.checking.beside).cost(units))
