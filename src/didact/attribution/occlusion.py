"""Occlusion: what the prediction loses without each unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, register
from didact.ops.coalitions import leave_one_out
from didact.protocols import Model
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="occlusion",
        family="perturbation",
        summary="Drop of the target when one unit at a time is absent.",
        reference="Zeiler and Fergus 2014; Li et al. 2016",
        cost="n + 2 forwards",
        axioms=frozenset({"dummy"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Occlusion(Attribution):
    """Score of a unit = target of the whole text - target without the unit.

    Args:
        absence: how an absent unit is shown; the model's default ("mask" where there is a mask token) when not given.

    Needs nothing but evaluations. It misses evidence that is stated twice, since taking out one of the two changes
    little; ``kernel_shap`` does not.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="occlusion").top(1)  # doctest: +SKIP
    """

    absence: str | None = None

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate the full text and all leave-one-out variants."""
        keep = [np.concatenate([np.ones((1, len(unit)), dtype=np.bool_), leave_one_out(len(unit))]) for unit in units]
        values = model.score(units, targets, keep, self.absence)
        return [Outcome(scores=value[0] - value[1:], value=float(value[0])) for value in values]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the full text and one variant per unit."""
        return Cost(forwards=len(units) + 2)
