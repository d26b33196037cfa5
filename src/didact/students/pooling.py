"""What the output layer of an encoder reads of a text's hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

Pooling = Literal["first", "mean", "scalar_mix"]
"""The last layer's first state, its mean over all tokens, or a learned mix of the means of all layers."""


class ScalarMix(nn.Module):
    """gamma * sum_k softmax(c)_k m_k over the means m_k of all layers' states, with c and gamma for each student.

    c begins at 0 and gamma at 1: the plain mean over the layers, the embeddings among them.

    Args:
        layers: of hidden states.
        size: number of students.
    """

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(size, layers))  # c
        self.gamma = nn.Parameter(torch.ones(size))

    def forward(self, states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Hidden states of all layers, each (S * B, L, D), and the mask (S, B, L) -> (S, B, D)."""
        size = len(self.gamma)
        means = torch.stack([masked_mean(layer.view(size, -1, *layer.shape[1:]), mask) for layer in states], -1)
        weights = self.gamma[:, None] * self.mix.softmax(-1)  # (S, layers)
        return (means @ weights[:, None, :, None].to(means.dtype))[..., 0]


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens: (S, B, L, D), (S, B, L) -> (S, B, D)."""
    there = mask[..., None].to(values.dtype)
    return (values * there).sum(2) / there.sum(2)
