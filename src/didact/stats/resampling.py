"""What every bootstrap shares: which examples are drawn, and settings that make sense."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from didact.errors import ParameterError


def check_resampling(level: float, resamples: int) -> None:
    """Refuse a level that is no probability, and fewer than one resample."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
    if resamples < 1:
        raise ParameterError(f"resamples must be at least 1, got {resamples!r}; some thousands are usual")


@lru_cache(maxsize=4)
def drawn_counts(n: int, rows: int, key: tuple[int, ...]) -> NDArray[np.float32]:
    """How often each of ``n`` examples is drawn in each of ``rows`` resamples (rows, n); ``key`` decides the draws.

    Whole numbers, so single precision is exact.
    """
    rng = np.random.default_rng(key)
    places = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float32)
