"""Images as a plain function is called with them: superpixels and squares that can be painted over."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError, ParameterError
from didact.ops.blur import gaussian_blur
from didact.ops.masking import Absence
from didact.ops.superpixels import boxes_of, superpixels
from didact.regions import masks_of
from didact.types import Box, Example, Image, Keep, Level, Region, Units

Pixels = NDArray[np.uint8]
Ints = NDArray[np.int64]
Owners = NDArray[np.int32]

COLOURS = {
    "mean": "the image's mean colour",
    "zero": "black",
    "blur": "the image blurred over an eighth of its shorter side; blur:S over S pixels",
}
"""What an absent part may be painted with."""
_RECENT_PIXELS = 2**26
"""Of the images whose cuts are kept for the next call: the largest that is allowed, or many small ones."""


@dataclass(frozen=True)
class PaintedImage:
    """An image with some units painted over; it is painted when its turn comes, since many would not fit in memory.

    Attributes:
        image: as it is.
        operator: what absent units are painted with.
        kept: the keep mask as bytes; empty for the whole image.
        cut: where its units lie; it follows from the image and the level.
    """

    image: Image
    operator: Absence | None = None
    kept: bytes = b""
    cut: Cut | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Cut:
    """How an image is cut into units.

    Attributes:
        regions: where each lies.
        owner: the unit of each pixel, (height, width).
        boxes: left, top, right and bottom of each unit's surroundings, (units, 4).
    """

    regions: tuple[Region, ...]
    owner: Owners
    boxes: Ints

    def window(self, absent: Ints) -> tuple[slice, slice]:
        """Rows and columns that hold these units: a few of them lie in a small part of a large image."""
        left, top = self.boxes[absent, :2].min(axis=0).tolist()
        right, bottom = self.boxes[absent, 2:].max(axis=0).tolist()
        return slice(top, bottom), slice(left, right)


@dataclass
class ImageInputs:
    """Images as arrays (height, width, 3) of bytes, each in its own size.

    Args:
        parts: superpixels of an image, about.
        squares: rows and columns of squares at the level "patch".
    """

    parts: int = 64
    squares: int = 8

    kind = "image"
    levels: tuple[Level, ...] = ("superpixel", "patch")
    default_absence = "mean"

    def __post_init__(self) -> None:
        self._recent: dict[tuple[str, Level], Cut] = {}
        self._paints: tuple[object, Pixels] | None = None

    @property
    def trial(self) -> Hashable:
        """A pattern."""
        return self.probes[0]

    @property
    def probes(self) -> tuple[Hashable, ...]:
        """Eight patterns and colours."""
        return tuple(PaintedImage(_probe(number)) for number in range(8))

    def fresh(self) -> PaintedImage:
        """Noise that was never seen."""
        return PaintedImage(_probe(secrets.randbits(40)))

    def whole(self, example: Example) -> PaintedImage:
        """The image."""
        fields = example.fields
        if len(fields) != 1 or not isinstance(fields[0], Image):
            kinds = " and ".join("a text" if isinstance(one, str) else "an image" for one in fields)
            raise InputError(f"this predict function takes single images, got {kinds}")
        return PaintedImage(fields[0])

    def units(self, example: Example, level: Level) -> Units:
        """Superpixels, or squares."""
        return Units(example, level, self._cut(self.whole(example).image, level).regions)

    def absence(self, name: str) -> Absence:
        """By painting over."""
        kind, colon, width = name.partition(":")
        if kind not in COLOURS or (colon and not (kind == "blur" and width.isdecimal() and 0 < int(width) < 10_000)):
            allowed = ", ".join(f"{kind!r} ({meaning})" for kind, meaning in COLOURS.items())
            raise ParameterError(f"a part of an image is absent as {allowed}; got {name!r}")
        return Absence(kind, width or None)

    def variants(self, units: Units, operator: Absence, keep: Keep) -> Iterator[PaintedImage]:
        """The image with absent units to be painted over."""
        image = self.whole(units.example).image
        cut = self._cut(image, units.level)
        for row in np.asarray(keep, dtype=np.bool_):
            yield PaintedImage(image) if row.all() else PaintedImage(image, operator, row.tobytes(), cut)

    def made(self, variant: Hashable) -> Pixels:
        """A fresh array, which the function may change."""
        if not isinstance(variant, PaintedImage):
            raise TypeError(f"not a variant of an image: {variant!r}")
        pixels = variant.image.pixels.copy()
        if variant.cut is None or variant.operator is None:
            return pixels
        absent = ~np.frombuffer(variant.kept, dtype=np.bool_)
        window = variant.cut.window(np.flatnonzero(absent))
        hidden = absent[variant.cut.owner[window]]
        paint = self._paint(variant.image, variant.operator)
        shown = paint if paint.ndim == 1 else paint[window]
        for channel in range(3):  # four times as fast as all at once
            np.copyto(pixels[window][..., channel], shown[..., channel], where=hidden)
        return pixels

    def size(self, variant: Hashable) -> int:
        """Its pixels."""
        return variant.image.pixels.nbytes if isinstance(variant, PaintedImage) else 0

    def preview(self, variant: Hashable) -> str:
        """Its size."""
        return f"{variant.image!r}" if isinstance(variant, PaintedImage) else repr(variant)

    def _paint(self, image: Image, operator: Absence) -> Pixels:
        """What shows where a part is absent: a colour, or as many pixels as the image has."""
        key = (image.fingerprint, operator)
        if self._paints is None or self._paints[0] != key:
            self._paints = (key, _painted(image, operator))
        return self._paints[1]

    def _cut(self, image: Image, level: Level) -> Cut:
        key = (image.fingerprint, level)
        if key not in self._recent:
            if sum(cut.owner.size for cut in self._recent.values()) + image.pixels.size // 3 > _RECENT_PIXELS:
                self._recent.clear()
            self._recent[key] = _superpixels(image, self.parts) if level == "superpixel" else _grid(image, self.squares)
        return self._recent[key]


def _painted(image: Image, operator: Absence) -> Pixels:
    if operator.kind == "zero":
        return np.zeros(3, dtype=np.uint8)
    if operator.kind == "mean":
        return np.asarray(np.round(image.pixels.mean((0, 1))), dtype=np.uint8)
    width = float(operator.token or max(1.0, min(image.size) / 8))
    smooth = gaussian_blur(image.pixels.astype(np.float32).transpose(2, 0, 1), width).transpose(1, 2, 0)
    return np.clip(np.round(smooth), 0, 255).astype(np.uint8)


def _superpixels(image: Image, parts: int) -> Cut:
    owner = superpixels(image.pixels, parts)
    return Cut(masks_of(owner), owner.astype(np.int32), boxes_of(owner))


def _grid(image: Image, squares: int) -> Cut:
    """Boxes of about equal size, row after row; fewer where the image has fewer pixels."""
    across, down = (np.unique(np.arange(squares + 1) * side // squares).tolist() for side in image.size)
    boxes = [
        Box(left, top, right, bottom)
        for top, bottom in itertools.pairwise(down)
        for left, right in itertools.pairwise(across)
    ]
    owner = np.zeros(image.pixels.shape[:2], dtype=np.int32)
    for number, box in enumerate(boxes):
        owner[box.top : box.bottom, box.left : box.right] = number
    return Cut(tuple(boxes), owner, np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]))


def _probe(seed: int) -> Image:
    """Stripes of two colours under noise, 64 x 64."""
    generator = np.random.default_rng(seed)
    colours = generator.integers(0, 256, (2, 3))
    stripes = np.arange(64) * (seed % 5 + 1) // 16 % 2
    noise = generator.integers(-20, 21, (64, 64, 3))
    return Image(np.clip(colours[stripes][None] + noise, 0, 255).astype(np.uint8))
