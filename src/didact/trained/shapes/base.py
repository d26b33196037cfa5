"""A shape reads an explained text and computes numbers for its units, in one pass over a padded batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.types import Explanation, Prediction, Units

Item = Mapping[str, NDArray[Any]]
"""One example as a shape reads it: plain arrays, made once and kept."""

Batch = Mapping[str, Tensor]
"""Items padded together. ``present`` (rows, units) is True where a row has a unit."""


class Shape(nn.Module, ABC):
    """What computes the scores.

    Reading is apart from computing, so that texts are read once and not in every epoch, and so that a trained shape
    can be exported without the code that reads.
    """

    name: ClassVar[str]
    """Registered name, written into the saved configuration."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers per unit."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What ``from_settings`` needs to build the same shape without its weights, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path) -> Self:
        """Build the shape, untrained; ``folder`` holds what ``save_reading`` wrote."""

    @abstractmethod
    def save_reading(self, folder: Path) -> None:
        """Write what reading needs besides the weights (a vocabulary, a tokenizer)."""

    @abstractmethod
    def read(self, texts: Sequence[Units], targets: Sequence[int], predictions: Sequence[Prediction]) -> list[Item]:
        """Examples as arrays; of each, the output of number ``targets`` is explained."""

    def read_explained(self, explanations: Sequence[Explanation]) -> list[Item]:
        """The texts of explanations, for the outputs that those explain."""
        return self.read(
            [one.units for one in explanations],
            [one.target.index for one in explanations],
            [one.prediction for one in explanations],
        )

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad items into a batch."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Numbers for the units: (rows, units, outputs)."""

    def vocabulary(self) -> Sequence[str]:
        """Words it knows, frequent ones first, for made-up texts; none where it keeps no list."""
        return ()

    @property
    def traced_units(self) -> int:
        """How many units a text needs for its pass to be the general one, which is exported."""
        return 8

    def length(self, item: Item) -> int:
        """What an item costs: batches are filled by it."""
        return max((len(column) for column in item.values() if np.ndim(column)), default=1)
