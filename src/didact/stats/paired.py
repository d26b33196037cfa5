"""Do two explainers differ on the same examples? Wilcoxon's signed-rank test, and Holm's correction for many tests.

    >>> wilcoxon([0.9, 0.8, 0.7, 0.9, 0.6, 0.8], [0.1, 0.3, 0.1, 0.2, 0.4, 0.1]).p  # all six larger: 2 / 2^6
    0.03125
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]

Zero differences are left out, as Wilcoxon did, and counted; tied differences share the mean of their ranks. With at
most 50 differences left, p is exact: all sign patterns are counted, ties included. Beyond, it is the normal
approximation with the variance of the tied ranks and no continuity correction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

from didact.errors import InputError
from didact.stats.bootstrap import differences
from didact.types import Floats

EXACT = 50


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a two-sided signed-rank test of ``a`` against ``b``.

    Attributes:
        p: probability of ranks at least as one-sided if neither were larger; 1 where all differences are zero, NaN
            where there is no pair.
        n: pairs with a value on both sides, zero differences among them.
        zeros: how many of these are zero, and so not ranked.
        dropped: pairs left out because a value is NaN.
        difference: mean of ``a - b``.
        effect: rank-biserial correlation, from -1 (``b`` always larger) to 1 (``a`` always larger).
    """

    p: float
    n: int
    zeros: int
    dropped: int
    difference: float
    effect: float


def wilcoxon(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Two-sided signed-rank test on the pairs (a[i], b[i]); pairs with a NaN are dropped and counted."""
    return signed_rank(differences(a, b)[None])[0]


def signed_rank(rows: Floats) -> list[PairedTest]:
    """The test on many rows of differences (tests, examples) at once."""
    if rows.ndim != 2:
        raise InputError(f"differences come as (tests, examples), got an array of shape {rows.shape}")
    defined = ~np.isnan(rows)
    ranked = defined & (rows != 0)
    # What is not ranked goes behind everything, so that the rest has ranks 1 to m among itself.
    largest = np.finfo(np.float64).max
    size = np.where(ranked, np.minimum(np.abs(rows), largest), np.inf)
    ranks = np.where(ranked, rankdata(size, axis=1) if size.size else 0.0, 0.0)
    upper, total = np.where(rows > 0, ranks, 0.0).sum(axis=1), ranks.sum(axis=1)
    n, m = defined.sum(axis=1), ranked.sum(axis=1)
    p = _normal(upper, ranks)
    for test in np.flatnonzero(m <= EXACT):
        p[test] = _exact(upper[test], ranks[test][ranked[test]])
    p[n == 0] = np.nan
    effect = np.where(total > 0, (2 * upper - total) / np.maximum(total, 1), np.where(n > 0, 0.0, np.nan))
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, rows, 0.0).sum(axis=1) / np.where(n > 0, n, np.nan)
    columns = (p, n, n - m, rows.shape[1] - n, mean, effect)
    return [PairedTest(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def holm(pvalues: ArrayLike) -> Floats:
    """Adjusted p-values, in the given order: those below alpha may be believed together, with error at most alpha.

    A p-value that is NaN stands for a test that could not be made: it stays NaN and does not count.
    """
    p = np.asarray(pvalues, dtype=np.float64).ravel()
    if ((p < 0) | (p > 1)).any():
        raise InputError(f"p-values lie between 0 and 1, got {p[(p < 0) | (p > 1)].tolist()[:5]}")
    order = np.argsort(p, kind="stable")  # NaN last
    order = order[: int((~np.isnan(p)).sum())]
    adjusted = np.full(len(p), np.nan)
    left = np.arange(len(order), 0, -1)  # hypotheses not yet rejected
    adjusted[order] = np.minimum(np.maximum.accumulate(left * p[order]), 1.0)
    return adjusted


def _normal(upper: Floats, ranks: Floats) -> Floats:
    # Each rank is added to the upper sum or not by a fair coin: mean sum(r) / 2, variance sum(r^2) / 4.
    away = np.abs(upper - ranks.sum(axis=1) / 2)
    deviation = np.sqrt((ranks**2).sum(axis=1)) / 2
    return np.asarray(2 * ndtr(-away / np.where(deviation > 0, deviation, 1.0)))


def _exact(upper: float, ranks: Floats) -> float:
    """Share of the sign patterns whose upper rank sum is at least as far from its mean, counted by convolution."""
    doubled: NDArray[np.int64] = np.rint(2 * ranks).astype(np.int64)  # mid-ranks are halves
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    reached = 0
    for rank in doubled.tolist():
        ways[rank : reached + rank + 1] = ways[rank : reached + rank + 1] + ways[: reached + 1]
        reached += rank
    far = min(round(2 * upper), reached - round(2 * upper))
    tail = float(ways[: far + 1].sum()) / 2.0 ** len(ranks)
    return min(1.0, 2 * tail)
