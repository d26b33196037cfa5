"""Attention alignment: attention is drawn from a phrase of the question to what it means in the passage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from didact.students.base import CHANNELS, Batch, ChannelCard, CohortOutput, LossChannel

EPSILON = 1e-9


@CHANNELS.register(
    ChannelCard(
        name="alignment",
        family="network",
        summary="Pulls attention from phrases of the question to what they mean in the passage.",
        reference="Pruthi et al. 2022 (attention alignment); Lamm et al. 2021 (QED)",
        answers=frozenset({"span"}),
        needs=frozenset({"attention_matrix"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class AlignmentChannel(LossChannel):
    """-log of the mean over links k of a(k), the attention from phrase k of the question to its phrase of the passage.

    a(k) is the mean over the tokens of the first phrase of their attention to all tokens of the second. The logarithm
    is taken of the mean over the links, not of each, so that one link that is hard to follow does not outweigh the
    others. Links of which the student's length limit has cut off a phrase are left out.

    See also ``attention``, which gets the words of all phrases as one set.
    """

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """-log((1/K) sum_k a(k)) of each example (S, B)."""
        if output.attention is None:
            raise ValueError("the output has no attention; call the cohort with view='matrix' for this channel")
        attention = output.attention  # (S, B, L, L)
        attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
        if batch.links is None:
            return attention.new_zeros(attention.shape[:2])
        questions, passages = batch.links.to(attention.dtype).unbind(-2)  # phi and pi: (S, B, K, L)
        whole = (questions.sum(-1) > 0) & (passages.sum(-1) > 0)  # (S, B, K)
        # A row per phrase, then what of it falls on the phrase it is linked with.
        rows = questions @ attention / questions.sum(-1, keepdim=True).clamp_min(1e-30)
        a = torch.where(whole, (rows * passages).sum(-1), 0.0)
        links = whole.sum(-1)  # (S, B)
        return torch.where(links > 0, -(a.sum(-1) / links.clamp_min(1) + EPSILON).log(), 0.0)
