"""Gradient interaction modifications: gradients that are not fooled by self-repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.backward import Interaction, Substituted
from didact.ops.paths import single
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="gim",
        family="gradient",
        summary="Gradient x difference from a baseline, with gradients that see through softmax, norms and products.",
        reference="Edin et al. 2025 (GIM)",
        cost="1 forward, 1 backward",
        needs=frozenset({DIFFERENTIABLE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Gim(Attribution):
    """Gradient x difference from a baseline, where the gradient does not see the network repair itself.

    A network makes up for what it loses: attention moves elsewhere, norms scale the rest up. A gradient sees the loss
    after that repair and calls important words unimportant. GIM changes three things, in the backward pass only:

    * softmax: the Jacobian of the flatter distribution softmax(logits / temperature);
    * norms: the standard deviation counts as a constant;
    * products of two activations: half the gradient to each factor, so that values get 1/2 and queries and keys 1/4.

    As in the authors' package, the flatter Jacobian is not divided by the temperature, nonlinearities keep their
    derivative, and scores are gradient x (embedding - baseline embedding). Their baseline is the space token, or the
    padding token where there is none; most tokenizers of encoders have none, so "pad" is the default here.

    ``details`` has ``unruled_operations`` where the model uses functions that none of the rules covers: how many. They
    keep their derivative.

    ``lrp`` shares the rules for products and norms; ``gradient_x_input`` is the same without any of the changes.

    Args:
        temperature: of the softmax in the backward pass; 1 is the ordinary gradient.
        baseline: "pad", "mask" or "zero" embedding, or "token:X".

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="gim")  # doctest: +SKIP
    """

    one_pass = True

    temperature: float = 2.0
    baseline: str = "pad"

    def __post_init__(self) -> None:
        at_least(self, temperature=1)

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """One differentiated pass under the changed rules."""
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        with Substituted(Interaction(self.temperature)) as mode:
            gradients = model.gradients(units, targets, [single(end) for end in ends], [np.ones(1)] * len(units))
        outcomes = []
        for unit, end, start, (values, gradient) in zip(units, ends, starts, gradients, strict=True):
            scores = sum_to_units(unit, (gradient * (end - start)).sum(-1))
            outcomes.append(Outcome(scores, float(values[0]), mode.details))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """One differentiated pass, which predicts as well."""
        return Cost(forwards=1, backwards=1)
