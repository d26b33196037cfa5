"""Units of all rows one after the other: on a CPU, which pays for every number, none is computed for padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Packed(NamedTuple):
    """What is read of the units of a batch, and where they belong.

    Attributes:
        means: of each unit's positions, (units, width).
        mean: of the units of a row that have a position, (rows, width).
        row: of each unit, (units,); None where there is one row.
        place: of each unit in (rows x most), (units,); None where there is one row, which has them all.
        present: which units have a position, (rows, most).
    """

    means: Tensor
    mean: Tensor
    row: Tensor | None
    place: Tensor | None
    present: Tensor

    def of_rows(self, values: Tensor) -> Tensor:
        """What each unit gets of its row: (rows, numbers) -> (units, numbers), or one row that all get."""
        return values if self.row is None else values.index_select(0, self.row)

    def padded(self, values: Tensor) -> Tensor:
        """(units, numbers) -> (rows, most, numbers), 0 where there is no unit."""
        if self.place is None:
            return values[None]
        made = values.new_zeros(self.present.numel(), values.shape[-1])
        return made.index_copy_(0, self.place, values).view(*self.present.shape, -1)


def packed(states: Sequence[Tensor], owners: Tensor, most: int, project: Callable[[Tensor], Tensor]) -> Packed:
    """Units with the means of what ``project`` makes of their positions' states, each normalised at each layer.

    Positions and units that only pad a batch are left out. Shapes depend on the values of ``owners`` then: a graph that
    is traced or recorded cannot contain it. One row has no padding, and fewer steps are taken for it: a CPU that comes
    from the network waits at each of them.

    Args:
        states: per layer, (rows, positions, dim).
        owners: the number of each position's unit, -1 for none, (rows, positions).
        most: units per row.
        project: of states of all layers, (positions, layers x dim).
    """
    rows, size = len(owners), states[0].shape[-1:]
    each = [own.flatten(0, 1).float() for own in states]
    unit = owners % (most + 1)  # the last one, which is left out, is that of positions without a unit
    if rows > 1:
        (there,) = (owners.flatten() >= 0).nonzero(as_tuple=True)
        unit = (unit + torch.arange(rows)[:, None] * (most + 1)).flatten()[there]
        each = [own.index_select(0, there) for own in each]
    unit = unit.flatten()
    read = project(functional.layer_norm(torch.cat(each, -1).view(-1, len(states), *size), size).flatten(-2))
    counts = torch.bincount(unit, minlength=rows * (most + 1)).view(rows, -1)[:, :most]
    sums = read.new_zeros(rows, most + 1, read.shape[-1])
    sums.view(-1, read.shape[-1]).index_add_(0, unit, read)
    means, present = sums[:, :most] / counts.clamp_min(1)[..., None], counts > 0
    mean = means.sum(1) / present.sum(1, keepdim=True).clamp_min(1)
    if rows == 1:
        return Packed(means[0], mean, None, None, present)
    (place,) = present.flatten().nonzero(as_tuple=True)
    return Packed(means.flatten(0, 1).index_select(0, place), mean, place // most, place, present)
