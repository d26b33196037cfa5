"""Attention: how much the classifier's position looks at each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from didact.attribution.base import Attribution, Outcome, register
from didact.errors import ParameterError
from didact.ops.units import sum_to_units
from didact.protocols import ATTENTIVE, Attentive
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="attention",
        family="attention",
        summary="Attention probabilities from the position the classifier reads, averaged over heads.",
        reference="Jain and Wallace 2019; Pruthi et al. 2022 (last layer, [CLS] row, mean over heads)",
        cost="2 forwards",
        needs=frozenset({ATTENTIVE}),
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class Attention(Attribution):
    """Says where the model looks, not which way that moved the prediction: the target plays no part.

    Args:
        layer: index of a layer (negative counts from the end), or "all" for the mean over layers.
        head: index of a head, or "all" for the mean over heads.
        rows: "pooled" for the row of the position the classifier reads, or "mean" over all rows.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="attention", layer="all")  # doctest: +SKIP
    """

    layer: int | Literal["all"] = -1
    head: int | Literal["all"] = "all"
    rows: Literal["pooled", "mean"] = "pooled"

    def attribute(self, model: Attentive, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Observe one pass and average what was asked for."""
        return [
            Outcome(sum_to_units(unit, self._select(heads)), prediction.value(target))
            for unit, target, (prediction, heads) in zip(units, targets, model.attention(units, self.rows), strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one observed pass."""
        return Cost(forwards=2)

    def _select(self, heads: Tensor) -> Tensor:
        """(layers, heads, tokens) -> (tokens,)."""
        for name, index, size in (("layer", self.layer, len(heads)), ("head", self.head, heads.shape[1])):
            if index != "all" and not -size <= index < size:
                raise ParameterError(f"{name} {index} does not exist; the model has {size} {name}s")
        chosen = heads.mean(0) if self.layer == "all" else heads[self.layer]
        return chosen.mean(0) if self.head == "all" else chosen[self.head]
