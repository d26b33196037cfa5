"""Which examples: seeded choices that depend on the texts, not on the order of a file.

Every example gets a place in [0, 1) from a hash of the seed and its text. Reading the same texts from another file, in
another order or in another process gives the same choice.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from didact.errors import ParameterError
from didact.types import Example


def sample(examples: Sequence[Example], limit: int | None, seed: int = 0) -> list[Example]:
    """At most ``limit`` examples, in the proportion of their labels; all of them, in their order, without a limit.

    The first 100 of a limit of 200 are those of a limit of 100. Labels that are no classes but measured numbers have
    no proportion to keep.
    """
    if limit is None:
        return list(examples)
    check_limit(limit)
    groups: dict[str, list[Example]] = defaultdict(list)
    measured = any(isinstance(example.label, float) for example in examples)
    for example in shuffled(examples, seed):
        groups["" if measured else repr(example.label)].append(example)
    # The i-th of n examples of a label stands at (i + 1/2) / n, so that any beginning has the labels' proportion.
    order = sorted(
        ((place + 0.5) / len(group), label, place) for label, group in groups.items() for place in range(len(group))
    )
    return [groups[label][place] for _, label, place in order[:limit]]


def check_limit(limit: object) -> None:
    """Refuse what is no number of examples."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ParameterError(f"limit must be a whole number of examples, at least 1, or None for all; got {limit!r}")


def shuffled(examples: Sequence[Example], seed: object = 0) -> list[Example]:
    """All examples in an order that only the seed and their texts decide; equal texts stand side by side."""
    return sorted(examples, key=lambda example: (place(example, seed), str(example.label), example.id or ""))


def place(example: Example, seed: object = 0) -> float:
    """Where an example stands in [0, 1)."""
    digest = hashlib.sha256(f"{seed}\x00{example.fingerprint}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


@dataclass(frozen=True)
class Slice:
    """Part of other splits: examples number ``start`` to ``stop`` of them, after shuffling.

    Attributes:
        of: the splits it is cut from, joined by "+".
        start: first example; a share of the texts where it is not a whole number.
        stop: first example that is left out; a float where ``start`` is one. Shares are cut by each text alone, so a
            text falls on the same side whatever else the split holds, and the size is only nearly the share.
        source: where the cut was published.
    """

    of: str
    start: int | float
    stop: int | float
    source: str

    def cut(self, examples: Sequence[Example], seed: object) -> list[Example]:
        """The examples of this part, shuffled."""
        order = shuffled(examples, seed)
        if isinstance(self.stop, int) and isinstance(self.start, int):
            return order[self.start : self.stop]
        return [example for example in order if self.start <= place(example, seed) < self.stop]
