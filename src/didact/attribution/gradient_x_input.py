"""Gradient times input: a first-order guess of what each token's embedding contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, register
from didact.ops.paths import single
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="gradient_x_input",
        family="gradient",
        summary="Dot product of each token's embedding with the target's gradient there.",
        reference="Shrikumar et al. 2017; Denil et al. 2014",
        cost="1 forward, 1 backward",
        needs=frozenset({DIFFERENTIABLE}),
        aliases=("gxi", "grad_x_input", "input_x_gradient", "gradient_times_input", "ixg"),
    )
)
@dataclass(frozen=True, kw_only=True)
class GradientXInput(Attribution):
    """Positive scores support the target; a word's score is the sum over its tokens.

    Cheap and often noisy: the network is far from linear between the input and the zero embedding.
    ``integrated_gradients`` follows the way instead of guessing it.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="gradient_x_input")  # doctest: +SKIP
    """

    one_pass = True

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """One gradient at the input."""
        vectors = model.embed(units)
        gradients = model.gradients(units, targets, [single(v) for v in vectors], [np.ones(1)] * len(units))
        return [
            Outcome(sum_to_units(unit, (gradient * vector).sum(-1)), float(values[0]))
            for unit, vector, (values, gradient) in zip(units, vectors, gradients, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """One differentiated pass, which predicts as well."""
        return Cost(forwards=1, backwards=1)
