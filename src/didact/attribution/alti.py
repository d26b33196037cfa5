"""ALTI: how near each token's vector comes to each attention block's output, followed through all layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from didact.attribution._flow import Flow
from didact.attribution.base import register
from didact.models.estimate import TOUCHED, NetworkSize, Own
from didact.models.layers import Step, Trace, chunks
from didact.ops.rollout import roll_out
from didact.protocols import LAYERED
from didact.types import Card

CACHED = 1 << 20
"""Numbers worked on at a time: few enough to stay in a processor's cache."""


@register(
    Card(
        name="alti",
        family="decomposition",
        summary="Nearness of each token's transformed vector to the attention block's output, rolled out.",
        reference="Ferrando, Gállego and Costa-jussà 2022",
        cost="2 forwards",
        needs=frozenset({LAYERED}),
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class Alti(Flow):
    """Aggregates layer-wise token-to-token interactions.

    In each layer the attention block's output y_i is the sum of transformed vectors T_i(x_j) and of biases. Token j's
    share in token i is max(0, ||y_i|| - ||y_i - T_i(x_j)||) in the L1 norm, divided by the sum over j: a vector that
    alone comes near the output counts, a long one that points elsewhere does not, which is where it differs from
    ``globenc``. The feed-forward block and the second norm are left out. Shares are multiplied over layers as in
    ``attention_rollout``, and the row of the position that the classifier reads, special tokens included, adds up to
    1. A token of which no vector comes near at all is taken to come from itself. The target plays no part.

    For BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT classifiers.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="alti")  # doctest: +SKIP
    """

    def own(self, shape: NetworkSize) -> Own:
        """The transformed vector of every token for every other, in all layers but the last."""
        n, sent = shape.tokens, shape.heads + 1
        vectors = n * n * shape.width * (sent + TOUCHED)
        return Own((shape.layers - 1) * vectors, shape.traced + 4 * n * sent * (2 * n + 2 * shape.width))

    def flow(self, trace: Trace) -> Tensor:
        """Shares of the tokens in the first position of the last layer: (tokens,)."""
        *below, last = trace.steps
        return roll_out(_shares(last, 1)[0], (_shares(step, len(step.hidden)) for step in reversed(below)))


def _shares(step: Step, rows: int) -> Tensor:
    """Entry (i, j): share of token j in token i, for the first rows (rows, tokens)."""
    norm, outputs = step.layer.first_norm, step.block[:rows]  # y_i
    deviation = norm.deviation(step.attended[:rows])
    sent, weights = norm.linear(step.sent()), step.weights(rows)
    scaled = -(outputs * deviation)[None]
    distance = torch.cat(
        [
            torch.baddbmm(scaled, weights[some], sent[some]).norm(p=1, dim=-1)  # T_i(x_j) - y_i, times the deviation
            for some in chunks(len(sent), outputs.numel(), CACHED)
        ]
    )
    near = (outputs.norm(p=1, dim=-1, keepdim=True) - distance.T / deviation).clamp(min=0)
    total = near.sum(-1, keepdim=True)
    own = torch.eye(rows, near.shape[1], device=near.device)
    return torch.where(total > 0, near / total, own)
