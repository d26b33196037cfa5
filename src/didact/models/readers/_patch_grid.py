"""Where the patches of a vision transformer lie: among its positions, in its input, and in the original image."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import ModelError
from didact.types import Bools, Box

Settings = Mapping[str, Any]
"""Of an image processor, as its ``to_dict`` gives them."""


@dataclass(frozen=True)
class PatchGrid:
    """Patches in rows and columns, and the positions that the network has for them.

    Attributes:
        rows: patches from top to bottom.
        columns: patches from left to right.
        height: pixels of a patch in the network's input.
        width: the same across.
        first: position of the first patch; what comes before it ([CLS] and the like) is not a part of the image.
    """

    rows: int
    columns: int
    height: int
    width: int
    first: int = 0

    def __len__(self) -> int:
        return self.first + self.rows * self.columns

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the network's input."""
        return self.rows * self.height, self.columns * self.width

    def cut(self, images: Tensor) -> Tensor:
        """Pixels by patch: (n, channels, height, width) -> (n, patches, numbers of a patch)."""
        parts = images.reshape(len(images), -1, self.rows, self.height, self.columns, self.width)
        return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def fold(self, patches: Tensor) -> Tensor:
        """The images that ``cut`` was given."""
        parts = patches.reshape(len(patches), self.rows, self.columns, -1, self.height, self.width)
        return parts.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)

    def pixels(self, present: NDArray[Any]) -> Bools:
        """Spread over pixels whether each position is present: (n, positions) -> (n, height, width)."""
        patches = present[:, self.first :].astype(np.bool_).reshape(-1, self.rows, self.columns)
        spread: Bools = patches.repeat(self.height, axis=1).repeat(self.width, axis=2)
        return spread


@dataclass(frozen=True)
class View:
    """The part of an image that an image processor shows to the network, in pixels of the original.

    It may reach beyond the image, where the processor adds a margin.
    """

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, settings: Settings, width: int, height: int) -> View:
        """What these settings leave of an image of this size."""
        wide, high = _resized(settings, width, height)
        crop = settings["crop_size"] if settings.get("do_center_crop") else {"width": wide, "height": high}
        left, top = (wide - crop["width"]) // 2, (high - crop["height"]) // 2  # whole pixels; negative for a margin
        across, down = width / wide, height / high
        return cls(left * across, top * down, (left + crop["width"]) * across, (top + crop["height"]) * down)

    def boxes(self, grid: PatchGrid, width: int, height: int) -> list[Box | None]:
        """The patches in the original image, None for those that lie outside of it."""
        across = _edges(self.left, self.right, grid.columns, width)
        down = _edges(self.top, self.bottom, grid.rows, height)
        boxes = [
            Box(left, top, right, bottom)
            for top, bottom in itertools.pairwise(down)
            for left, right in itertools.pairwise(across)
        ]
        return [box if box.left < box.right and box.top < box.bottom else None for box in boxes]

    def hidden(self, width: int, height: int) -> float:
        """Share of the image that the network does not see."""
        seen = (min(self.right, width) - max(self.left, 0)) * (min(self.bottom, height) - max(self.top, 0))
        return max(0.0, 1 - seen / (width * height))


def _edges(start: float, end: float, parts: int, limit: int) -> list[int]:
    """Where one part ends and the next begins, in whole pixels inside the image."""
    edges: Sequence[float] = np.linspace(start, end, parts + 1).tolist()
    return [min(max(math.floor(edge + 0.5), 0), limit) for edge in edges]


def _resized(settings: Settings, width: int, height: int) -> tuple[int, int]:
    """Width and height after resizing."""
    if settings.get("do_pad"):
        raise ModelError("the image processor pads images (do_pad), so places in them are not known; switch it off")
    if not settings.get("do_resize", True):
        return width, height
    size = settings["size"]
    if size.get("height") and size.get("width"):
        return size["width"], size["height"]
    if size.get("shortest_edge") and not size.get("longest_edge"):
        short, shortest = size["shortest_edge"], min(width, height)
        return width * short // shortest, height * short // shortest
    raise ModelError(
        f"the image processor resizes to {dict(size)}; places in images are known for height and width, or for the "
        "shortest edge alone"
    )
