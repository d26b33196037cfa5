"""From weights of units to weights of a student's positions, by the characters or pixels that both cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from didact.students.base import Ints
from didact.students.tokenized import TokenizedTexts
from didact.types import Units


class UnitPositions:
    """Which units of a text each position of a student touches, for all texts of a pool.

    A position takes the mean weight of the units that it shares a character or pixel with. Where both have the same
    tokens, that is the identity; a word of several of the student's tokens gives each of them its weight.

    Args:
        texts: as the student reads them.
        units: of the same texts.
        device: where weights are mapped.
    """

    def __init__(self, texts: TokenizedTexts, units: Sequence[Units], device: torch.device) -> None:
        touches = [_touches(texts, row, own) for row, own in enumerate(units)]
        most = max((len(touch) for touch in touches), default=1)
        numbers = np.zeros((len(units), most, texts.width), dtype=np.int64)
        shares = np.zeros((len(units), most, texts.width), dtype=np.float32)
        for row, touch in enumerate(touches):
            counts = (touch >= 0).sum(0).clip(min=1)
            numbers[row, : len(touch)] = touch.clip(min=0)
            shares[row, : len(touch)] = (touch >= 0) / counts
        self._numbers, self._shares = (torch.from_numpy(values).to(device) for values in (numbers, shares))

    def weights(self, units: Tensor, places: Tensor) -> Tensor:
        """Weights of positions (rows, L) from those of units (rows, U), differentiable.

        Args:
            units: one row per text, zero beyond its units.
            places: of the texts in the pool (rows,).
        """
        numbers, shares = self._numbers[places], self._shares[places].to(units.dtype)  # (rows, most, L)
        touched = units.gather(1, numbers.flatten(1)).view(numbers.shape)
        return (touched * shares).sum(1)


def _touches(texts: TokenizedTexts, row: int, units: Units) -> Ints:
    """Numbers of the units that each position touches, -1 where there are fewer: (most, L)."""
    touched = texts.touched(row, units.regions)  # (units, L)
    most = max(1, int(touched.sum(0).max(initial=0)))
    order = np.argsort(~touched, axis=0, kind="stable")[:most]
    return np.where(np.take_along_axis(touched, order, axis=0), order, -1)
