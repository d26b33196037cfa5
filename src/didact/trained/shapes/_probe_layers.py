"""The layers of a probe, and states of positions brought to units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def means_without_padding(
    states: Sequence[Tensor], owners: Tensor, most: int, project: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """As ``owner_weights(owners, most) @ project(normalised_positions(states))``, without computing what is 0 in it.

    Positions without a unit are left out, so that shapes depend on the values of ``owners``: a graph that is traced or
    recorded cannot contain it.

    Returns:
        (rows, most, width), 0 where there is no unit, and which units are there, (rows, most).
    """
    rows, positions = owners.shape
    flat = owners.flatten()
    (there,) = (flat >= 0).nonzero(as_tuple=True)
    size = states[0].shape[-1:]
    found = torch.cat([own.flatten(0, 1).float() for own in states], -1).index_select(0, there)
    read = project(functional.layer_norm(found.view(-1, len(states), *size), size).flatten(-2))
    unit = flat[there] + there // positions * most
    counts = torch.bincount(unit, minlength=rows * most)
    sums = read.new_zeros(rows * most, read.shape[-1]).index_add_(0, unit, read)
    means = (sums / counts.clamp_min(1)[:, None]).view(rows, most, -1)
    return means, (counts > 0).view(rows, most)


def owner_weights(owners: Tensor, most: int) -> Tensor:
    """The share of each position in each unit's mean: (rows, positions) -> (rows, most units, positions).

    Args:
        owners: the number of each position's unit, -1 for none.
        most: units per row; weights are 0 where a row has fewer.
    """
    covers = (owners[:, None] == torch.arange(most, device=owners.device)[None, :, None]).float()
    return covers / covers.sum(-1, keepdim=True).clamp_min(1)
