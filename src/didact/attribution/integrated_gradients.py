"""Integrated gradients: gradients added up on the way from an uninformative input to the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from didact.attribution._completeness import missed_warning, misses
from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.paths import Line, quadrature
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="integrated_gradients",
        family="gradient",
        summary="Gradient averaged along the straight line from a baseline to the text, times the difference.",
        reference="Sundararajan, Taly and Yan 2017; Pruthi et al. 2022 (50 steps); "
        "Fernandes et al. 2022 (10 and 50 steps, zero baseline)",
        cost="steps + 3 forwards, steps backwards; again with twice the steps while 5 % are missed",
        needs=frozenset({DIFFERENTIABLE}),
        axioms=frozenset({"completeness"}),
        tolerance=0.02,
        default=True,
        aliases=("ig", "integrated_gradient"),
    )
)
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(Attribution):
    """Scores add up to target(text) - target(baseline) as steps grow; the gap is kept in ``details``.

    The baseline replaces the units' token embeddings; special tokens stay, so they get no share. Where the scores of a
    text miss more than 5 % of the difference, its steps are doubled until they do not, or ``max_steps`` is reached:
    then the explanation has a warning. ``details`` has the steps where they were raised.

    Args:
        steps: points on the line.
        max_steps: the most points that a text may take; the same as ``steps`` to keep their number fixed.
        baseline: "mask", "pad" or "zero" embedding, or "token:X"; "mask" falls back to "pad" without a mask token.
        rule: where the points lie: "gauss_legendre", "midpoint" or "right".
        aggregate: "sum" over the embedding's dimensions, or their "norm", which has no sign and adds up to nothing.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="integrated_gradients", steps=50)  # doctest: +SKIP
    """

    steps: int = 50
    max_steps: int = 800
    baseline: str = "mask"
    rule: Literal["gauss_legendre", "midpoint", "right"] = "gauss_legendre"
    aggregate: Literal["sum", "norm"] = "sum"

    def __post_init__(self) -> None:
        at_least(self, steps=1, max_steps=1)

    @property
    def signed(self) -> bool:
        """A norm has no sign."""
        return self.aggregate == "sum"

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Differentiate along each line, and along some of them again with more steps."""
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        rounds: list[list[_Integral]] = [[] for _ in units]
        due, steps = list(range(len(units))), self.steps
        while due:
            lines = [(units[i], targets[i], starts[i], ends[i]) for i in due]
            for i, integral in zip(due, self._integrals(model, lines, steps), strict=True):
                rounds[i].append(integral)
            steps *= 2
            due = [i for i in due if steps <= self.max_steps and misses(model, *rounds[i][-1].missed)]
        return [self._outcome(model, unit, own) for unit, own in zip(units, rounds, strict=True)]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the points and both ends; more where steps are raised."""
        return Cost(forwards=self.steps + 3, backwards=self.steps)

    def _integrals(
        self, model: Differentiable, lines: Sequence[tuple[Units, Target, Tensor, Tensor]], steps: int
    ) -> list[_Integral]:
        """One pass over the points of each line; its two ends, only evaluated, give the check and the gap."""
        alphas, weights = quadrature(self.rule, steps)
        alphas = np.append(alphas, (0.0, 1.0))
        units, targets = [line[0] for line in lines], [line[1] for line in lines]
        points = [Line(start, end, alphas) for _, _, start, end in lines]
        gradients = model.gradients(units, targets, points, [weights] * len(lines))
        return [
            _Integral(steps, gradient * (line.end - line.start), float(values[-2]), float(values[-1]))
            for line, (values, gradient) in zip(points, gradients, strict=True)
        ]

    def _outcome(self, model: Differentiable, units: Units, rounds: Sequence[_Integral]) -> Outcome:
        last = rounds[-1]
        tokens = last.parts.sum(-1) if self.aggregate == "sum" else last.parts.norm(dim=-1)
        gap, difference = last.missed
        details = {"base_value": last.base, "completeness_gap": gap}
        if len(rounds) > 1:
            details["steps"] = float(last.steps)
        cure = f"{last.steps} steps are too few; raise max_steps, or use another baseline"
        missed = (missed_warning(self.card.name, gap, difference, cure),) if misses(model, *last.missed) else ()
        spent = sum(own.steps for own in rounds)
        return Outcome(
            sum_to_units(units, tokens),
            last.full,
            details,
            warnings=missed,
            forwards=spent + 2 * len(rounds) + 1,
            backwards=spent,
        )


@dataclass(frozen=True, eq=False)
class _Integral:
    """Gradients along one line, summed up.

    Attributes:
        steps: points on the line.
        parts: share of every number of the embeddings, (tokens, dim).
        base: the target at the baseline.
        full: the target at the text.
    """

    steps: int
    parts: Tensor
    base: float
    full: float

    @property
    def missed(self) -> tuple[float, float]:
        """What the parts add up to beyond the difference, and the difference."""
        difference = self.full - self.base
        return float(self.parts.double().sum()) - difference, difference
