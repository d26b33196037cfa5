"""Attention rollout: attention followed through all layers, down to the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.attribution.base import Attribution, Outcome, at_least, at_most, register
from didact.ops.rollout import roll_out
from didact.ops.units import sum_to_units
from didact.protocols import ATTENTIVE, Attentive, Reads
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="attention_rollout",
        family="attention",
        summary="Attention with the residual connection as identity, multiplied through all layers.",
        reference="Abnar and Zuidema 2020",
        cost="2 forwards",
        needs=frozenset({ATTENTIVE}),
        signed=False,
        aliases=("rollout",),
    )
)
@dataclass(frozen=True, kw_only=True)
class AttentionRollout(Attribution):
    """Shows from which input tokens the position that the classifier reads is mixed, if attention alone mixed them.

    A layer's matrix is A' = (1 - r) A + r I, with A the mean over heads and r standing for the residual connection;
    the score is the read position's row of the product over layers. Unlike ``attention`` it knows that a token of an
    upper layer is itself a mixture. ``globenc`` and ``alti`` put better matrices in the place of A'. The target plays
    no part. The shares of all tokens, special ones included, add up to 1.

    Args:
        residual: r, the weight of the residual connection, from 0 to 1.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="attention_rollout")  # doctest: +SKIP
    """

    residual: float = 0.5

    def __post_init__(self) -> None:
        at_least(self, residual=0)
        at_most(self, residual=1)

    def attribute(self, model: Attentive, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Observe one pass per example, one at a time: the maps of a long text are large."""
        outcomes = []
        for unit, target in zip(units, targets, strict=True):
            ((prediction, heads),) = model.attention([unit], "all")
            outcomes.append(Outcome(sum_to_units(unit, self._flow(heads, model.reads)), prediction.value(target)))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one observed pass."""
        return Cost(forwards=2)

    def _flow(self, heads: Tensor, reads: Reads) -> Tensor:
        """(layers, heads, tokens, tokens) -> (tokens,)."""
        matrices = (1 - self.residual) * heads.mean(1)
        matrices = matrices + self.residual * torch.eye(heads.shape[-1], device=heads.device)
        top = matrices[-1].mean(0) if reads == "mean" else matrices[-1, 0 if reads == "first" else -1]
        return roll_out(top, reversed(matrices[:-1].unbind()))
