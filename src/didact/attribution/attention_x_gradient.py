"""Attention times gradient: how much the classifier looks at each token, and which way that moves the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from didact.attribution.base import Attribution, Outcome, register
from didact.ops.heads import select_heads
from didact.ops.units import sum_to_units
from didact.protocols import ATTENTIVE, DIFFERENTIABLE, Attentive
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="attention_x_gradient",
        family="attention",
        summary="Attention probabilities times the target's gradient with respect to them, averaged over heads.",
        reference="Serrano and Smith 2019; Barkan et al. 2021; Chefer, Gur and Wolf 2021 (without roll-out)",
        cost="1 forward, 1 backward",
        needs=frozenset({ATTENTIVE, DIFFERENTIABLE}),
        default=True,
        aliases=("attention_times_gradient", "attn_x_grad"),
    )
)
@dataclass(frozen=True, kw_only=True)
class AttentionXGradient(Attribution):
    """First-order guess of what the target would lose if a token were not looked at; positive supports the target.

    ``attention`` shows where the model looks, whatever the target; here heads that do not matter to the target count
    little. Products keep their sign (some authors cut negative ones off) and layers are not chained.

    Args:
        layer: index of a layer (negative counts from the end), or "all" for the mean over layers.
        head: index of a head, or "all" for the mean over heads.
        rows: "pooled" for the row of the position the classifier reads, or "mean" over all rows.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="attention_x_gradient", layer="all")  # doctest: +SKIP
    """

    one_pass = True

    layer: int | Literal["all"] = -1
    head: int | Literal["all"] = "all"
    rows: Literal["pooled", "mean"] = "pooled"

    def attribute(self, model: Attentive, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """One observed and differentiated pass, averaged over the chosen layers and heads."""
        passes = model.attention_times_gradient(units, targets, self.rows)
        return [
            Outcome(sum_to_units(unit, select_heads(heads, self.layer, self.head)), prediction.value(target))
            for unit, target, (prediction, heads) in zip(units, targets, passes, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """One differentiated pass, which predicts as well."""
        return Cost(forwards=1, backwards=1)
