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
        weights: the share of each position in each unit's mean, (rows, most, positions); None where positions without
            a unit are left out instead.
        around: the share of each position in the mean of a row's units, (rows, 1, positions).
        present: which units have a position, (rows, most).
    """

    owners: Tensor
    most: int
    weights: Tensor | None = None
    around: Tensor | None = None
    present: Tensor | None = None


def located(owners: Tensor, most: int) -> Located:
    """Of units whose positions are all computed, so that shapes depend on nothing but ``most``."""
    weights = owner_weights(owners, most)
    present = weights.amax(-1) > 0
    count = present.sum(1).clamp_min(1)[:, None, None]
    return Located(owners, most, weights, weights.sum(1, keepdim=True) / count, present)


def owner_weights(owners: Tensor, most: int) -> Tensor:
    """The share of each position in each unit's mean: (rows, positions) -> (rows, most units, positions).

    Args:
        owners: the number of each position's unit, -1 for none.
        most: units per row; weights are 0 where a row has fewer.
    """
    covers = (owners[:, None] == torch.arange(most, device=owners.device)[None, :, None]).float()
    return covers / covers.sum(-1, keepdim=True).clamp_min(1)
