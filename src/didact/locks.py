"""Folders that one process writes at a time: a lock that the system takes back when its holder ends, also by a kill."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from didact.errors import InputError

LOCK = ".lock"
"""The file that is locked. It stays: removing it would let two processes hold two files of one name."""


@contextlib.contextmanager
def locked(folder: Path, cure: str) -> Iterator[None]:
    """Hold a folder, which is created where it is missing, until the end of the block.

    Args:
        folder: what is written.
        cure: what else can be done while another process holds it, for the message.

    Raises:
        InputError: another process holds it, or the folder cannot be written.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as problem:
        raise InputError(f"cannot write {folder}: {problem.strerror}; {cure}") from None
    with file:
        if not _taken(file):
            raise InputError(f"{folder} is being written by {_holder(path)}; wait until it has ended, or {cure}")
        _sign(file)
        yield


def _sign(file: IO[bytes]) -> None:
    """Leave word who holds the lock, for the message that others get; not being able to is no obstacle."""
    note = {"process": os.getpid(), "machine": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.write(json.dumps(note).encode())
        file.flush()


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return f"process {note['process']} on {note['machine']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


if sys.platform == "win32":
    import msvcrt

    def _taken(file: IO[bytes]) -> bool:
        file.seek(1 << 30)  # a byte behind the note, which others may then read
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

else:
    import fcntl

    def _taken(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True
