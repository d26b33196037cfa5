"""The best and the worst order in which the units of a text can leave it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.metrics.faithfulness._erasure import Bools, score_variants, whole
from didact.protocols import Model
from didact.types import Explanation, Floats

Bounds = tuple[float, float]
"""Smallest and largest mean fall over all orders."""


def exact_bounds(model: Model, explanations: Sequence[Explanation], absence: str) -> list[Bounds]:
    """Bounds over all orders, from the values of all subsets."""
    taken = [_subsets(len(explanation.units)) for explanation in explanations]
    outputs = score_variants(model, explanations, [~sets for sets in taken], absence)
    return [_over_paths(whole(explanation) - values) for explanation, values in zip(explanations, outputs, strict=True)]


def beam_bounds(model: Model, explanations: Sequence[Explanation], absence: str, beam: int) -> list[Bounds]:
    """Bounds over the orders that two beam searches meet; all texts take a step together."""
    searches = [[_Beam(len(explanation.units), beam, sign) for sign in (-1.0, 1.0)] for explanation in explanations]
    for step in range(max((len(explanation.units) for explanation in explanations), default=0)):
        busy = [i for i, explanation in enumerate(explanations) if step < len(explanation.units)]
        nexts = [np.concatenate([search.candidates() for search in searches[i]]) for i in busy]
        texts = [explanations[i] for i in busy]
        outputs = score_variants(model, texts, [~taken for taken in nexts], absence)
        for i, explanation, values in zip(busy, texts, outputs, strict=True):
            falls = whole(explanation) - values
            low, high = searches[i]
            low.choose(falls[: low.size])
            high.choose(falls[low.size :])
    return [(low.worth / low.n, high.worth / high.n) for low, high in searches]


class _Beam:
    """Orders of one text that are worth going on with, as the sets of units they have taken.

    Of the orders that took the same units only the best can win, so a set stands for it.

    Args:
        n: how many units there are.
        width: sets kept after each step.
        sign: 1 looks for large falls, -1 for small ones.
    """

    def __init__(self, n: int, width: int, sign: float) -> None:
        self.n, self.width, self.sign = n, width, sign
        self.taken: Bools = np.zeros((1, n), dtype=np.bool_)
        self.worths = np.zeros(1)
        self.size = 0

    @property
    def worth(self) -> float:
        """Sum of the falls along the best order so far."""
        return float(self.worths[0])

    def candidates(self) -> Bools:
        """Every kept set with one unit more, each once: (size, units)."""
        best: dict[bytes, tuple[float, Bools]] = {}
        for taken, worth in zip(self.taken, self.worths, strict=True):
            for unit in np.flatnonzero(~taken):
                more = taken.copy()
                more[unit] = True
                key = more.tobytes()
                if key not in best or self.sign * worth > self.sign * best[key][0]:
                    best[key] = (float(worth), more)
        self.worths = np.array([worth for worth, _ in best.values()])
        self.taken = np.stack([more for _, more in best.values()])
        self.size = len(best)
        return self.taken

    def choose(self, falls: Floats) -> None:
        """Add each candidate's fall to its worth and keep the best."""
        worths = self.worths + falls
        order = np.argsort(-self.sign * worths, kind="stable")[: self.width]
        self.worths, self.taken = worths[order], self.taken[order]


def _subsets(n: int) -> Bools:
    """All subsets of n units, the bits of a row's number being the units in it: (2^n, n)."""
    masks: Bools = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1
    return masks


def _over_paths(falls: Floats) -> Bounds:
    """Smallest and largest mean fall over all paths from the empty set to the full one."""
    n = len(falls).bit_length() - 1
    low, high = np.zeros_like(falls), np.zeros_like(falls)
    for number in range(1, len(falls)):
        before = [number ^ (1 << unit) for unit in range(n) if number >> unit & 1]
        low[number] = falls[number] + low[before].min()
        high[number] = falls[number] + high[before].max()
    return float(low[-1]) / n, float(high[-1]) / n
