"""Images as a vision transformer reads them, with hints carried over to its own patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from didact.models.readers.patches import PatchesReader
from didact.progress import advance, working
from didact.students.tokenized import Bools, TokenizedTexts
from didact.types import Example, Image, Region, Units, overlap_matrix


@dataclass(frozen=True, eq=False)
class PatchedImages(TokenizedTexts):
    """Images as pixels; what is a token elsewhere is a patch here.

    Attributes:
        pixels: as the image processor makes them (images, channels, height, width).
        patches: of each image, with its positions in the network.
    """

    pixels: NDArray[np.float32]
    patches: Sequence[Units]

    def touched(self, row: int, regions: Sequence[Region]) -> Bools:
        """Which positions of an image share a pixel with each region: (regions, L)."""
        own = self.patches[row]
        places = [position for (position,) in own.positions]
        touched = np.zeros((len(regions), self.width), dtype=np.bool_)
        is_same = tuple(regions) == own.regions  # as hints from a model with the same patches are
        touched[:, places] = np.eye(len(places), dtype=np.bool_) if is_same else overlap_matrix(regions, own.regions)
        return touched


def patched(examples: Sequence[Example], reader: PatchesReader) -> PatchedImages:
    """Images as a reader of patches makes them; what its processor cuts off is not seen."""
    pixels = []
    with working("reading images", len(examples)):
        for example in examples:
            reader.check(example)
            (code,) = reader.encode([example])
            pixels.append(code.pixels.astype(np.float32))
            advance(1)
    patches = _patches(examples, reader)
    shape = (len(examples), len(reader.grid))
    numbers = np.zeros(shape, dtype=np.int64)
    fields = np.full(shape, -1, dtype=np.int64)
    for row, own in enumerate(patches):
        fields[row, [position for (position,) in own.positions]] = 0
    return PatchedImages(
        ids=numbers,
        types=numbers,
        lengths=np.full(shape[0], shape[1], dtype=np.int64),
        fields=fields,
        starts=numbers,
        ends=(fields >= 0).astype(np.int64),
        pixels=np.stack(pixels) if pixels else np.zeros((0, 3, *reader.grid.size), dtype=np.float32),
        patches=patches,
    )


def _patches(examples: Sequence[Example], reader: PatchesReader) -> list[Units]:
    """The patches of each image, which are the same for all of a size."""
    known: dict[tuple[int, int], Units] = {}
    patches = []
    for example in examples:
        size = _size(example)
        if size not in known:
            (known[size],) = reader.units([example], "patch")
        patches.append(known[size])
    return patches


def _size(example: Example) -> tuple[int, int]:
    (image,) = example.fields
    return image.size if isinstance(image, Image) else (0, 0)
