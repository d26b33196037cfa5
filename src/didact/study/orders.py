"""Balanced orders: everything stands in every place equally often, and next to everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Thing = TypeVar("Thing")


def balanced_orders(things: Sequence[Thing], count: int, rng: np.random.Generator) -> list[tuple[Thing, ...]]:
    """So many orders of the things, in which places differ by at most one in how often they hold a thing.

    In every run of ``len(things)`` orders (twice as many for an odd number) each thing stands in each place equally
    often and follows each other one equally often (Williams 1949). Which thing is which in the square is drawn for
    every such block, and so is the order of its rows.
    """
    square = williams_square(len(things))
    orders: list[tuple[Thing, ...]] = []
    while len(orders) < count:
        names = rng.permutation(len(things)).tolist()
        # Half a block of an odd number of things is a Latin square by itself, so halves stay together.
        halves = [square[start : start + len(things)] for start in range(0, len(square), len(things))]
        rows = [half[row] for half in halves for row in rng.permutation(len(half)).tolist()]
        orders += [tuple(things[names[place]] for place in row) for row in rows]
    return orders[:count]


def williams_square(size: int) -> list[list[int]]:
    """Rows in which each number stands in each place, and after each other number, equally often."""
    zigzag = [(place + 1) // 2 if place % 2 else size - place // 2 for place in range(size)]
    rows = [[(first + row) % size for first in zigzag] for row in range(size)]
    return rows if size % 2 == 0 else rows + [row[::-1] for row in rows]


def round_robin(groups: Sequence[Sequence[Thing]], count: int) -> list[Thing]:
    """So many things, taken from the groups in turn, so that groups are as equal as their sizes allow."""
    longest = max(map(len, groups), default=0)
    return [group[at] for at in range(longest) for group in groups if at < len(group)][:count]
