"""Which mean differences are not zero, tested together: the studentised bootstrap with one error rate for all tests.

Tables show means, so it is the mean of the differences that is tested. A signed-rank test would answer another
question: it rejects differences whose mean is zero but which are skewed.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(3, 40))
    >>> tests = mean_tests(noise + np.array([[1.0], [0.0], [0.0]]))
    >>> tests.significant.tolist(), tests.fewest
    ([True, False, False], 7)

The texts are resampled, the same ones for all tests, and each mean difference is divided by its own standard error. The
largest of these statistics over all tests is what chance reaches (Westfall and Young 1993, step-down max-T): at most
``alpha`` of all reports then declare any difference that is none, however many tests there are, and tests that depend
on each other, as pairs of explainers on the same texts do, cost little.

No test of so few texts can be sure. When ``n`` differences all have one sign, the exact test of signs has p =
2^(1 - n); with ``k`` tests that must be at most ``alpha / k``. Below this number of texts nothing is tested, and there
is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from didact.errors import InputError
from didact.stats.power import fewest_texts
from didact.stats.resampling import check_resampling, drawn_counts
from didact.types import Floats

RESAMPLES = 1999
FLOOR = 0.25
"""A resample's variance counts as at least this share of the sample's.

Where one text is far from all others, a resample without it has almost no spread, and its statistic would be larger
than any that matters: one such test would hide all differences of a report.
"""
BLOCK = 2_000_000
"""Statistics of tests and resamples that are held at once (8 MB)."""


@dataclass(frozen=True, eq=False)
class MeanTests:
    """Two-sided tests of many mean differences.

    Attributes:
        difference: mean of each test's differences; NaN where it has none.
        p: of each test alone; NaN where there are not enough texts.
        adjusted: after correction over all tests; NaN where there are not enough texts.
        n: texts of each test.
        fewest: texts that a test needs in this company.
        alpha: probability of declaring any difference that is none.
    """

    difference: Floats
    p: Floats
    adjusted: Floats
    n: NDArray[np.int64]
    fewest: int
    alpha: float

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Which mean differences are not zero."""
        return np.asarray(self.adjusted < self.alpha)

    @property
    def tested(self) -> int:
        """How many tests have values at all: those that the correction counts."""
        return int((self.n > 0).sum())


def mean_tests(rows: ArrayLike, *, alpha: float = 0.05, resamples: int = RESAMPLES, seed: int = 0) -> MeanTests:
    """Test the mean of every row of differences (tests, texts) against zero, with one error rate for all rows.

    Args:
        rows: one difference per test and text, NaN where undefined; the columns are the same texts for all tests.
        alpha: probability of declaring any difference that is none.
        resamples: of the texts.
        seed: of the resampling.
    """
    check_resampling(1 - alpha, resamples)
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"differences come as (tests, texts), got an array of shape {values.shape}")
    values = np.where(np.isfinite(values), values, np.nan)
    n = (~np.isnan(values)).sum(axis=1)
    difference = np.nansum(values, axis=1) / np.where(n > 0, n, np.nan)
    fewest = fewest_texts(max(int((n > 0).sum()), 1), alpha)
    p = np.where(n >= fewest, 1.0, np.nan)
    adjusted = p.copy()
    # Where they differ on too few texts, no test of signs could tell: these cannot be significant.
    tested = np.flatnonzero((np.nan_to_num(values) != 0).sum(axis=1) >= fewest)
    if len(tested):
        p[tested], adjusted[tested] = _step_down(values[tested], resamples, seed)
    return MeanTests(difference, p, adjusted, n, fewest, alpha)


def _step_down(values: Floats, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """p-values of each row alone, and corrected over all rows."""
    spread, observed = _standardised(values)
    order = np.argsort(observed, kind="stable")
    spread, observed = spread[order], observed[order][:, None]
    alone, together = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    for drawn in _resampled(spread, resamples, seed):
        alone += (drawn >= observed).sum(axis=1)
        # The largest statistic among the tests that are no more certain than this one.
        np.maximum.accumulate(drawn, axis=0, out=drawn)
        together += (drawn >= observed).sum(axis=1)
    p, adjusted = np.empty(len(order)), np.empty(len(order))
    p[order] = (alone + 1) / (resamples + 1)
    corrected = (together + 1) / (resamples + 1)
    adjusted[order] = np.maximum.accumulate(corrected[::-1])[::-1]
    return p, adjusted


def _standardised(values: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rows with mean 0 and standard deviation 1, NaN kept; and each row's mean in standard errors, without sign."""
    count = (~np.isnan(values)).sum(axis=1)
    mean = np.nanmean(values, axis=1)
    spread = values - mean[:, None]
    deviation = np.sqrt(np.nanmean(spread**2, axis=1))
    constant = deviation <= 1e-12 * np.nanmax(np.abs(values), axis=1)
    spread = np.where(constant[:, None] & ~np.isnan(values), 0.0, spread / np.where(constant, 1.0, deviation)[:, None])
    observed = np.where(constant, np.inf, np.abs(mean) / np.where(constant, 1.0, deviation) * np.sqrt(count - 1))
    return spread.astype(np.float32), observed.astype(np.float32)


def _resampled(spread: NDArray[np.float32], resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Sizes of the resampled statistics (tests, resamples), block by block."""
    tests, texts = spread.shape
    defined = (~np.isnan(spread)).astype(np.float32)
    filled = np.nan_to_num(spread)
    squares = filled**2
    whole = bool(defined.all())
    step = max(1, min(resamples, BLOCK // max(tests, texts)))
    for start in range(0, resamples, step):
        counts = drawn_counts(texts, min(step, resamples - start), (seed, texts, start)).T  # (texts, block)
        size = np.float32(texts) if whole else np.maximum(defined @ counts, 1)
        mean, square = filled @ counts / size, squares @ counts / size
        variance = np.maximum(square - mean**2, FLOOR)
        yield np.abs(mean) * np.sqrt(np.maximum(size - 1, 1) / variance)
