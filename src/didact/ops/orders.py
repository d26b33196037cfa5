"""Orders of units for Shapley values: random one by one, balanced together."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from didact.types import Floats

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MOST_ORDERS = 24
"""Orders of one design; the time that a search takes grows with their square."""

MOST_SEARCHED = 64
"""Units of a design; orders of more units are independent."""

ROUNDS = 8
"""How often a search improves each order."""

FIVES = 0.3
"""The weight of interactions of five units in the likeness of orders, the rest being that of three.

With it the standard errors of designs come out right on short texts; the designs themselves hardly depend on it.
"""


def balanced_orders(n: int, samples: int, rng: np.random.Generator) -> Ints:
    """Orders of the units whose mean contributions stray little; each stands for itself and its reverse: (g, m, n).

    With its reverse, an order is exact about interactions of two units. Of three it credits the first and the last
    alone, so that the orders of one design are searched to have every unit in the middle about equally often, and to
    pass through common coalitions where that leaves room for one order more. A design depends on ``n`` and ``samples``
    only and its units are relabelled at random: every order on its own is uniformly random, which keeps means unbiased.

    Args:
        n: how many units.
        samples: the most different coalitions, the full and the empty one aside, that the orders and their reverses
            may pass through; 2n - 2 when that is more.
        rng: relabels the design.

    Returns:
        g relabellings of a design of m orders, independent of each other.
    """
    design, groups = _plan(n, samples)
    labels = rng.permuted(np.tile(np.arange(n), (groups, 1)), axis=1)
    return labels[:, design]


def order_likeness(orders: Ints, others: Ints) -> Floats:
    """How alike the errors of the mean contributions of two orders and their reverses are: (m, k).

    1 for the same order and 0 on average over random ones: the correlation of their errors about interactions of three
    units, and to the share ``FIVES`` of five, when all such interactions are equally strong and unrelated.
    """
    n = orders.shape[1]
    sides = _sides(orders).transpose(1, 0, 2) @ _sides(others).transpose(1, 2, 0)  # (n, m, k)
    # The contributions of a unit to a product of k signs agree where an even number of the k - 1 others changes sides:
    # their sum is the coefficient of s^(k - 1) in (1 + s)^same (1 - s)^changed, here written in same - changed.
    rest, squared = n - 1, sides**2
    threes = _correlation(((squared - rest) / 2).sum(axis=0), n, 3)
    if n < 5:
        return threes
    fives = (squared**2 - (6 * rest - 8) * squared + 3 * rest**2 - 6 * rest) / 24
    return (1 - FIVES) * threes + FIVES * _correlation(fives.sum(axis=0), n, 5)


def antithetic_count(n: int, samples: int) -> int:
    """The most pairs of orders, at least one, whose prefixes cannot be more than ``samples`` different coalitions.

    A pair of orders has two prefixes of each size, and there are only so many coalitions of a size. The number is
    fixed before anything is drawn, which keeps the mean over the pairs unbiased.
    """
    most = [comb(n, size) for size in range(1, n)]
    low, high = 1, max(1, samples)
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(min(2 * middle, count) for count in most) <= samples
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def prefixes(orders: Ints) -> Bools:
    """The coalitions met when units arrive in these orders, without the empty and the full one: (..., n - 1, n)."""
    n = orders.shape[-1]
    arrival = orders.argsort(axis=-1)
    coalitions: Bools = arrival[..., None, :] < np.arange(1, n)[:, None]
    return coalitions


@lru_cache(maxsize=256)
def _plan(n: int, samples: int) -> tuple[Ints, int]:
    """A design for this budget, and how many relabellings of it to take."""
    if n < 3:
        return np.arange(n)[None], 1
    orders = antithetic_count(n, samples)
    if n > MOST_SEARCHED:
        return np.arange(n)[None], orders
    groups = -(-orders // MOST_ORDERS)
    design = _design(n, max(samples // 2, n - 1) // groups)
    return design, max(groups, _group_count(design, samples))


def _design(n: int, pairs: int) -> Ints:
    """Orders that pass through at most so many coalitions and their complements, as unlike each other as found."""
    rng = np.random.default_rng((n, pairs))
    count = antithetic_count(n, 2 * pairs)
    if count == 1 and 4 * (pairs - (n - 1)) < n - 1:
        return np.arange(n)[None]
    starts = int(np.clip(6_000 // (count * n**2), 1, 4))  # small searches are quick but end unlike each other
    designs = [_searched(n, pairs, count, rng) for _ in range(starts)]
    return min(designs, key=lambda orders: float(order_likeness(orders, orders).mean()))


def _searched(n: int, pairs: int, count: int, rng: np.random.Generator) -> Ints:
    """Improve random orders one at a time, keeping within the coalitions allowed."""
    orders = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    if 4 * (pairs - count * (n - 1)) >= n - 1:  # room for one more that shares coalitions with the others
        orders = np.concatenate([orders, orders[:1]])
    keys = rng.integers(1 << 62, size=n)
    for step in range(ROUNDS * len(orders)):
        place = step % len(orders)
        others = np.delete(orders, place, axis=0)
        known = np.unique(_marks(others, keys))
        variants = np.concatenate([_variants(orders, place, rng), orders[place : place + 1]])
        fresh = (~np.isin(_marks(variants, keys), known)).sum(axis=1)
        alike = order_likeness(variants, others).sum(axis=1)
        orders[place] = variants[np.where(fresh <= pairs - len(known), alike, np.inf).argmin()]
    return orders


def _variants(orders: Ints, place: int, rng: np.random.Generator) -> Ints:
    """Orders near the one at ``place``: a unit moved, two swapped, a stretch reversed, or another's prefix met."""
    n = orders.shape[1]
    count = int(np.clip((1 << 16) // n**2, 1, 64))
    here = np.arange(n)
    origin, far = rng.integers(n, size=(2, count, 1))
    near = np.clip(origin + rng.integers(-3, 4, size=(count, 1)), 0, n - 1)
    other = np.where(rng.random((count, 1)) < 0.5, near, far)
    low, high = np.minimum(origin, other), np.maximum(origin, other)
    moved = np.where(here == origin, other + np.where(other > origin, 0.5, -0.5), here)
    swapped = np.where(here == origin, other, np.where(here == other, origin, here))
    reversed_ = np.where((here >= low) & (here <= high), low + high - here, here)
    arrival = orders.argsort(axis=1)[rng.integers(len(orders), size=count)]  # of another order, or of its reverse
    arrival = np.where(rng.random((count, 1)) < 0.5, arrival, n - 1 - arrival)
    met = here + n * (arrival[:, orders[place]] >= rng.integers(1, n, size=(count, 1)))
    keys = np.stack([moved, swapped, reversed_, met])[rng.integers(4, size=count), np.arange(count)]
    nearby: Ints = orders[place][keys.argsort(axis=1, kind="stable")]
    return nearby


def _marks(orders: Ints, keys: Ints) -> Ints:
    """A number for each prefix, the same as for its complement: (..., n - 1)."""
    marks: Ints = np.bitwise_xor.accumulate(keys[orders], axis=-1)
    smaller: Ints = np.minimum(marks, marks ^ marks[..., -1:])
    return smaller[..., :-1]


def _sides(orders: Ints) -> Floats:
    """On which side of unit i unit j is: +1 after, -1 before: (m, i, j)."""
    arrival = orders.argsort(axis=1)
    sides: Floats = np.sign(arrival[:, None, :] - arrival[:, :, None]).astype(np.float64)
    return sides


def _correlation(agreement: Floats, n: int, size: int) -> Floats:
    """Agreement about all interactions of a size, which is 1 / size for random orders and size for the same."""
    correlation: Floats = (agreement / comb(n, size) - 1 / size) / (size - 1 / size)
    return correlation


def _group_count(design: Ints, samples: int) -> int:
    """How often a design fits into a budget however relabelled: there are only so many coalitions of a size."""
    n = design.shape[1]
    rows = prefixes(np.concatenate([design, design[:, ::-1]])).reshape(-1, n)
    own = np.bincount(np.unique(rows, axis=0).sum(axis=1), minlength=n)[1:n].tolist()
    most = [comb(n, size) for size in range(1, n)]
    groups = 1
    while groups < samples and sum(min((groups + 1) * a, b) for a, b in zip(own, most, strict=True)) <= samples:
        groups += 1
    return groups
