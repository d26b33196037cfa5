"""How long work takes, learned from what was done: seconds per unit of cost, by method."""

from __future__ import annotations

import threading

USUAL = 1 / 20_000
"""Seconds per model evaluation x token before anything was measured: a small encoder on a few cores."""

WEIGHT = 0.2
"""Of the newest measurement in the running mean."""


class Rates:
    """Running means per method.

    A method that was not measured yet is taken to be as fast as the fastest: what a request takes besides its cost
    weighs most in the cheap ones, and a guess that is too high would refuse work that there is room for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_method: dict[str, float] = {}

    def seconds(self, method: str, cost: float) -> float:
        """Expected time of work."""
        with self._lock:
            known = self._by_method
            return cost * (known[method] if method in known else min(known.values(), default=USUAL))

    def learn(self, method: str, cost: float, seconds: float) -> None:
        """Take in what a batch took."""
        pace = seconds / max(cost, 1.0)
        with self._lock:
            known = self._by_method.get(method)
            self._by_method[method] = pace if known is None else (1 - WEIGHT) * known + WEIGHT * pace
