"""A method: what each unit adds when it is all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, register
from didact.protocols import Model
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="toy_method",
        family="perturbation",
        summary="Rise of the target when one unit alone is present.",
        reference="a test",
        cost="n + 3 forwards",
        axioms=frozenset({"dummy", "symmetry"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Alone(Attribution):
    """Score of a unit = target with this unit alone - target without any unit."""

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        keep = [np.concatenate([np.ones((1, n)), np.zeros((1, n)), np.eye(n)]) > 0 for n in map(len, units)]
        values = model.score(units, targets, keep)
        return [Outcome(own[2:] - own[1], float(own[0]), {"base_value": float(own[1])}) for own in values]

    def cost(self, units: Units) -> Cost:
        return Cost(forwards=len(units) + 3)
