"""Intervals of a mean and of a mean difference.

The interval is the studentised bootstrap's (Efron's bootstrap-t): each resample's mean is divided by its own standard
error, so that the interval takes the skew of the values into account, and their small number. Metrics of explanations
are often skewed: percentile intervals, bias-corrected or not, then hold the truth in 77 % to 87 % of the cases at 20
values. Bootstrap-t alone holds it in 92 % at 20 lognormal values, because a sample of a skewed distribution tends to
look less skewed than it is; so the share left outside is divided by 1 + 2 |skewness| / sqrt(n), the order of the error
that skew makes. Simulated, 95 % intervals then hold the truth in 93 % to 97 % of the cases from 10 normal, exponential
or 20 lognormal values on. The mean of values that are 0 or 1 is a share, whose interval is Jeffreys' (Brown, Cai and
DasGupta 2001).

    >>> result = interval([0.1, 0.4, 0.2, 0.9, 0.3, 0.2, 0.5, 0.4, 0.6, 0.4, float("nan")])
    >>> result.mean, result.n, result.dropped
    (0.4, 10, 1)
    >>> result.low < 0.4 < result.high
    True

There is no interval where none can be relied on: of fewer than ``FEWEST`` values, and where so few differ from the rest
that many resamples would have no spread.

What is resampled depends on the number of values and the seed alone, and values are sorted first. So neither the order
of the examples nor the other columns of a table change an interval beyond rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from didact.errors import InputError
from didact.stats.resampling import check_resampling, drawn_counts
from didact.types import Floats

RESAMPLES = 3999
FEWEST = 10
"""Fewer values than this have no interval."""
BLOCK = 2_000_000
"""Cells of one matrix of resampling counts (8 MB)."""


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that would hold the true one in ``level`` of all repetitions of the experiment.

    Attributes:
        mean: of the defined values; NaN when there are none.
        low: lower end; NaN where there is no interval: not enough values, or an infinite one.
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
    alike: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for place, values in enumerate(kept):
        if len(values) >= FEWEST and np.isfinite(values).all():
            alike[len(values), bool(np.isin(values, (0.0, 1.0)).all())].append(place)
    for (n, share), places in alike.items():
        rows = np.stack([kept[place] for place in places])
        ends = _of_shares(rows, level) if share else _studentised(rows, level, resamples, seed)
        for place, low, high in zip(places, *(end.tolist() for end in ends), strict=True):
            results[place] = Interval(results[place].mean, low, high, n, results[place].dropped)
    return results


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
        mean = float("nan") if not len(values) else float(values[0] if values[0] == values[-1] else values.mean())
    return Interval(mean, float("nan"), float("nan"), len(values), dropped)


def _of_shares(values: Floats, level: float) -> tuple[Floats, Floats]:
    """Both ends for rows of zeros and ones: quantiles of Beta(hits + 1/2, misses + 1/2)."""
    hits, n = values.sum(axis=1), values.shape[1]
    low, high = (betaincinv(hits + 0.5, n - hits + 0.5, share) for share in ((1 - level) / 2, (1 + level) / 2))
    return np.where(hits == 0, 0.0, low), np.where(hits == n, 1.0, high)


def _studentised(values: Floats, level: float, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Both ends for sorted rows (columns, n); NaN where more resamples than an end leaves out have no spread."""
    means = values.mean(axis=1, keepdims=True)
    spread = values - means
    deviation = np.sqrt((spread**2).mean(axis=1, keepdims=True))
    flat = deviation <= 1e-12 * np.abs(values).max(axis=1, keepdims=True)
    drawn = _statistics(spread / np.where(flat, 1.0, deviation), resamples, seed)
    drawn.sort(axis=1)
    skew = np.abs((spread**3).mean(axis=1)) / np.where(flat, 1.0, deviation)[:, 0] ** 3
    left_out = (1 - level) / (1 + 2 * skew / np.sqrt(values.shape[1])) / 2
    outside = np.maximum(((resamples + 1) * left_out).astype(np.int64) - 1, 0)
    row = np.arange(len(drawn))
    above, below = drawn[row, -1 - outside], drawn[row, outside]
    usable = np.isfinite(above) & np.isfinite(below) & ~flat[:, 0]
    low, high = (
        np.where(usable, means[:, 0] - deviation[:, 0] * np.where(usable, end, 0.0), np.nan) for end in (above, below)
    )
    return low, high


def _statistics(spread: Floats, resamples: int, seed: int) -> Floats:
    """Means over standard deviations of the resamples of standardised rows (columns, resamples)."""
    n = spread.shape[1]
    step = max(1, min(resamples, BLOCK // n))
    squares = spread**2
    drawn = np.empty((len(spread), resamples))
    for start in range(0, resamples, step):
        counts = drawn_counts(n, min(step, resamples - start), (seed, n, start)).astype(np.float64).T
        mean = spread @ counts / n
        variance = squares @ counts / n - mean**2
        flat = variance <= 1e-12
        block = mean / np.sqrt(np.where(flat, 1.0, variance))
        drawn[:, start : start + step] = np.where(flat, np.copysign(np.inf, mean), block)
    return drawn
