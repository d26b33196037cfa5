"""Counts model evaluations made inside a ``with metered()`` block; models report to whatever meter is active."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from didact.types import Cost

_ACTIVE: ContextVar[tuple[Meter, ...]] = ContextVar("didact_meters", default=())


@dataclass
class Meter:
    """Running totals of one block."""

    forwards: int = 0
    backwards: int = 0
    evaluated: int = 0
    seconds: float = 0.0

    @property
    def cost(self) -> Cost:
        """The totals as a frozen noun."""
        return Cost(self.forwards, self.backwards, self.evaluated, self.seconds)


@contextlib.contextmanager
def metered() -> Iterator[Meter]:
    """Count what happens inside; blocks nest, and each counts everything within it."""
    meter = Meter()
    token = _ACTIVE.set((*_ACTIVE.get(), meter))
    start = time.perf_counter()
    try:
        yield meter
    finally:
        meter.seconds = time.perf_counter() - start
        _ACTIVE.reset(token)


def count(*, forwards: int = 0, backwards: int = 0, evaluated: int = 0) -> None:
    """Report evaluations to every active meter."""
    for meter in _ACTIVE.get():
        meter.forwards += forwards
        meter.backwards += backwards
        meter.evaluated += evaluated
