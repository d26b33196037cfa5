"""GlobEnc: how long a vector each token contributes to each layer's output, followed through all layers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from didact.attribution._flow import Flow
from didact.attribution.base import register
from didact.models.estimate import TOUCHED, NetworkSize, Own
from didact.models.layers import Step, Trace
from didact.ops.rollout import roll_out
from didact.protocols import LAYERED
from didact.types import Card


@register(
    Card(
        name="globenc",
        family="decomposition",
        summary="Norms of what tokens pass on through attention, residuals and both layer norms, rolled out.",
        reference="Modarressi et al. 2022 (N_ENC with rollout), after Kobayashi et al. 2021",
        cost="2 forwards",
        needs=frozenset({LAYERED}),
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class GlobEnc(Flow):
    """Puts the length of real vectors in the place of the attention weights that ``attention_rollout`` multiplies.

    In each layer, what token j gives to token i is the attention-weighted value vector, plus the residual if i = j. It
    goes through the first layer norm, along the second residual connection and through the second layer norm, both
    with the deviation of the real sum; the feed-forward block counts only through that deviation, and the biases of
    output projection and norms belong to no token. The matrix of Euclidean norms needs no identity added, for it
    holds the residuals; as in the authors' program it is multiplied as it is. The row of the position that the
    classifier reads is then divided by its sum, special tokens included. The target plays no part; ``decompx`` keeps
    the vectors, the feed-forward block and the target.

    For BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT classifiers.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="globenc")  # doctest: +SKIP
    """

    def own(self, shape: NetworkSize) -> Own:
        """Products of what a token sends with the attention of every other, in double precision."""
        n, sent = shape.tokens, shape.heads + 1
        products = n * n * sent * (2 * sent + TOUCHED) + n * sent * shape.width * (2 * sent + TOUCHED)
        return Own((shape.layers - 1) * products, shape.traced + 8 * n * sent * (3 * n + 2 * shape.width))

    def flow(self, trace: Trace) -> Tensor:
        """Shares of the tokens in the first position of the last layer: (tokens,)."""
        *below, last = trace.steps
        row = roll_out(_norms(last, 1)[0], (_norms(step, len(step.hidden)) for step in reversed(below)))
        return row / row.sum()


def _norms(step: Step, rows: int) -> Tensor:
    """Entry (i, j): length of what token j gives to token i, for the first rows (rows, tokens).

    That vector is a weighted sum of the few that token j sends, so its length follows from their inner products.
    """
    first, second = step.layer.first_norm, step.layer.second_norm
    sent = second.linear(first.linear(step.sent())).double()  # products of norms over many layers grow large
    weights = step.weights(rows).double()
    squares = ((weights @ (sent @ sent.mT)) * weights).sum(-1).T  # (rows, tokens)
    return squares.clamp(min=0).sqrt() / (first.deviation(step.attended[:rows]) * second.deviation(step.summed[:rows]))
