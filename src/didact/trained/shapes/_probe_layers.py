"""The layers of a probe, and states of positions brought to units."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from didact.trained.shapes._attention import attention


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A linear layer whose weights lie in memory input by input: a CPU multiplies few rows by them faster so."""
    made = nn.Linear(inputs, outputs, bias=bias)
    made.weight.data = made.weight.data.t().contiguous().t()
    return made


class UnitBlock(nn.Module):
    """Attention between the units of a text and a feed-forward part, each normalised before and added.

    Args:
        width: of a unit's state.
        heads: of attention.
        dropout: share of numbers set to 0 in training.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.looking, self.thinking = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.mix = linear(width, 3 * width), linear(width, width)
        self.widen, self.narrow = linear(width, 2 * width), linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """States (rows, units, width) after the block; units that are not ``present`` are not looked at."""
        q, k, v = self.project(self.looking(hidden)).chunk(3, dim=-1)
        hidden = hidden + self.dropout(self.mix(attention(q, k, v, present[:, None, None], self.heads, 0.0)))
        inner = functional.gelu(self.widen(self.thinking(hidden)))
        after: Tensor = hidden + self.dropout(self.narrow(inner))
        return after


def normalised_positions(states: Sequence[Tensor]) -> Tensor:
    """Each layer's state at each position brought to mean 0 and deviation 1: (..., dim) each -> (..., layers x dim).

    What follows is linear up to the mean over a unit's positions, so that the two may change places. A GPU waits for
    every further call, so it gets one for all layers; a CPU waits for memory, and copies once, not twice.
    """
    size = states[0].shape[-1:]
    if states[0].device.type == "cpu":
        return torch.cat([functional.layer_norm(own.float(), size) for own in states], -1)
    return functional.layer_norm(torch.stack(list(states), -2).float(), size).flatten(-2)
