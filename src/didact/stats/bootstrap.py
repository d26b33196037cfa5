"""Bootstrap intervals of a mean and of a mean difference.

The interval is the bias-corrected and accelerated one (Efron 1987). Metrics of explanations are bounded and often
skewed: unlike mean ± 2 standard errors, the interval then leans to the long side and never leaves the range of the
values; unlike plain percentiles, it corrects for skew. For a mean the correction costs nothing, because the jackknife
has a closed form.

    >>> result = interval([0.1, 0.4, 0.2, 0.9, float("nan")])
    >>> result.mean, result.n, result.dropped
    (0.4, 4, 1)
    >>> result.low < 0.4 < result.high
    True

What is resampled depends on the number of values and the seed alone, and values are sorted first. So neither the order
of the examples nor the other columns of a table change an interval beyond rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from didact.errors import InputError, ParameterError
from didact.types import Floats

RESAMPLES = 4000
BLOCK = 2_000_000
"""Cells of one matrix of resampling counts (16 MB)."""


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that would hold the true one in ``level`` of all repetitions of the experiment.

    Attributes:
        mean: of the defined values; NaN when there are none.
        low: lower end; NaN for fewer than two values, which have no spread, or where one is infinite.
        high: upper end, likewise.
        n: how many values were defined.
        dropped: how many were NaN; for pairs, how many pairs had one.
    """

    mean: float
    low: float
    high: float
    n: int
    dropped: int = 0


def interval(values: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Interval of the mean of ``values``, one per example; NaN values are dropped and counted."""
    return intervals([values], level=level, resamples=resamples, seed=seed)[0]


def intervals(
    columns: Iterable[ArrayLike], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval]:
    """``interval`` of many columns at once, of any lengths; columns of equal length share their resamples."""
    check_resampling(level, resamples)
    arrays = [np.asarray(column, dtype=np.float64).ravel() for column in columns]
    kept = [np.sort(column[~np.isnan(column)]) for column in arrays]
    results = [_without_spread(values, len(column) - len(values)) for values, column in zip(kept, arrays, strict=True)]
    alike: dict[int, list[int]] = defaultdict(list)
    for place, values in enumerate(kept):
        if len(values) > 1 and np.isfinite(values).all():
            alike[len(values)].append(place)
    for n, places in alike.items():
        ends = _accelerated(np.stack([kept[place] for place in places]), level, resamples, seed)
        for place, mean, low, high in zip(places, *(end.tolist() for end in ends), strict=True):
            results[place] = Interval(mean, low, high, n, results[place].dropped)
    return results


def check_resampling(level: float, resamples: int) -> None:
    """Refuse a level that is no probability, and fewer than one resample."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
    if resamples < 1:
        raise ParameterError(f"resamples must be at least 1, got {resamples!r}; some thousands are usual")


def differences(a: ArrayLike, b: ArrayLike) -> Floats:
    """``a - b`` example by example, NaN where either is; refuses lists of different lengths."""
    first, second = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    if len(first) != len(second):
        raise InputError(
            f"paired values must be of the same examples in the same order: got {len(first)} and {len(second)}"
        )
    with np.errstate(invalid="ignore"):  # inf - inf is undefined too
        return first - second


def _without_spread(values: Floats, dropped: int) -> Interval:
    with np.errstate(invalid="ignore"):
        mean = float(values.mean()) if len(values) else float("nan")
    return Interval(mean, float("nan"), float("nan"), len(values), dropped)


def _accelerated(values: Floats, level: float, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Means and both ends of sorted rows (columns, n)."""
    constant = values[:, 0] == values[:, -1]
    means = np.where(constant, values[:, 0], values.mean(axis=1))
    spread = values - means[:, None]  # (columns, n)
    drawn = _resampled_means(spread, resamples, seed)  # (columns, resamples)

    # Means that equal the sample's count half; rounding must not decide on which side they fall.
    rounding = 1e-12 * np.abs(spread).max(axis=1, keepdims=True)
    below = (drawn < -rounding).mean(axis=1) + 0.5 * (np.abs(drawn) <= rounding).mean(axis=1)
    bias = ndtri(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
    power = np.where(constant, 1.0, (spread**2).sum(axis=1)) ** 1.5
    acceleration = (spread**3).sum(axis=1) / (6 * power)

    drawn.sort(axis=1)
    ends = []
    for z in ndtri([(1 - level) / 2, (1 + level) / 2]):
        shifted = bias + z
        share = ndtr(bias + shifted / np.maximum(1 - acceleration * shifted, 1e-9))
        ends.append(np.where(constant, means, means + _at(drawn, share)))
    return means, ends[0], ends[1]


def _at(ordered: Floats, share: Floats) -> Floats:
    """Quantile ``share`` of each sorted row, linear between neighbours."""
    place = share * (ordered.shape[1] - 1)
    left = np.minimum(place.astype(np.int64), max(ordered.shape[1] - 2, 0))
    right = np.minimum(left + 1, ordered.shape[1] - 1)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, left], ordered[rows, right]
    return low + (place - left) * (high - low)  # type: ignore[no-any-return]


def _resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    n = values.shape[1]
    rows = max(1, min(resamples, BLOCK // n))
    means = np.empty((len(values), resamples))
    for start in range(0, resamples, rows):
        counts = _counts(n, min(rows, resamples - start), start, seed)
        means[:, start : start + len(counts)] = values @ counts.T / n
    return means


@lru_cache(maxsize=4)
def _counts(n: int, rows: int, start: int, seed: int) -> Floats:
    """How often each of ``n`` values is drawn in each of ``rows`` resamples (rows, n)."""
    rng = np.random.default_rng([seed, n, start])
    drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
