"""State that threads share: of one object, a network or a tokenizer, and of the process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

_LOCKS: WeakKeyDictionary[object, threading.RLock] = WeakKeyDictionary()
_REGISTERING = threading.Lock()


@contextlib.contextmanager
def exclusive(owner: object) -> Iterator[None]:
    """Let other threads that want the same object wait until the block ends; the own thread may enter again.

    Whatever changes a network for a while (mode, attention implementation, gradients of weights, hooks) or a tokenizer
    (padding, truncation) does so inside. A network is always locked before its tokenizer, so threads cannot wait for
    each other in a circle.

    Args:
        owner: the object itself, so that two adapters round one network exclude each other; it is not kept alive.
    """
    with _REGISTERING:
        lock = _LOCKS.get(owner)
        if lock is None:
            lock = _LOCKS[owner] = threading.RLock()
    with lock:
        yield


class ProcessSwitch:
    """A setting of the whole process: the first thread that enters switches it, the last one that leaves restores it.

    Args:
        switch: sets it, and returns what restores it.
    """

    def __init__(self, switch: Callable[[], Callable[[], None]]) -> None:
        self._switch = switch
        self._restore: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._inside = 0

    @contextlib.contextmanager
    def switched(self) -> Iterator[None]:
        """Inside the block the setting is switched."""
        with self._lock:
            if self._inside == 0:
                self._restore = self._switch()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._restore is not None:
                    self._restore()
