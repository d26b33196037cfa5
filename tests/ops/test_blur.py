"""Gaussian blur."""

import numpy as np
from scipy.ndimage import gaussian_filter

from didact.ops.blur import gaussian_blur


def test_it_is_a_gaussian_filter_away_from_the_edges() -> None:
    image = np.random.default_rng(0).normal(size=(3, 40, 50)).astype(np.float32)
    wanted = gaussian_filter(image, (0, 2, 2), truncate=6)
    np.testing.assert_allclose(gaussian_blur(image, 2.0)[:, 14:-14, 14:-14], wanted[:, 14:-14, 14:-14], atol=1e-5)


def test_one_colour_stays_as_it_is_up_to_the_edge() -> None:
    np.testing.assert_allclose(gaussian_blur(np.full((3, 8, 6), 0.7, np.float32), 3.0), 0.7, rtol=1e-6)


def test_a_wide_blur_leaves_the_mean() -> None:
    image = np.random.default_rng(0).normal(size=(1, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(gaussian_blur(image, 1e3), image.mean(), atol=1e-5)
