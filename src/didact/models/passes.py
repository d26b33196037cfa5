"""Rows that are too long for one pass: cut into windows before the network, and put together behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.errors import CapabilityError
from didact.models.batch import Inputs

WINDOWS = "windows"
"""The input that numbers the window of each column, -1 for padding: (rows, width). No network gets to see it."""


def in_windows(inputs: Inputs, run: Callable[[Inputs], Tensor]) -> Tensor:
    """Outputs (rows, width, ...) of rows whose windows are passes of their own; differentiable.

    Args:
        inputs: (rows, width, ...) each, perhaps with ``WINDOWS``; without, every row is one pass.
        run: one pass of the network, to outputs (rows, positions, ...).
    """
    windows = inputs.get(WINDOWS)
    rest = {name: value for name, value in inputs.items() if name != WINDOWS}
    if windows is None or not (windows > 0).any():
        return run(rest)
    fold = _Fold.of(windows)
    outputs = run({name: fold.cut(value) for name, value in rest.items()})
    if outputs.ndim < 3 or outputs.shape[1] != fold.columns.shape[1]:
        raise CapabilityError(
            "a passage of several windows needs a network with outputs for every position; shorten the passage so that "
            "it is read in one pass"
        )
    return fold.joined(outputs, windows.shape)


@dataclass(frozen=True, eq=False)
class _Fold:
    """Which row and columns each pass shows.

    Attributes:
        rows: of each pass, (passes, 1).
        columns: of each pass, (passes, width); any column where nothing is shown.
        shown: whether a column of a row is shown there, (passes, width).
    """

    rows: Tensor
    columns: Tensor
    shown: Tensor

    @classmethod
    def of(cls, windows: Tensor) -> _Fold:
        """From the windows of all columns, which are in order."""
        numbers = torch.arange(int(windows.max()) + 1, device=windows.device)
        sizes = (windows[:, :, None] == numbers).sum(1)  # (rows, windows)
        starts = sizes.cumsum(1) - sizes
        rows, taken = sizes.nonzero(as_tuple=True)
        steps = torch.arange(int(sizes.max()), device=windows.device)
        shown = steps < sizes[rows, taken, None]
        columns = (starts[rows, taken, None] + steps).where(shown, torch.zeros_like(steps))
        return cls(rows[:, None], columns, shown)

    def cut(self, value: Tensor) -> Tensor:
        """(rows, width, ...) -> (passes, positions, ...), zeros where nothing is shown."""
        taken = value[self.rows, self.columns]
        shown = self.shown.reshape(*self.shown.shape, *[1] * (value.ndim - 2))
        return taken.where(shown, torch.zeros_like(taken))

    def joined(self, outputs: Tensor, shape: torch.Size) -> Tensor:
        """(passes, positions, ...) -> (rows, width, ...), zeros for padding."""
        whole = outputs.new_zeros(*shape, *outputs.shape[2:])
        whole[self.rows.expand_as(self.columns)[self.shown], self.columns[self.shown]] = outputs[self.shown]
        return whole
