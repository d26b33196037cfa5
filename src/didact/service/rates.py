"""How long work takes, learned from what was done: seconds per unit of cost, by method."""

from __future__ import annotations

import threading

USUAL = 1 / 20_000
"""Seconds per model evaluation x token before anything was measured: a small encoder on a few cores."""

WEIGHT = 0.2
"""Of the newest measurement in the running mean."""


class Rates:
    """Running means per method; a method that was not measured yet is taken to be as the others are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_method: dict[str, float] = {}
        self._all: float | None = None

    def seconds(self, method: str, cost: float) -> float:
        """Expected time of work."""
        with self._lock:
            pace = self._by_method.get(method, self._all if self._all is not None else USUAL)
        return cost * pace

    def learn(self, method: str, cost: float, seconds: float) -> None:
        """Take in what a batch took."""
        pace = seconds / max(cost, 1.0)
        with self._lock:
            known = self._by_method.get(method)
            self._by_method[method] = pace if known is None else (1 - WEIGHT) * known + WEIGHT * pace
            self._all = pace if self._all is None else (1 - WEIGHT) * self._all + WEIGHT * pace
