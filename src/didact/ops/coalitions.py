"""Which units to keep: the keep masks that perturbation methods evaluate."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from didact.types import Floats

Bools = NDArray[np.bool_]


def leave_one_out(n: int) -> Bools:
    """Row i lacks unit i: (n, n)."""
    return ~np.eye(n, dtype=np.bool_)


def lime_samples(n: int, samples: int, rng: np.random.Generator) -> Bools:
    """LIME's neighbourhood: the full text first, then rows that lack a uniformly drawn number of units (1 to n)."""
    removed = rng.integers(1, n + 1, size=samples - 1)
    ranks = rng.random((samples - 1, n)).argsort(axis=1).argsort(axis=1)  # a random permutation per row
    return np.concatenate([np.ones((1, n), dtype=np.bool_), ranks >= removed[:, None]])


def shapley_samples(n: int, samples: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Coalitions and weights for the Shapley least-squares problem, without the empty and the full one.

    Sizes are taken from the outside in, where the kernel puts most of its weight: as long as the budget holds all
    coalitions of sizes s and n - s, they are enumerated with their exact weight. What is left of the budget is drawn
    in complementary pairs from the remaining sizes, sharing the remaining weight. With 2^n - 2 <= samples nothing is
    drawn and the solution is exact.

    Returns:
        Keep masks (m, n) with m <= samples, and a positive weight for each.
    """
    masks: list[Bools] = []
    weights: list[Floats] = []
    left = samples
    sizes = list(range(1, n // 2 + 1))
    while sizes:
        size = sizes[0]
        rows = _all_of_sizes(n, size) if _pair_count(n, size) <= left else None
        if rows is None:
            break
        masks.append(rows)
        weights.append(np.full(len(rows), _kernel_mass(n, size) / len(rows)))
        left -= len(rows)
        sizes.pop(0)
    if sizes and left >= 2:
        rows, counts = _drawn_pairs(n, sizes, left, rng)
        mass = sum(_kernel_mass(n, size) for size in sizes)
        masks.append(rows)
        weights.append(mass * counts / counts.sum())
    return np.concatenate(masks), np.concatenate(weights)


def shapley_count(n: int, samples: int) -> int:
    """How many coalitions ``shapley_samples`` evaluates at most."""
    return min((1 << n) - 2, max(samples, _pair_count(n, 1)))


def _pair_count(n: int, size: int) -> int:
    return comb(n, size) * (1 if 2 * size == n else 2)


def _kernel_mass(n: int, size: int) -> float:
    """Total Shapley-kernel weight of the coalitions of ``size`` and ``n - size``."""
    return (n - 1) / (size * (n - size)) * (1 if 2 * size == n else 2)


def _all_of_sizes(n: int, size: int) -> Bools:
    chosen = np.array(list(combinations(range(n), size)))
    rows = np.zeros((len(chosen), n), dtype=np.bool_)
    np.put_along_axis(rows, chosen, True, axis=1)
    return rows if 2 * size == n else np.concatenate([rows, ~rows])


def _drawn_pairs(n: int, sizes: list[int], budget: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Distinct coalitions drawn with their complements, and how often each was drawn."""
    mass = np.array([_kernel_mass(n, size) for size in sizes])
    seen: dict[bytes, int] = {}
    rows: list[Bools] = []
    counts: list[float] = []
    draws = 0
    while len(rows) + 2 <= budget and draws < 4 * budget:
        size = int(rng.choice(sizes, p=mass / mass.sum()))
        row = np.zeros(n, dtype=np.bool_)
        row[rng.permutation(n)[:size]] = True
        for coalition in (row, ~row):
            key = coalition.tobytes()
            if key in seen:
                counts[seen[key]] += 1.0
            else:
                seen[key] = len(rows)
                rows.append(coalition)
                counts.append(1.0)
        draws += 1
    return np.array(rows), np.array(counts)
