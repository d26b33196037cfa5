"""Superpixels: an image cut along its own edges into parts of about equal size, by SLIC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Features = NDArray[np.float32]

LARGEST = 256
"""Pixels of the longer side that are clustered; larger images are clustered smaller, and their parts enlarged."""
_ROUNDS = 10


def superpixels(pixels: NDArray[np.uint8], parts: int = 64, compactness: float = 10.0) -> Ints:
    """Number of the part that each pixel belongs to: (height, width, 3) -> (height, width), counted from 0.

    Pixels are clustered by colour and place: k-means in which a centre looks only at the pixels near it. What a cluster
    has beside its largest piece goes to the parts around it. There may be a few parts more or less than wanted, and
    never more than pixels.

    Args:
        pixels: red, green and blue.
        parts: how many are wanted.
        compactness: weight of place beside colour; parts tend to squares as it grows.

    Reference: Achanta et al. 2012, SLIC superpixels compared to state-of-the-art superpixel methods.
    """
    height, width = pixels.shape[:2]
    scale = max(1.0, max(height, width) / LARGEST)
    rows, columns = (
        np.minimum((np.arange(max(1, round(side / scale))) + 0.5) * scale, side - 1).astype(int)
        for side in (height, width)
    )
    pieces = _in_one_piece(_clustered(pixels[rows][:, columns], parts, compactness))
    small = np.unique(pieces, return_inverse=True)[1].reshape(pieces.shape).astype(np.int64)
    down, across = (np.arange(side) * len(places) // side for side, places in ((height, rows), (width, columns)))
    return np.asarray(small[down][:, across])


def boxes_of(owner: Ints) -> Ints:
    """The smallest box round each part: left, top, right, bottom."""
    from scipy import ndimage  # a first explanation of a text need not wait for it

    places = ndimage.find_objects(owner + 1)
    return np.array([(across.start, down.start, across.stop, down.stop) for down, across in places])


def _clustered(pixels: NDArray[np.uint8], parts: int, compactness: float) -> Ints:
    height, width = pixels.shape[:2]
    step = max(1.0, float(np.sqrt(height * width / parts)))
    places = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1).astype(np.float32)
    features = np.concatenate([_lab(pixels) / compactness, places / step], axis=-1).astype(np.float32)
    across, down = (np.arange(step / 2, max(side, step / 2 + 1), step).astype(int) for side in (width, height))
    centres = np.array([features[min(y, height - 1), min(x, width - 1)] for y in down for x in across])
    labels = np.zeros((height, width), dtype=np.int64)
    for _ in range(_ROUNDS):
        labels = _nearest(features, centres, step)
        counts = np.maximum(np.bincount(labels.ravel(), minlength=len(centres)), 1)
        sums = [np.bincount(labels.ravel(), features[..., axis].ravel(), len(centres)) for axis in range(5)]
        centres = (np.stack(sums, axis=-1) / counts[:, None]).astype(np.float32)
    return labels


def _nearest(features: Features, centres: Features, step: float) -> Ints:
    """The nearest centre of each pixel, of those within about a step of it."""
    height, width = features.shape[:2]
    best = np.full((height, width), np.inf, dtype=np.float32)
    labels = np.zeros((height, width), dtype=np.int64)
    reach = int(np.ceil(2 * step))
    for number, centre in enumerate(centres):
        y, x = (round(float(place) * step) for place in centre[3:])
        window = (slice(max(0, y - reach), y + reach + 1), slice(max(0, x - reach), x + reach + 1))
        distance = ((features[window] - centre) ** 2).sum(-1)
        closer = distance < best[window]
        best[window][closer] = distance[closer]
        labels[window][closer] = number
    return labels


def _in_one_piece(labels: Ints) -> Ints:
    """The same with the largest piece of each part only; other pixels go to the nearest part."""
    from scipy import ndimage  # a first explanation of a text need not wait for it

    kept = np.zeros(labels.shape, dtype=np.bool_)
    for number in np.unique(labels):
        pieces, count = ndimage.label(labels == number)
        sizes = np.bincount(pieces.ravel(), minlength=count + 1)[1:]
        kept |= pieces == 1 + int(sizes.argmax())
    nearest = ndimage.distance_transform_edt(~kept, return_distances=False, return_indices=True)
    return np.asarray(labels[tuple(nearest)], dtype=np.int64)


_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def _lab(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Colours in CIE Lab, in which distances are about what an eye sees."""
    share = pixels / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    relative = linear @ _TO_XYZ.T / _WHITE
    bent = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    x, y, z = np.moveaxis(bent, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)
