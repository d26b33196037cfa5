"""A reader: images as square patches, for networks that take pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import ParameterError
from didact.models.batch import Inputs
from didact.models.readers.base import READERS, Columns, Masked, Reader, ReaderCard
from didact.ops.masking import Absence
from didact.types import Box, Example, Image, Units

SIDE, GRID = 4, 3  # pixels of a patch, patches of a row


@dataclass(frozen=True, eq=False)
class Patches:
    """An image as rows of pixels, (patches, pixels)."""

    pixels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pixels)


@READERS.register(ReaderCard(name="toy_reader", family="image", summary="Square patches.", fields=("image",)))
class PatchReader(Reader[Patches]):
    """Feeds flattened patches; an absent patch has the image's mean colour, and its pixels are its embedding."""

    levels = ("patch",)
    default_absence = "mean"

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def probe(self) -> Example:
        return Example(Image(np.arange((SIDE * GRID) ** 2 * 3, dtype=np.uint8).reshape(SIDE * GRID, SIDE * GRID, 3)))

    def encode(self, examples: Sequence[Example]) -> list[Patches]:
        images = [field for example in examples for field in example.fields if isinstance(field, Image)]
        cut = [image.pixels.reshape(GRID, SIDE, GRID, SIDE, 3).swapaxes(1, 2) for image in images]
        return [Patches(own.reshape(GRID * GRID, -1).astype(np.float32) / 255) for own in cut]

    def units(self, examples: Sequence[Example], level: str) -> list[Units]:
        corners = [(column * SIDE, row * SIDE) for row in range(GRID) for column in range(GRID)]
        boxes = tuple(Box(left, top, left + SIDE, top + SIDE) for left, top in corners)
        return [Units(example, level, boxes, tuple((i,) for i in range(len(boxes)))) for example in examples]

    def whole(self, codes: Sequence[Patches]) -> Inputs:
        return {"patches": self.tensor(np.stack([code.pixels for code in codes]))}

    def absence(self, name: str) -> Absence:
        if name not in ("mean", "blend"):
            raise ParameterError(f"an absent patch is shown as 'mean' or by 'blend', not {name!r}")
        return Absence(name)

    def masked(self, part: Masked[Patches]) -> Columns:
        return {"patches": np.where(part.present[..., None], part.code.pixels, _mean(part.code.pixels))}

    def vectors(self, codes: Sequence[Patches]) -> list[Tensor]:
        return [self.tensor(code.pixels) for code in codes]

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        return torch.zeros_like(like[0]) if name == "zero" else self.tensor(_mean(like.cpu().numpy()))

    def embedded(self, codes: Sequence[Patches], vectors: Tensor) -> Inputs:
        return {"patches": vectors}


def _mean(patches: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.tile(patches.reshape(-1, 3).mean(0), SIDE * SIDE)
