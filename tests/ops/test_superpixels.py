"""Superpixels: parts along edges, in one piece, and no worse than those of scikit-image."""

import numpy as np
import pytest
from scipy import ndimage

from didact.ops.superpixels import boxes_of, superpixels


def scene(height: int = 90, width: int = 120) -> np.ndarray:
    """A red disc on a green slope, with noise."""
    y, x = np.mgrid[:height, :width]
    image = np.stack([0 * x, 80 + x, 60 + 0 * y], axis=-1).astype(float)
    image[disc(height, width)] = (220, 40, 30)
    return np.clip(image + np.random.default_rng(0).normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def disc(height: int = 90, width: int = 120) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return (y - height / 2) ** 2 + (x - width / 2) ** 2 < (height / 3.5) ** 2


def purity(labels: np.ndarray, mask: np.ndarray) -> float:
    """Share of the pixels that lie on the side of the edge that most of their part lies on."""
    inside = np.bincount(labels.ravel(), mask.ravel())
    return float(np.maximum(inside, np.bincount(labels.ravel()) - inside).sum() / mask.size)


def test_parts_follow_edges() -> None:
    labels = superpixels(scene(), 48)
    assert 30 <= labels.max() + 1 <= 60
    assert purity(labels, disc()) > 0.995


def test_parts_are_as_good_as_those_of_scikit_image() -> None:
    segmentation = pytest.importorskip("skimage.segmentation")
    theirs = segmentation.slic(scene(), n_segments=48, compactness=10, start_label=0)
    assert purity(superpixels(scene(), 48), disc()) >= purity(theirs, disc()) - 0.003


def test_every_part_is_in_one_piece_and_numbered() -> None:
    labels = superpixels(scene(), 48)
    assert (np.unique(labels) == np.arange(labels.max() + 1)).all()
    assert all(ndimage.label(labels == number)[1] == 1 for number in range(labels.max() + 1))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 50), (3, 2), (40, 300), (900, 1_400)])
def test_any_size_has_parts(height: int, width: int) -> None:
    labels = superpixels(scene(height, width), 20)
    assert labels.shape == (height, width)
    assert 1 <= labels.max() + 1 <= min(40, height * width)
    assert (labels == superpixels(scene(height, width), 20)).all()


def test_boxes_are_the_smallest_boxes_round_the_parts() -> None:
    owner = superpixels(np.random.default_rng(0).integers(0, 256, (30, 50, 3)).astype(np.uint8), 12)
    for number, (left, top, right, bottom) in enumerate(boxes_of(owner).tolist()):
        rows, columns = np.nonzero(owner == number)
        assert (left, top, right, bottom) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
