"""Rows that go through a network at once, as readers make them and heads look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.types import Span

Ints = NDArray[np.int64]
Inputs = dict[str, Tensor]
"""Arguments of a network's forward pass, rows first."""


class Encoded(Protocol):
    """One example as a network is fed it; its length is the number of positions."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """Rows that go through the network at once.

    Attributes:
        inputs: what the network is called with.
        codes: the encoded example of each row.
        moved: which positions the columns show, where absent ones were taken out; None where columns are positions.
        about: the span or text of each row that a prediction is wanted about, where a user gave one.
    """

    inputs: Inputs
    codes: Sequence[Encoded]
    moved: Callable[[], Ints] | None = None
    about: Sequence[Span | str | None] = ()

    @cached_property
    def places(self) -> Ints:
        """Per row and column the position of the encoded example that is shown there, -1 for padding: (rows, width)."""
        if self.moved is not None:
            return self.moved()
        sizes = np.array([len(code) for code in self.codes], dtype=np.int64)
        columns = np.arange(sizes.max(initial=0))
        return np.where(columns < sizes[:, None], columns, -1)


def placed(values: NDArray[np.generic] | Sequence[int | bool], device: torch.device) -> Tensor:
    """Numbers on a device. A GPU is not waited for: it goes on with what it was given before."""
    made = torch.from_numpy(np.ascontiguousarray(values))
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made.to(device)


Read = Callable[[Tensor, Ints, EncodedBatch], Tensor]
"""What is wanted of a network's outputs: outputs, the examples' numbers and the batch -> (rows, ...)."""
