"""Integrated gradients: gradients added up on the way from an uninformative input to the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
        cost="steps + 3 forwards, steps backwards",
        needs=frozenset({DIFFERENTIABLE}),
        axioms=frozenset({"completeness"}),
        tolerance=0.02,
    )
)
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(Attribution):
    """Scores add up to target(text) - target(baseline) as steps grow; the gap is kept in ``details``.

    The baseline replaces the units' token embeddings; special tokens stay, so they get no share.

    Args:
        steps: points on the line.
        baseline: "mask", "pad" or "zero" embedding, or "token:X"; "mask" falls back to "pad" without a mask token.
        rule: where the points lie: "gauss_legendre", "midpoint" or "right".
        aggregate: "sum" over the embedding's dimensions, or their "norm", which has no sign and adds up to nothing.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="integrated_gradients", steps=50)  # doctest: +SKIP
    """

    steps: int = 50
    baseline: str = "mask"
    rule: Literal["gauss_legendre", "midpoint", "right"] = "gauss_legendre"
    aggregate: Literal["sum", "norm"] = "sum"

    def __post_init__(self) -> None:
        at_least(self, steps=1)

    @property
    def signed(self) -> bool:
        """A norm has no sign."""
        return self.aggregate == "sum"

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Differentiate along each line; its two ends, only evaluated, give the check and the gap."""
        alphas, weights = quadrature(self.rule, self.steps)
        alphas = np.append(alphas, (0.0, 1.0))
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        lines = [Line(start, end, alphas) for start, end in zip(starts, ends, strict=True)]
        gradients = model.gradients(units, targets, lines, [weights] * len(units))
        outcomes = []
        for unit, line, (values, gradient) in zip(units, lines, gradients, strict=True):
            parts = gradient * (line.end - line.start)
            tokens = parts.sum(-1) if self.aggregate == "sum" else parts.norm(dim=-1)
            base, full = float(values[-2]), float(values[-1])
            details = {"base_value": base, "completeness_gap": float(parts.double().sum()) - (full - base)}
            outcomes.append(Outcome(sum_to_units(unit, tokens), full, details))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the points and both ends."""
        return Cost(forwards=self.steps + 3, backwards=self.steps)
