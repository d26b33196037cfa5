"""Learned scores corrected by a few evaluations of the model on each text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from didact.attribution._rounds import Pairs, in_rounds
from didact.attribution.base import Outcome, generator
from didact.errors import ParameterError
from didact.meter import metered
from didact.ops.shapley import informative_pairs, prior_fit
from didact.protocols import Model
from didact.settings import fits
from didact.trained.explainer import LearnedExplainer
from didact.trained.wrapping import WrappedExplainer, added
from didact.types import Card, Cost, Explanation, JsonValue, Units


class BudgetedExplainer(WrappedExplainer):
    """Shapley values from few evaluations, for which learned scores are what is expected beforehand.

    The learned scores are the mean of a Gaussian process over what coalitions of units do to the model. The coalitions
    that say most about the values under it are evaluated, and correct them: with none they stay as they are, with all
    of them the values are exact. The factor between the learned scores and the explained number is estimated too, so
    scores of any scale will do. Each score has a standard error, which rests on how far the evaluations are from what
    was expected. Scores add up to target(text) - target(text without its units).

    Args:
        learned: an explainer whose scores have a sign.
        evaluations: coalitions evaluated per text, besides the full and the empty one.
        tolerance: stop early once the largest standard error of a unit is this small.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides which coalitions are drawn to choose from.
    """

    card: ClassVar[Card] = Card(
        name="budgeted",
        family="learned",
        summary="Learned scores, corrected by a few evaluations of the model on each text, with standard errors.",
        reference="didact; Covert and Lee 2021 (pairs)",
        cost="that of the learned explainer and evaluations + 2 forwards",
        seeded=True,
    )

    def __init__(
        self,
        learned: LearnedExplainer,
        evaluations: int = 64,
        *,
        tolerance: float | None = None,
        absence: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(learned)
        if not fits(evaluations, int) or evaluations < 2:
            raise ParameterError(f"evaluations must be a whole number of at least 2 (one pair), got {evaluations!r}")
        if tolerance is not None and not tolerance >= 0:
            raise ParameterError(f"tolerance must be at least 0, or None, got {tolerance!r}")
        if not learned.signed:
            raise ParameterError(
                f"evaluations correct scores that have a sign, and those of this {learned.card.name} explainer have "
                "none; refine it instead (command line: --refine), or use kernel_shap"
            )
        self.evaluations = evaluations
        self.tolerance = tolerance
        self.absence = absence
        self.seed = seed

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The budget, and the parameters of the learned explainer."""
        own = {name: getattr(self, name) for name in ("evaluations", "tolerance", "absence", "seed")}
        return {**super().parameters, **own}

    def cost(self, units: Units) -> Cost:
        """The learned explanation, full, empty and the coalitions."""
        return added(self.learned.cost(units), Cost(forwards=2 * self._pairs(len(units)) + 2))

    def revise(self, model: Model, explanations: Sequence[Explanation]) -> list[Explanation]:
        """Each explanation corrected; all texts share the evaluations' batches."""
        scored = [number for number, one in enumerate(explanations) if len(one.units)]
        revised = list(explanations)
        if not scored:
            return revised
        chosen = [explanations[number] for number in scored]
        with metered() as meter:
            jobs = [self._job(one) for one in chosen]
            units, targets = [one.units for one in chosen], [one.target for one in chosen]
            outcomes = in_rounds(model, units, targets, jobs, self.absence)
        share = Cost(0, 0, round(meter.evaluated / len(chosen)), meter.seconds / len(chosen))
        for number, one, outcome in zip(scored, chosen, outcomes, strict=True):
            revised[number] = self._corrected(one, outcome, share)
        return revised

    def _pairs(self, units: int) -> int:
        """Pairs of complementary coalitions that are evaluated: no more than there are."""
        return min(self.evaluations // 2, (1 << (units - 1)) - 1) if units else 0

    def _job(self, explanation: Explanation) -> Pairs:
        n = len(explanation.units)
        rows = informative_pairs(explanation.array, self._pairs(n), generator(self.seed, explanation.example))
        return Pairs(rows, partial(prior_fit, prior=explanation.array), self.tolerance)

    def _corrected(self, explanation: Explanation, outcome: Outcome, share: Cost) -> Explanation:
        cost = dataclasses.replace(share, forwards=(outcome.forwards or 1) - 1)  # without the prediction
        return dataclasses.replace(
            explanation,
            method=self.card.name,
            scores=tuple(float(score) for score in outcome.scores),
            errors=tuple(float(error) for error in outcome.errors),
            details={**explanation.details, **outcome.details},
            parameters=self.parameters,
            cost=added(explanation.cost, cost),
        )
