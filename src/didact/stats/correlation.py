"""Rank correlation with ties: of two lists of numbers, of many lists with each other, and of two rankings.

    >>> kendall([1, 2, 3, 4], [1, 2, 4, 3])  # five pairs of six in the same order, one turned round
    0.6666666666666666
    >>> tau(["lime", "ig", "random"], ["ig", "lime", "random"]).value
    0.33333333333333337

A list in which all numbers are equal has no order: its correlation with anything is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau, rankdata

from didact.errors import InputError
from didact.types import Floats

PAIRS = 300
"""Up to so many numbers, pairs are counted one by one, which is quicker than sorting them."""


@dataclass(frozen=True)
class KendallTau:
    """Kendall's tau-b of two rankings.

    Attributes:
        value: 1 for the same order, -1 for the reverse, NaN where undefined.
        p: two-sided; exact where there are no ties and few names.
        n: names that stand in both.
    """

    value: float
    p: float
    n: int


def kendall(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b: (concordant - discordant pairs) / geometric mean of the pairs not tied in each list.

    Pairs in which either number is NaN are dropped; NaN for fewer than two, or where a list has no order.
    """
    first, second = _defined(a, b)
    if len(first) > PAIRS:
        constant = np.ptp(first) == 0 or np.ptp(second) == 0
        return float("nan") if constant else float(kendalltau(first, second, method="asymptotic").statistic)
    return float(kendall_matrix(np.stack([first, second]))[0, 1])


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rho: Pearson's correlation of the ranks, ties sharing their mean rank; NaN as for ``kendall``."""
    return float(spearman_matrix(np.stack(_defined(a, b)))[0, 1])


def kendall_matrix(rows: ArrayLike) -> Floats:
    """Tau-b of every two of k lists (k, n) -> (k, k), by one matrix product over all pairs of places.

    A list with a NaN has NaN with all others.
    """
    values = _table(rows)
    upper = np.triu_indices(values.shape[1], 1)
    left, right = values[:, upper[0]], values[:, upper[1]]
    order = (left > right).astype(np.float64) - (left < right)  # (k, pairs)
    order[np.isnan(values).any(axis=1)] = np.nan
    return _cosines(order)


def spearman_matrix(rows: ArrayLike) -> Floats:
    """Rho of every two of k lists (k, n) -> (k, k); a list with a NaN has NaN with all others."""
    values = _table(rows)
    ranks = rankdata(values, axis=1) if values.size else values
    ranks = ranks - (values.shape[1] + 1) / 2
    ranks[np.isnan(values).any(axis=1)] = np.nan
    return _cosines(ranks)


def tau(first: Mapping[str, float] | Sequence[str], second: Mapping[str, float] | Sequence[str]) -> KendallTau:
    """Kendall's tau-b between two rankings of the same names.

    Args:
        first: names, best first; or a number for each name, the larger the better.
        second: likewise. Names that stand in only one of the two, or have NaN there, are left out.
    """
    left, right = _numbers(first), _numbers(second)
    names = [name for name in left if name in right]
    a, b = _defined([left[name] for name in names], [right[name] for name in names])
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return KendallTau(float("nan"), float("nan"), len(a))
    result = kendalltau(a, b)
    return KendallTau(float(result.statistic), float(result.pvalue), len(a))


def _numbers(ranking: Mapping[str, float] | Sequence[str]) -> Mapping[str, float]:
    if isinstance(ranking, Mapping):
        return ranking
    if len(set(ranking)) != len(ranking):
        raise InputError(f"a ranking names each thing once, got {list(ranking)}; give numbers by name where some tie")
    return {name: -float(place) for place, name in enumerate(ranking)}


def _defined(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    if len(first) != len(second):
        raise InputError(f"a correlation needs two lists of one length, got {len(first)} and {len(second)}")
    both = ~(np.isnan(first) | np.isnan(second))
    return first[both], second[both]


def _table(rows: ArrayLike) -> Floats:
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"lists of one length come as (lists, numbers), got an array of shape {values.shape}")
    return values


def _cosines(rows: Floats) -> Floats:
    product = rows @ rows.T
    squares = np.diagonal(product)
    lengths = np.sqrt(np.outer(squares, squares))
    cosines: Floats = product / np.where(lengths > 0, lengths, np.nan)
    return np.clip(cosines, -1.0, 1.0)  # rounding
