"""Attention: how much the classifier's position looks at each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from didact.attribution.base import Attribution, Outcome, register
from didact.errors import ParameterError
from didact.ops.heads import mean_visible, select_heads, visible
from didact.ops.units import sum_to_units
from didact.protocols import ATTENTIVE, Attentive
from didact.types import Card, Cost, Prediction, Target, Units


@register(
    Card(
        name="attention",
        family="attention",
        summary="Attention probabilities from the position the classifier reads, averaged over heads.",
        reference="Jain and Wallace 2019; Pruthi et al. 2022 (last layer, [CLS] row, mean over heads); "
        "Fernandes et al. 2022 (all heads or the last layer's, mean over rows, logits)",
        cost="2 forwards",
        needs=frozenset({ATTENTIVE}),
        signed=False,
        aliases=("attn",),
    )
)
@dataclass(frozen=True, kw_only=True)
class Attention(Attribution):
    """Shows where the model looks, not which way that moves the prediction: the target plays no part.

    Args:
        layer: index of a layer (negative counts from the end), or "all" for the mean over layers.
        head: index of a head, or "all" for the mean over heads.
        rows: "pooled" for the row of the position the classifier reads, or "mean" over all rows.
        kind: "probabilities", or the "logits" before the softmax, which do not compete with each other.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="attention", layer="all")  # doctest: +SKIP
    """

    layer: int | Literal["all"] = -1
    head: int | Literal["all"] = "all"
    rows: Literal["pooled", "mean"] = "pooled"
    kind: Literal["probabilities", "logits"] = "probabilities"

    def attribute(self, model: Attentive, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Observe one pass and average over the chosen layers and heads."""
        seen = model.attention(units, self.rows) if self.kind == "probabilities" else self._logits(model, units)
        return [
            Outcome(sum_to_units(unit, select_heads(heads, self.layer, self.head)), prediction.value(target))
            for unit, target, (prediction, heads) in zip(units, targets, seen, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one observed pass."""
        return Cost(forwards=2)

    def _logits(self, model: Attentive, units: Sequence[Units]) -> Iterator[tuple[Prediction, Tensor]]:
        """Logits (layers, heads, tokens), of which a causal or local mask leaves some queries without a key's."""
        mean = self.rows == "mean" or model.reads == "mean"
        for unit in units:  # one by one: a long text's (layers, heads, tokens, tokens) are large
            ((prediction, heads),) = model.attention([unit], "all" if mean else "pooled", "logits")
            if not mean and not bool(visible(heads if self.layer == "all" else heads[self.layer]).all()):
                raise ParameterError(
                    "the position the classifier reads does not see all tokens in this layer, so they have no logit "
                    "there; use rows='mean', another layer or kind='probabilities'"
                )
            yield prediction, mean_visible(heads) if mean else heads
