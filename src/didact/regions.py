"""Places in the fields of an example: characters of a text, boxes and masks of pixels of an image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from didact.errors import FormatError, InputError
from didact.validation import list_value, shown, whole_number

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of one field: 0 is the text, 1 its pair."""

    start: int
    end: int
    field: int = 0


@dataclass(frozen=True)
class Box:
    """Pixels ``left`` to ``right`` and ``top`` to ``bottom`` (both exclusive) of one field, which is an image."""

    left: int
    top: int
    right: int
    bottom: int
    field: int = 0


@dataclass(frozen=True)
class Mask:
    """Any pixels of one field, which is an image: what a person outlined, or a superpixel.

    >>> mask = Mask.of(np.array([[0, 1, 1], [0, 0, 1]], dtype=bool))
    >>> mask.runs, mask.bounds
    ((1, 2, 0, 2, 1, 0), Box(left=1, top=0, right=3, bottom=2, field=0))

    Attributes:
        size: width and height of the image.
        runs: lengths of runs of pixels, row after row, in threes: not marked, marked, not classified by anybody.
        field: the image's number among the fields.
    """

    size: tuple[int, int]
    runs: tuple[int, ...]
    field: int = 0

    def __post_init__(self) -> None:
        if len(self.runs) % 3 or min(self.runs, default=0) < 0 or sum(self.runs) != self.size[0] * self.size[1]:
            raise FormatError(
                f"the runs of a mask come in threes and add up to the pixels of the image, {self.size[0]} x "
                f"{self.size[1]}; got {len(self.runs)} runs of {sum(self.runs):,} pixels"
            )

    @classmethod
    def of(cls, marked: Bools, unclassified: Bools | None = None, field: int = 0) -> Mask:
        """The mask of the marked pixels, (height, width), and perhaps of pixels that count as neither."""
        codes = np.asarray(marked, dtype=np.int8)
        if codes.ndim != 2 or not codes.size:
            raise InputError(f"a mask is an array (height, width) of at least one pixel, got shape {codes.shape}")
        if unclassified is not None:
            codes = np.where(np.asarray(unclassified, dtype=np.bool_), np.int8(2), codes)
        flat = codes.ravel()
        starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
        lengths = np.diff([*starts, flat.size])
        return cls((codes.shape[1], codes.shape[0]), tuple(_in_threes(flat[starts].tolist(), lengths.tolist())), field)

    def __repr__(self) -> str:
        marked = sum(self.runs[1::3])
        return f"Mask({self.size[0]} x {self.size[1]}, {marked:,} pixels marked, field={self.field})"

    @property
    def codes(self) -> NDArray[np.int8]:
        """Per pixel 1 where it is marked, 2 where nobody classified it, else 0: (height, width)."""
        kinds = np.resize(np.array([0, 1, 2], dtype=np.int8), len(self.runs))
        return np.repeat(kinds, self.runs).reshape(self.size[1], self.size[0])

    @property
    def pixels(self) -> Bools:
        """The marked pixels, (height, width)."""
        return np.asarray(self.codes == 1)

    @property
    def bounds(self) -> Box:
        """The smallest box that holds the marked pixels; empty where there are none."""
        rows, columns = np.nonzero(self.pixels)
        if not len(rows):
            return Box(0, 0, 0, 0, self.field)
        right, bottom = int(columns.max()) + 1, int(rows.max()) + 1
        return Box(int(columns.min()), int(rows.min()), right, bottom, self.field)


def masks_of(owner: NDArray[np.integer[Any]], field: int = 0) -> tuple[Mask, ...]:
    """A mask for each part of an image that is numbered pixel by pixel, (height, width); quicker than one by one."""
    flat, size = owner.ravel(), (owner.shape[1], owner.shape[0])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    ends = np.append(starts[1:], flat.size)
    parts = flat[starts]
    masks = []
    for number in range(int(flat.max()) + 1):
        begins, stops = starts[parts == number], ends[parts == number]
        gaps = begins - np.concatenate([[0], stops[:-1]])
        runs = np.stack([gaps, stops - begins, np.zeros_like(gaps)], axis=1).ravel().tolist()
        rest = flat.size - int(stops[-1])
        masks.append(Mask(size, (*runs, *((rest, 0, 0) if rest else ())), field))
    return tuple(masks)


Region = Span | Box | Mask
"""A place in a field of an example; rationales, units and answers are made of regions."""

RegionT = TypeVar("RegionT", Span, Box, Mask, Region)


def overlaps(one: Region, other: Region) -> bool:
    """Whether two regions share a character or a pixel.

    >>> overlaps(Span(0, 4), Span(3, 6)), overlaps(Span(0, 4), Span(4, 6)), overlaps(Span(0, 4), Span(0, 4, 1))
    (True, False, False)
    """
    return bool(overlap_matrix([one], [other])[0, 0])


def overlap_matrix(ones: Sequence[Region], others: Sequence[Region]) -> Bools:
    """``overlaps`` for all pairs of two lists: (ones, others)."""
    a, b = _bounds(ones)[:, None], _bounds(others)[None]
    crossing = (a[..., 1::2] < b[..., 2::2]) & (b[..., 1::2] < a[..., 2::2])  # on either axis
    shared: Bools = (a[..., 0] == b[..., 0]) & crossing.all(-1)
    if any(isinstance(each, Mask) for each in (*ones, *others)):
        for i, j in zip(*np.nonzero(shared), strict=True):
            shared[i, j] = _share_a_pixel(ones[i], others[j])
    return shared


