"""KernelSHAP: Shapley values as a weighted least-squares problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.ops.coalitions import shapley_count, shapley_samples
from didact.ops.regression import shapley_values
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Keep, Target, Units


@register(
    Card(
        name="kernel_shap",
        family="perturbation",
        summary="Shapley values of the units, estimated by least squares over coalitions; exact when all fit.",
        reference="Lundberg and Lee 2017; Covert and Lee 2021 (paired sampling)",
        cost="at most samples + 3 forwards",
        seeded=True,
        axioms=frozenset({"completeness", "symmetry", "dummy"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class KernelShap(Attribution):
    """Scores add up to target(text) - target(text without its units), both of which are evaluated.

    Coalition sizes are enumerated from the outside in as far as the budget goes, the rest is drawn in complementary
    pairs. Dummy and symmetry hold exactly when all 2^n coalitions fit into the budget.

    Args:
        samples: coalitions evaluated besides the full and the empty one; at least 2n are always taken.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides which coalitions are drawn.

    Example:
        >>> import didact
        >>> didact.explain("Not bad at all.", method="kernel_shap").details["base_value"]  # doctest: +SKIP
    """

    samples: int = 500
    absence: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, samples=2)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate full, empty and the coalitions, and solve."""
        problems = [self._coalitions(unit) for unit in units]
        values = model.score(units, targets, [keep for keep, _ in problems], self.absence)
        return [_solve(keep, weights, value) for (keep, weights), value in zip(problems, values, strict=True)]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, full, empty and the coalitions."""
        return Cost(forwards=len(self._coalitions(units)[0]) + 1)

    def _coalitions(self, units: Units) -> tuple[Keep, Floats]:
        n = len(units)
        ends = np.stack([np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)])
        if n == 1:
            return ends, np.zeros(0)
        rows, weights = shapley_samples(n, shapley_count(n, self.samples), generator(self.seed, units.example))
        return np.concatenate([ends, rows]), weights


def _solve(keep: Keep, weights: Floats, values: Floats) -> Outcome:
    full, empty = float(values[0]), float(values[1])
    scores = shapley_values(keep[2:], values[2:], weights, empty, full)
    return Outcome(scores, full, {"base_value": empty})
