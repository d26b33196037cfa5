"""Estimates before the last, of methods that evaluate in rounds and can stop after any of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from didact.types import Explanation

Watcher = Callable[[list[Explanation]], None]
Former = Callable[[Sequence[Any]], list[Explanation]]
"""Makes explanations of a method's outcomes."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("didact_partial_watcher", default=None)
_FORMER: ContextVar[Former | None] = ContextVar("didact_partial_former", default=None)


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` with the explanations so far after each round of everything inside.

    It may raise to stop the work; what it was given last is then the result.
    """
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def is_watched() -> bool:
    """Whether somebody wants estimates before the last, so that rounds are worth their while."""
    return _WATCHER.get() is not None and _FORMER.get() is not None


@contextlib.contextmanager
def forming(former: Former) -> Iterator[None]:
    """Inside, outcomes of a round become explanations by ``former``."""
    token = _FORMER.set(former)
    try:
        yield
    finally:
        _FORMER.reset(token)


def offer(outcomes: Sequence[object]) -> None:
    """Hand the outcomes of a round to whoever watches."""
    watcher, former = _WATCHER.get(), _FORMER.get()
    if watcher is not None and former is not None:
        watcher(former(outcomes))