def overlapping(regions: Sequence[Region], marked: Sequence[Region]) -> Bools:
    """Per region whether it overlaps any of the marked ones."""
    return np.asarray(overlap_matrix(regions, marked).any(axis=1), dtype=np.bool_)


def marked_shares(regions: Sequence[Region], marked: Sequence[Region]) -> Floats:
    """Per region the share of its characters or pixels that lies in a marked one.

    Pixels that nobody classified count neither way; a region that has no others gets NaN.
    """
    fields = {each.field for each in regions}
    canvases = {field: _canvas(field, (*regions, *marked), marked) for field in fields}
    return np.array([_marked_share(canvases[each.field], each) for each in regions], dtype=np.float64)


def inside(regions: Sequence[Region], marked: Sequence[Region]) -> Floats:
    """Per region 1 where it counts as marked, 0 where it does not, NaN where nobody can know.

    A word counts as marked when a marked span overlaps it. A patch is cut without regard to what the image shows, so
    at least half of its classified pixels must be marked.
    """
    if all(isinstance(each, Span) for each in regions):
        return overlapping(regions, marked).astype(np.float64)
    shares = marked_shares(regions, marked)
    return np.where(np.isnan(shares), np.nan, shares >= 0.5)


def plain_regions(regions: Iterable[Region]) -> list[list[int]]:
    """Regions as plain JSON values: three numbers for a span, five for a box, more for a mask; the field comes last."""
    return [_plain_region(each) for each in regions]


def read_regions(rows: object, name: str = "region") -> tuple[Region, ...]:
    """Inverse of ``plain_regions``; ``name`` says in messages what the regions are."""
    return tuple(read_region(row, f"{name} {number}") for number, row in enumerate(list_value(rows, name)))


def read_region(row: object, name: str) -> Region:
    """One region from plain JSON values."""
    numbers = [whole_number(number, name) for number in list_value(row, name)]
    if len(numbers) in (2, 3):
        return Span(*numbers)
    if len(numbers) in (4, 5):
        return Box(*numbers)
    if len(numbers) < 6 or len(numbers) % 3:
        raise FormatError(
            f"{name} must be a span of 2 or 3 numbers, a box of 4 or 5, or a mask (width, height, runs in threes, "
            f"field), got {shown(numbers)}"
        )
    return Mask((numbers[0], numbers[1]), tuple(numbers[2:-1]), numbers[-1])


def _plain_region(region: Region) -> list[int]:
    if isinstance(region, Span):
        return [region.start, region.end, region.field]
    if isinstance(region, Box):
        return [region.left, region.top, region.right, region.bottom, region.field]
    return [*region.size, *region.runs, region.field]


def _in_threes(codes: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """Run lengths with empty runs put in between, so that the kinds follow each other as 0, 1, 2, 0, 1, 2, ..."""
    runs: list[int] = []
    for code, length in zip(codes, lengths, strict=True):
        runs += [0] * ((code - len(runs)) % 3) + [length]
    return runs + [0] * (-len(runs) % 3)


def _bounds(regions: Sequence[Region]) -> NDArray[np.int64]:
    """Field, then begin and end on each of two axes: (regions, 5); a span is one high."""
    return np.array([_extent(each) for each in regions], dtype=np.int64).reshape(-1, 5)


def _extent(region: Region) -> tuple[int, int, int, int, int]:
    if isinstance(region, Span):
        return region.field, region.start, region.end, 0, 1
    box = region.bounds if isinstance(region, Mask) else region
    return box.field, box.left, box.right, box.top, box.bottom


def _share_a_pixel(one: Region, other: Region) -> bool:
    """Whether two regions whose bounds cross share a pixel, where at least one is a mask."""
    if isinstance(one, Span) or isinstance(other, Span):
        return isinstance(one, Span) and isinstance(other, Span)
    if isinstance(one, Mask) and isinstance(other, Mask):
        return one.size == other.size and bool((one.pixels & other.pixels).any())
    mask, box = (one, other) if isinstance(one, Mask) else (other, one)
    if isinstance(mask, Mask) and isinstance(box, Box):
        return bool(mask.pixels[box.top : box.bottom, box.left : box.right].any())
    return True


def _canvas(field: int, regions: Sequence[Region], marked: Sequence[Region]) -> NDArray[np.int8]:
    """Per place of a field 1 where it is marked, 2 where it is not classified, else 0."""
    ends = _bounds([each for each in regions if each.field == field]).max(axis=0)
    sizes = [each.size for each in regions if isinstance(each, Mask) and each.field == field]
    width, height = max([int(ends[2]), *(size[0] for size in sizes)]), max([int(ends[4]), *(s[1] for s in sizes)])
    canvas = np.zeros((height, width), dtype=np.int8)
    for each in marked:
        if each.field != field:
            continue
        if isinstance(each, Mask):
            codes, under = each.codes, canvas[: each.size[1], : each.size[0]]
            under[codes == 1] = 1
            under[(codes == 2) & (under == 0)] = 2
        else:
            canvas[_slices(each)] = 1
    return canvas


def _marked_share(canvas: NDArray[np.int8], region: Region) -> float:
    if isinstance(region, Mask):
        own = canvas[: region.size[1], : region.size[0]][region.pixels]
    else:
        own = canvas[_slices(region)]
    classified = int((own != 2).sum())
    return float((own == 1).sum() / classified) if classified else float("nan")


def _slices(region: Span | Box) -> tuple[slice, slice]:
    if isinstance(region, Span):
        return slice(0, 1), slice(region.start, region.end)
    return slice(region.top, region.bottom), slice(region.left, region.right)
