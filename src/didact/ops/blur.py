"""Gaussian blur of images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.float32]


def gaussian_blur(image: Pixels, sigma: float) -> Pixels:
    """Every pixel as the weighted mean of those around it: (channels, height, width), the same shape.

    The weights of a pixel near the edge are divided by what of them lies inside, so no rim of another colour appears.

    Args:
        image: of any range of values.
        sigma: standard deviation of the weights, in pixels.
    """
    rows, columns = (_weights(size, sigma) for size in image.shape[-2:])
    return np.asarray(rows @ image @ columns.T, dtype=np.float32)


def _weights(size: int, sigma: float) -> Pixels:
    """How much each place counts for each: (size, size), rows add up to 1."""
    places = np.arange(size)
    weights = np.exp(-((places[:, None] - places) ** 2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum(1, keepdims=True), dtype=np.float32)
