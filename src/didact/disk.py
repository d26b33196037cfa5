"""Files that appear whole or not at all, and failures of the disk as errors that name the path."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from didact.errors import InputError


def write_text(path: Path | str, text: str) -> None:
    """Write a text as UTF-8 in place of what was there; if that fails, what was there stays."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write bytes in place of what was there; if that fails, what was there stays."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path | str, scratch: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write into that takes the place of ``path`` once all of it is on the disk.

    Whoever reads sees the old file or the new one, also if this process is killed or the disk is full.

    Args:
        path: where the file will be; missing folders are made.
        scratch: a folder of the same disk for the unfinished file; beside ``path`` when not given.

    Raises:
        InputError: the disk refused; the message names the path and the reason.
    """
    target = Path(path)
    beside: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        beside = (scratch or target.parent) / f".{secrets.token_hex(4)}.{os.getpid()}.tmp"
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException as problem:
        if beside is not None:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        if isinstance(problem, (OSError, ValueError)):
            raise refused(target, problem) from problem
        raise
    _sync_folder(target.parent)


def check_writable(path: Path | str) -> None:
    """Refuse a file that could not be written, before the work is done whose result goes there.

    Raises:
        InputError: ``path`` is a folder, a part of it is a file, or its folder is read-only or full.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        with _made(target.parent):
            probe = target.with_name(f".{secrets.token_hex(4)}.{os.getpid()}.tmp")
            try:
                probe.write_bytes(b"\0" * 4096)
                target.exists() or _try_name(target)
            finally:
                probe.unlink(missing_ok=True)
    except (OSError, ValueError) as problem:
        raise refused(target, problem) from problem


def refused(path: Path | str, problem: Exception) -> InputError:
    """The error for a path that the disk refuses to write."""
    reason = getattr(problem, "strerror", None) or str(problem)
    return InputError(f"cannot write {str(path)!r:.300}: {reason}; nothing there was changed, give another place")


def _try_name(target: Path) -> None:
    """Make the file and remove it: a name may be too long or hold what the disk does not take."""
    target.touch(exist_ok=False)
    target.unlink()


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, made if it is missing and then removed again."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for each in missing:
            with contextlib.suppress(OSError):
                each.rmdir()


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
