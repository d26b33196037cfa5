"""One thread at a time per object: a network or a tokenizer, whose state is global to all who use it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
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
