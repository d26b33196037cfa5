"""Occlusion: what the prediction loses without each unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.coalitions import Bools, windows
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Target, Units


@register(
    Card(
        name="occlusion",
        family="perturbation",
        summary="Drop of the target when one unit, or a window of several, is absent.",
        reference="Zeiler and Fergus 2014; Li et al. 2016",
        cost="n + 2 forwards (n - span + 3 with windows)",
        axioms=frozenset({"dummy"}),
        default=True,
        aliases=("leave_one_out", "loo", "feature_ablation"),
    )
)
@dataclass(frozen=True, kw_only=True)
class Occlusion(Attribution):
    """Score of a unit = target of the whole text - target without the unit.

    With windows, a unit's score is the mean drop over the windows that cover it. Windows take out a phrase whole, such
    as "not bad"; they do not cross from one text of a pair to the other unless a text is shorter than the window.

    Args:
        span: how many consecutive units are absent at a time; the whole text where it is shorter.
        absence: how an absent unit is shown; the model's default ("mask" where there is a mask token) when not given.

    Needs nothing but evaluations. It misses evidence that is stated twice, since taking out one of the two changes
    little; ``kernel_shap`` does not.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="occlusion", span=2).top(1)  # doctest: +SKIP
    """

    span: int = 1
    absence: str | None = None

    def __post_init__(self) -> None:
        at_least(self, span=1)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate the full text and all variants that lack a window."""
        keep = [np.concatenate([np.ones((1, len(unit)), dtype=np.bool_), self._windows(unit)]) for unit in units]
        values = model.score(units, targets, keep, self.absence)
        return [
            Outcome(scores=_mean_drop(rows[1:], value[0] - value[1:]), value=float(value[0]))
            for rows, value in zip(keep, values, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the full text and one variant per window."""
        return Cost(forwards=len(self._windows(units)) + 2)

    def _windows(self, units: Units) -> Bools:
        rows = windows(len(units), min(self.span, len(units)))
        fields = np.array([region.field for region in units.regions])
        crossing = np.array([len(set(fields[~row])) > 1 for row in rows])
        inside = rows[~crossing]
        return inside if (~inside).any(axis=0).all() else rows


def _mean_drop(rows: Bools, drops: Floats) -> Floats:
    absent = (~rows).astype(np.float64)
    means: Floats = drops @ absent / absent.sum(axis=0)
    return means
