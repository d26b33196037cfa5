"""Numbers of units, padded into a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def padded(arrays: Sequence[NDArray[np.generic]], size: int) -> tuple[Tensor, Tensor]:
    """Arrays (units, size) as one tensor (rows, most units, size) of their type, 0 after the end; where units are."""
    counts = np.array([len(array) for array in arrays])
    filled = np.zeros((len(arrays), counts.max(), size), dtype=arrays[0].dtype)
    for row, array in zip(filled, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(filled), torch.from_numpy(np.arange(counts.max()) < counts[:, None])
