"""How long work reports its progress, without knowing who listens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """What shows progress: a terminal bar, a notebook, a web page."""

    def start(self, what: str, total: int) -> None:
        """A piece of work of ``total`` steps begins."""

    def advance(self, steps: int) -> None:
        """Some steps of it are done."""

    def stop(self) -> None:
        """It ended, finished or not."""


_LISTENER: ContextVar[Listener | None] = ContextVar("didact_listener", default=None)


@contextlib.contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send the progress of everything inside to ``listener``."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextlib.contextmanager
def working(what: str, total: int) -> Iterator[None]:
    """Announce a piece of work; report its steps with ``advance``."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.start(what, total)
    try:
        yield
    finally:
        if listener is not None:
            listener.stop()


def advance(steps: int) -> None:
    """Some steps of the current work are done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.advance(steps)
