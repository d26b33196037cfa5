"""KernelSHAP: Shapley values from pairs of complementary coalitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from didact.attribution._rounds import Pairs, in_rounds
from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.ops.coalitions import shapley_pair_count, shapley_pairs
from didact.ops.shapley import linear_fit, smooth_fit
from didact.protocols import Model
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="kernel_shap",
        family="perturbation",
        summary="Shapley values of the units, estimated from few coalitions with standard errors; exact when all fit.",
        reference="Lundberg and Lee 2017; Covert and Lee 2021 (pairs); Musco and Witter 2025 (sizes)",
        cost="at most evaluations + 3 forwards (at least 2n + 3)",
        seeded=True,
        axioms=frozenset({"completeness", "symmetry", "dummy"}),
        default=True,
        aliases=("shap", "kernelshap"),
    )
)
@dataclass(frozen=True, kw_only=True)
class KernelShap(Attribution):
    """Scores add up to target(text) - target(text without its units), both of which are evaluated.

    Coalitions are evaluated with their complements, each once: the single units first, then all sizes in turn. Dummy
    and symmetry hold exactly when all 2^n coalitions fit into the budget. ``shapley_sampling`` estimates the same
    values without bias and needs more evaluations for it; ``partition_shap`` needs fewer and explains by groups.

    Args:
        evaluations: coalitions evaluated besides the full and the empty one; at least 2n are always taken.
        fit: "smooth" takes the mean of a Gaussian process given the evaluations, in which units interact the less the
            less they do alone; "linear" is the published weighted least squares. They agree when all coalitions are
            known; before that "smooth" needs two thirds to a third of the evaluations unless the model is close to
            noise.
        tolerance: stop early once the largest standard error of a unit, on the explained scale, is this small.
            Evaluations then go in rounds, and the declared cost is the most it can take.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides which coalitions are drawn.

    Example:
        >>> import didact
        >>> didact.explain("Not bad at all.", method="kernel_shap").details["base_value"]  # doctest: +SKIP
    """

    evaluations: int = 500
    fit: Literal["smooth", "linear"] = "smooth"
    tolerance: float | None = None
    absence: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, evaluations=2)
        if self.tolerance is not None:
            at_least(self, tolerance=0)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate full, empty and the coalitions, and fit."""
        return in_rounds(model, units, targets, [self._job(unit) for unit in units], self.absence)

    def cost(self, units: Units) -> Cost:
        """The plain prediction, full, empty and the coalitions."""
        return Cost(forwards=2 * shapley_pair_count(len(units), self.evaluations) + 3)

    def fitting(self, units: Units) -> float:
        """Inverting a matrix of all pairs, and what leads to it; with "linear", a decomposition of the design."""
        columns = len(units)
        rows = shapley_pair_count(columns, self.evaluations)
        if self.fit == "linear":
            return 20.0 * rows * columns**2
        return 4.0 * rows**3 + 3.0 * rows**2 * columns + 1500.0 * rows * columns

    def _job(self, units: Units) -> Pairs:
        n = len(units)
        pairs = shapley_pairs(n, shapley_pair_count(n, self.evaluations), generator(self.seed, units.example))
        return Pairs(pairs, smooth_fit if self.fit == "smooth" else linear_fit, self.tolerance)
