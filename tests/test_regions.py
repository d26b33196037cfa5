"""Places in texts and images: one rule for what overlaps, and how much of a patch is marked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from didact.errors import FormatError, InputError
from didact.regions import masks_of
from didact.types import (
    Box,
    Example,
    Image,
    Mask,
    Span,
    Units,
    inside,
    marked_shares,
    overlap_matrix,
    overlaps,
    plain_regions,
    read_regions,
)

WIDTH, HEIGHT = 5, 4
GRIDS = st.lists(st.integers(0, 2), min_size=WIDTH * HEIGHT, max_size=WIDTH * HEIGHT).map(
    lambda codes: np.array(codes).reshape(HEIGHT, WIDTH)
)
BOXES = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 2)).map(
    lambda four: Box(four[0], four[1], four[0] + four[2], four[1] + four[3])
)


def mask(codes: np.ndarray) -> Mask:
    return Mask.of(codes == 1, codes == 2)


def drawn(region: Box | Mask) -> np.ndarray:
    if isinstance(region, Mask):
        return region.pixels
    pixels = np.zeros((HEIGHT, WIDTH), dtype=bool)
    pixels[region.top : region.bottom, region.left : region.right] = True
    return pixels


REGIONS = st.one_of(BOXES, GRIDS.map(mask))


@given(GRIDS)
def test_a_mask_survives_its_runs_and_json(codes: np.ndarray) -> None:
    made = mask(codes)
    assert (made.codes == codes).all()
    assert read_regions(plain_regions([made])) == (made,)


@given(GRIDS)
def test_masks_of_numbered_parts_are_those_of_each(codes: np.ndarray) -> None:
    _, owner = np.unique(codes, return_inverse=True)
    owner = owner.reshape(codes.shape)
    assert masks_of(owner) == tuple(Mask.of(owner == number) for number in range(owner.max() + 1))


@given(REGIONS, REGIONS)
def test_regions_of_an_image_overlap_where_they_share_a_pixel(one: Box | Mask, other: Box | Mask) -> None:
    assert overlaps(one, other) == bool((drawn(one) & drawn(other)).any())


@given(REGIONS, st.lists(REGIONS, max_size=3))
def test_the_marked_share_counts_pixels(region: Box | Mask, marked: list[Box | Mask]) -> None:
    union = np.any([drawn(each) for each in marked], axis=0) if marked else np.zeros((HEIGHT, WIDTH), dtype=bool)
    unclear = [each.codes == 2 for each in marked if isinstance(each, Mask)]
    ignored = (np.any(unclear, axis=0) if unclear else np.zeros_like(union)) & ~union
    own = drawn(region) & ~ignored
    expected = (own & union).sum() / own.sum() if own.any() else np.nan
    np.testing.assert_equal(marked_shares([region], marked)[0], expected)


def test_a_patch_is_in_the_rationale_when_half_of_its_classified_pixels_are() -> None:
    codes = np.array([[1, 0, 2, 2], [1, 0, 2, 2], [1, 2, 0, 0], [0, 2, 0, 1]])
    patches = [Box(0, 0, 2, 2), Box(2, 0, 4, 2), Box(0, 2, 2, 4), Box(2, 2, 4, 4)]
    np.testing.assert_equal(inside(patches, [mask(codes)]), [1.0, np.nan, 1.0, 0.0])
    assert overlap_matrix(patches, [mask(codes)])[:, 0].tolist() == [True, False, True, True]


def test_a_word_is_in_the_rationale_when_a_span_touches_it() -> None:
    assert inside([Span(0, 10), Span(10, 12)], [Span(9, 10)]).tolist() == [1.0, 0.0]
    assert marked_shares([Span(0, 10), Span(10, 12)], [Span(8, 10)]).tolist() == [0.2, 0.0]


def test_masks_may_be_units_and_rationales() -> None:
    codes = np.zeros((HEIGHT, WIDTH), dtype=int)
    codes[1:3, 2:4] = 1
    own = mask(codes)
    example = Example(Image(np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)), rationale=[own])
    assert Example.from_dict(example.to_dict()) == example
    units = Units(example, "superpixel", (own,))
    assert Units.from_dict(units.to_dict()) == units
    assert units.texts == ("2:1:4:3",)


def test_what_is_no_mask_is_refused() -> None:
    with pytest.raises(FormatError, match=r"add up to the pixels of the image, 2 x 2; got 3 runs of 3 pixels"):
        Mask((2, 2), (1, 1, 1))
    with pytest.raises(InputError, match="a mask is an array"):
        Mask.of(np.zeros((0, 3), dtype=bool))
    with pytest.raises(FormatError, match="or a mask"):
        read_regions([[2, 2, 1, 1, 1, 1, 0]])
    small = Mask.of(np.ones((2, 2), dtype=bool))
    with pytest.raises(FormatError, match="is a mask of 2 x 2 of an image of 5 x 4"):
        Units(Example(Image(np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8))), "superpixel", (small,))
