"""Which units to keep: the keep masks that perturbation methods evaluate."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from didact.types import Floats

Bools = NDArray[np.bool_]


def lime_samples(n: int, samples: int, rng: np.random.Generator) -> Bools:
    """LIME's neighbourhood: the full text first, then rows that lack a uniformly drawn number of units (1 to n)."""
    removed = rng.integers(1, n + 1, size=samples - 1)
    ranks = rng.random((samples - 1, n)).argsort(axis=1).argsort(axis=1)  # a random permutation per row
    return np.concatenate([np.ones((1, n), dtype=np.bool_), ranks >= removed[:, None]])


def windows(n: int, span: int) -> Bools:
    """Row i lacks the ``span`` consecutive units from i on: (n - span + 1, n)."""
    starts = np.arange(n - span + 1)[:, None]
    columns = np.arange(n)[None, :]
    return (columns < starts) | (columns >= starts + span)


def shapley_pairs(n: int, pairs: int, rng: np.random.Generator) -> Bools:
    """Coalitions to evaluate together with their complements, best first, none twice.

    Each row stands for the pair of itself and its complement and has at most n / 2 units. First come the n single
    units (row i is unit i alone), which every estimator leans on. Then the sizes take turns, a size that has no
    coalition left standing back, and within a size coalitions are drawn without replacement. Every size counts the same
    because a Shapley value is, up to a constant, the plain mean over sizes of the slopes of the best linear fit to the
    coalitions of one size. Any first part of the rows is a sample of the same kind, and all of them, 2^(n-1) - 1, are
    all coalitions but the empty and the full one.

    Returns:
        Keep masks (m, n), m the smaller of ``pairs`` and the number there are, but at least the single units.
    """
    if n == 1:
        return np.zeros((0, 1), dtype=np.bool_)
    singles = np.eye(n, dtype=np.bool_)[: pair_count(n, 1)]
    left = max(0, pairs - len(singles))
    order: list[tuple[float, int, int]] = []  # (turn, size, number within the size)
    for size in range(2, n // 2 + 1):
        share = 0.5 if 2 * size == n else 1.0  # size n / 2 is its own complement
        first = rng.random()
        order += [((k + first) / share, size, k) for k in range(min(left, pair_count(n, size)))]
    order = sorted(order)[:left]
    sizes = np.array([size for _, size, _ in order], dtype=np.int64)
    rows = np.zeros((len(order), n), dtype=np.bool_)
    for size in np.unique(sizes):
        chosen = sizes == size
        rows[chosen] = _drawn(n, int(size), int(chosen.sum()), rng)
    return np.concatenate([singles, rows])


def kernel_coalitions(n: int, count: int, rng: np.random.Generator) -> Bools:
    """Coalitions drawn from the Shapley kernel, their sizes spread evenly over its distribution: (count, n).

    The kernel's weight of size s is 1 / (s (n - s)), shared by the coalitions of that size. A single unit has no
    coalition but itself.
    """
    if n == 1:
        return np.ones((count, 1), dtype=np.bool_)
    sizes = np.arange(1, n)
    weights = np.cumsum(1.0 / (sizes * (n - sizes)))
    places = (np.arange(count) + rng.random()) / count * weights[-1]
    drawn = sizes[np.minimum(np.searchsorted(weights, places, side="right"), n - 2)]
    ranks = rng.random((count, n)).argsort(axis=1).argsort(axis=1)  # a random order per row
    rows: Bools = ranks < drawn[:, None]
    return rows


def different_pairs(n: int, pairs: int, rng: np.random.Generator) -> Bools:
    """Coalitions of the kernel to evaluate with their complements, none twice, in random order: (m, n).

    m is the smaller of ``pairs`` and the number there are; unlike that of ``shapley_pairs`` it may be below n.
    """
    if n == 1 or 2 * pairs >= (1 << min(n - 1, 30)) - 1:
        return shapley_pairs(n, pairs, rng)[:pairs]
    rows = np.zeros((0, n), dtype=np.bool_)
    while len(rows) < pairs:
        fresh = kernel_coalitions(n, pairs, rng)
        fresh ^= ~fresh[:, :1]  # of a pair, the one with the first unit
        rows = distinct(np.concatenate([rows, fresh[rng.permutation(pairs)]]))
    return rows[:pairs]


def distinct(rows: Bools) -> Bools:
    """Each row once, in the order of their first appearance."""
    return rows[np.sort(np.unique(np.packbits(rows, axis=1), axis=0, return_index=True)[1])]


def shapley_pair_weights(rows: Bools) -> Floats:
    """Weight of each of these pairs in the Shapley least-squares problem: (m,).

    The kernel's weight of a size is shared by its rows; the weight of sizes without a row goes to the sizes above 1.
    """
    n = rows.shape[1]
    sizes = rows.sum(axis=1)
    counts = np.bincount(sizes, minlength=n // 2 + 1)[: n // 2 + 1]
    kernel = np.array([0.0, *(_kernel_mass(n, size) for size in range(1, n // 2 + 1))])
    drawn = np.where(counts > 0, kernel, 0.0)
    inner = drawn[2:].sum()
    if inner > 0:
        drawn[2:] *= kernel[2:].sum() / inner
    weights: Floats = (drawn / np.maximum(counts, 1))[sizes]
    return weights


def shapley_pair_count(n: int, samples: int) -> int:
    """How many pairs a budget of so many evaluations allows: at least the single units, at most all there are."""
    return min((1 << (n - 1)) - 1, max(samples // 2, pair_count(n, 1)))


def pair_count(n: int, size: int) -> int:
    """Pairs of a coalition of this size and its complement; 2 size <= n."""
    return comb(n, size) // (2 if 2 * size == n else 1)


def _kernel_mass(n: int, size: int) -> float:
    """Total Shapley-kernel weight of the coalitions of ``size`` and ``n - size``."""
    return (n - 1) / (size * (n - size)) * (1 if 2 * size == n else 2)


def _drawn(n: int, size: int, count: int, rng: np.random.Generator) -> Bools:
    """So many different coalitions of one size, no two of them complements: (count, n), in random order."""
    if pair_count(n, size) <= 4 * count:
        rows = _all_of_size(n, size)
        return rows[rng.permutation(len(rows))[:count]]
    rows = np.zeros((0, n), dtype=np.bool_)
    while len(rows) < count:
        fresh = rng.random((count, n)).argsort(axis=1).argsort(axis=1) < size
        if 2 * size == n:
            fresh ^= ~fresh[:, :1]  # of the two halves, the one with the first unit
        rows = distinct(np.concatenate([rows, fresh]))
    return rows[:count]


def _all_of_size(n: int, size: int) -> Bools:
    chosen = np.array(list(combinations(range(n), size)))
    rows = np.zeros((len(chosen), n), dtype=np.bool_)
    np.put_along_axis(rows, chosen, True, axis=1)
    return rows[rows[:, 0]] if 2 * size == n else rows
