"""Files that appear whole or not at all, and failures of the disk as errors that name the path."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from didact.errors import InputError

DAY = 24 * 60 * 60
"""Seconds after which an unfinished file is nobody's any more."""


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
        if _is_stream(target):
            with target.open("wb") as file:
                yield file
            return
        target = target.resolve()  # a link stays one
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
            raise refused(path, problem) from problem
        raise
    _sync_folder(target.parent)


def sweep(folder: Path) -> None:
    """Remove unfinished files that processes killed long ago left; younger ones may still be written by another."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):  # another process was quicker
            if time.time() - path.stat().st_mtime > DAY:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextlib.contextmanager
def filling(folder: Path | str, last: str) -> Iterator[Path]:
    """A folder to fill, whose files take their places in ``folder`` once all of them are written.

    Other files of ``folder`` stay. Whoever is killed while the files move leaves some old and some new ones, so one of
    them should hold what the others can be checked by.

    Args:
        folder: where the files will be; made where it is missing.
        last: the file that moves after all others.

    Raises:
        InputError: the disk refused; the message names the folder and the reason.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        sweep(target)
        with tempfile.TemporaryDirectory(dir=target, prefix=".", suffix=".tmp") as name:
            beside = Path(name)
            yield beside
            move_files(beside, target, last)
    except OSError as problem:
        raise refused(target, problem) from problem


def move_files(source: Path, target: Path, last: str) -> None:
    """Move all files of one folder, and of the folders in it, to their places in another, ``last`` after the others."""
    names = [path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()]
    for name in sorted(names, key=lambda name: name.as_posix() == last):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(target / name)
    _sync_folder(target)


def check_writable(path: Path | str) -> None:
    """Refuse a file that could not be written, before the work is done whose result goes there.

    Raises:
        InputError: ``path`` is a folder, a part of it is a file, or its folder is read-only or full.
    """
    target = Path(path)
    try:
        if _is_stream(target):
            return
        target = target.resolve()
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        with _made(target.parent):
            probe = target.with_name(f".{secrets.token_hex(4)}.{os.getpid()}.tmp")
            try:
                probe.write_bytes(b"\0" * 4096)
                if not target.exists():
                    _try_name(target)
            finally:
                probe.unlink(missing_ok=True)
    except (OSError, ValueError) as problem:
        raise refused(path, problem) from problem


NAME = re.compile(r"[\w.\-]{1,100}")
"""What may become the name of a file or a folder: letters, digits, '.', '_' and '-'."""


def check_name(name: object, what: str) -> None:
    """Refuse a name that would lead to another folder, or that a disk may not take.

    Args:
        name: what a file or a folder will be called.
        what: where the name comes from, for the message.
    """
    fine = isinstance(name, str) and NAME.fullmatch(name) and not name.startswith(".") and len(name.encode()) <= 200
    if not fine:
        raise InputError(
            f"{what} becomes the name of a folder: up to 100 letters, digits, '.', '_' and '-', not beginning with "
            f"'.'; got {name!r:.120}"
        )


def safe_name(text: str, default: str) -> str:
    """A name that ``check_name`` accepts, from a text such as the name of a file."""
    return re.sub(r"[^\w.\-]+", "-", text).lstrip(".")[:50] or default


def refused(path: Path | str, problem: Exception) -> InputError:
    """The error for a path that the disk refuses to write."""
    reason = getattr(problem, "strerror", None) or str(problem)
    return InputError(f"cannot write {str(path)!r:.300}: {reason}; nothing there was changed, give another place")


def _is_stream(target: Path) -> bool:
    """Whether the path is a device or a pipe (/dev/stdout, /dev/null), which nothing may take the place of."""
    return target.exists() and not target.is_file() and not target.is_dir()


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
