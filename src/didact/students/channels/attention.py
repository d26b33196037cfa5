"""Attention regularisation: the student's attention is drawn to where the hint points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from didact.students.base import CHANNELS, Batch, ChannelCard, CohortOutput, LossChannel

EPSILON = 1e-9
"""The hint's weight on text it does not point at, and what is added to attention before its logarithm."""


@CHANNELS.register(
    ChannelCard(
        name="attention",
        family="network",
        summary="Pulls the student's attention towards the hint: KL(hint || attention).",
        reference="Pruthi et al. 2022 (attention regularisation)",
        answers=frozenset({"class", "number", "span"}),
        needs=frozenset({"attention_row"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class AttentionChannel(LossChannel):
    """The divergence KL(hint || attention) = sum over positions of p (log p - log q), to be made small.

    p is the hint over the tokens of the text, which never points at special tokens: normalised, 1e-9 at the others,
    normalised again. q is a row of the student's attention, such as from [CLS] to all tokens. The paper prints the term
    with a minus sign, which would push attention away from the explanation.

    Args:
        over: "all" leaves q as it is, so that attention to special tokens is attention taken from the hint, as in the
            paper; "text" renormalises q over the tokens of the text, and attention to special tokens is free.

    See also ``labelling``, which needs no attention, and ``alignment`` for links between phrases.
    """

    over: Literal["all", "text"] = "all"

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """KL(hint || attention) of each example (S, B)."""
        if output.attention is None:
            raise ValueError("the output has no attention; call the cohort with view='row' for this channel")
        q = output.attention  # (S, B, L)
        q = q.to(torch.promote_types(q.dtype, torch.float32))
        hints, text = batch.hints.to(q.dtype), batch.text
        p = torch.where(text, hints / _total(hints) + EPSILON, 0.0)
        p = p / _total(p)
        # Outside of the text p is 0, where p log p is 0 but its derivative is not finite: log 1 stands in.
        divergence = (p * torch.where(text, p, 1.0).log() - p * (q + EPSILON).log()).sum(-1)
        if self.over == "text":
            divergence = divergence + (torch.where(text, q, 0.0).sum(-1) + EPSILON).log()
        return torch.where(hints.sum(-1) > 0, divergence, 0.0)


def _total(weights: Tensor) -> Tensor:
    """Sum over positions (..., 1); 1 where all weights are zero, so that an empty hint has a gradient of zero."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, total, 1.0)
