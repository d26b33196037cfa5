"""Trees over neighbouring units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """Units ``start`` to ``stop`` (exclusive), and the two halves they fall into; none for a single unit."""

    start: int
    stop: int
    halves: tuple[Node, ...] = ()

    def __len__(self) -> int:
        return self.stop - self.start


def balanced_tree(n: int, first: int | None = None) -> Node:
    """Halve n units down to single ones; the very first cut comes after unit ``first`` where that is inside."""
    if first is None or not 0 < first < n:
        return _halved(0, n)
    return Node(0, n, (_halved(0, first), _halved(first, n)))


def games(node: Node) -> int:
    """How many games of two halves the tree has: each fork counts once for every way its context can be."""
    return 1 + 2 * sum(games(half) for half in node.halves) if node.halves else 0


def _halved(start: int, stop: int) -> Node:
    if stop - start == 1:
        return Node(start, stop)
    middle = (start + stop + 1) // 2
    return Node(start, stop, (_halved(start, middle), _halved(middle, stop)))
