"""Attention logits: what heads look at on average over all units, before the softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from didact.attribution.base import Attribution, Outcome, register
from didact.ops.heads import select_heads
from didact.protocols import HEADS, Heads
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="attention_logits",
        family="attention",
        summary="Mean attention logit of each unit over the queries of all units, averaged over heads.",
        reference="Fernandes et al. 2022 (attention of all heads, or of the last layer's)",
        cost="2 forwards",
        needs=frozenset({HEADS}),
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class AttentionLogits(Attribution):
    """What a ``head_mix`` is before it learns: a plain mean over chosen heads; the target plays no part.

    A mean of dot products needs no attention matrices, so that this is as fast as a prediction. Only differences
    between units mean something: the smallest score is 0, and a softmax over the units gives the explanation that is
    taught in the paper.

    Args:
        layer: index of a layer (negative counts from the end), or "all" for the mean over layers.
        head: index of a head, or "all" for the mean over heads.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="attention_logits", layer=-1)  # doctest: +SKIP
    """

    layer: int | Literal["all"] = "all"
    head: int | Literal["all"] = "all"

    def attribute(self, model: Heads, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Average the chosen heads' scores."""
        chosen = None if self.layer == "all" else (self.layer,)
        rows = model.head_grid[0] if chosen is None else 1
        outcomes = []
        for scores in model.head_scores(units, chosen):
            mean = select_heads(scores.view(rows, -1, scores.shape[-1]), "all", self.head).double().numpy()
            outcomes.append(Outcome(mean - min(mean, default=0.0), None))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction and the pass that shows queries and keys."""
        return Cost(forwards=2)
