"""Gradient norm: how strongly each token's embedding could move the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.attribution.base import Attribution, Outcome, register
from didact.ops.paths import single
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="gradient_norm",
        family="gradient",
        summary="Norm of the target's gradient with respect to each token's embedding.",
        reference="Simonyan, Vedaldi and Zisserman 2014; Li et al. 2016",
        cost="1 forward, 1 backward",
        needs=frozenset({DIFFERENTIABLE}),
        signed=False,
        aliases=("saliency", "vanilla_gradient", "gradient"),
    )
)
@dataclass(frozen=True, kw_only=True)
class GradientNorm(Attribution):
    """Unsigned sensitivity; a word's score is the sum over its tokens.

    Args:
        norm: "l2" or "l1".

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="gradient_norm")  # doctest: +SKIP
    """

    one_pass = True

    norm: Literal["l2", "l1"] = "l2"

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """One gradient at the input."""
        points = [single(vectors) for vectors in model.embed(units)]
        gradients = model.gradients(units, targets, points, [np.ones(1)] * len(units))
        order = 2 if self.norm == "l2" else 1
        return [
            Outcome(sum_to_units(unit, gradient.norm(p=order, dim=-1)), float(values[0]))
            for unit, (values, gradient) in zip(units, gradients, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """One differentiated pass, which predicts as well."""
        return Cost(forwards=1, backwards=1)
