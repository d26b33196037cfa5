"""A channel: hints as a loss on a student's attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from didact.students.base import CHANNELS, Batch, ChannelCard, CohortOutput, LossChannel


@CHANNELS.register(
    ChannelCard(
        "toy_channel",
        "network",
        "Asks for attention on hinted words.",
        "a test",
        needs=frozenset({"attention_row"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Mass(LossChannel):
    """-log of the attention on hinted positions, weighted by the hint."""

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        assert output.attention is not None
        total = batch.hints.sum(-1)
        share = (batch.hints * output.attention).sum(-1) / total.clamp_min(1e-9)
        return torch.where(total > 0, -(share + 1e-9).log(), 0.0)
