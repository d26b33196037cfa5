"""Where the units of a batch stand: the part of an explanation that does not wait for the model's states."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Located(NamedTuple):
    """Where the units of a batch stand: what is computed without waiting for the states.

    Attributes:
        owners: (rows, positions), the number of each position's unit, -1 for none.
        most: units per row; rows may have fewer.
        pairs: the share of each position in each unit's mean, and behind it in the mean of its row's units,
            (rows, 2 * most, positions); None where positions without a unit are left out instead.
        present: which units have a position, (rows, most).
        joined: weights that read such a pair at once, (width, 2 * size).
    """

    owners: Tensor
    most: int
    pairs: Tensor | None = None
    present: Tensor | None = None
    joined: Tensor | None = None


def located(owners: Tensor, most: int, joined: Tensor) -> Located:
    """Of units whose positions are all computed, so that shapes depend on nothing but ``most``."""
    weights = owner_weights(owners, most)
    present = weights.amax(-1) > 0
    around = weights.sum(1, keepdim=True) / present.sum(1).clamp_min(1)[:, None, None]
    pairs = torch.stack([weights, around.expand_as(weights)], 2).flatten(1, 2)
    return Located(owners, most, pairs, present, joined)


def owner_weights(owners: Tensor, most: int) -> Tensor:
    """The share of each position in each unit's mean: (rows, positions) -> (rows, most units, positions).

    Args:
        owners: the number of each position's unit, -1 for none.
        most: units per row; weights are 0 where a row has fewer.
    """
    covers = (owners[:, None] == torch.arange(most, device=owners.device)[None, :, None]).float()
    return covers / covers.sum(-1, keepdim=True).clamp_min(1)
