"""What a failure means for the caller: one line and a code for their own mistakes, a report file for ours."""

from __future__ import annotations

import argparse
import errno
import os
import platform
import tempfile
import time
import traceback
from pathlib import Path

from didact.cli import printing
from didact.errors import DidactError
from didact.provenance import versions

USER, OURS, STOPPED = 2, 1, 130
"""Exit codes: a mistake of the user, a defect of didact, a run that was stopped by hand."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def exit_code(problem: BaseException, options: argparse.Namespace | None, command: str) -> int:
    """Print what went wrong, and return the code to exit with.

    Args:
        problem: what was raised.
        options: what was given; None where it could not be parsed.
        command: the command line, for the report.
    """
    if isinstance(problem, KeyboardInterrupt):
        printing.message("didact: stopped")
        return STOPPED
    if isinstance(problem, DidactError):
        printing.message(f"didact: error: {problem}")
        return USER
    if isinstance(problem, OSError) and _is_users(problem, options):
        name = "" if problem.filename is None else f" {os.fsdecode(problem.filename)!r:.300}"
        printing.message(f"didact: error: cannot use{name}: {problem.strerror or problem}")
        return USER
    written = write_report(problem, command)
    place = "and no report could be written" if written is None else f"a report is in {written}: please send it along"
    printing.message(f"didact: internal error: {_headline(problem)}; this is a defect of didact, {place}")
    return OURS


def write_report(problem: BaseException, command: str) -> Path | None:
    """Write what is needed to find a defect into the current folder, or else that for temporary files.

    The report holds the command as it was given, so it may hold the texts; no values of variables are in it.
    """
    lines = [
        "didact stopped because of a defect. This report holds the command as it was given: read it before sending it.",
        f"command: {command}",
        f"time: {time.strftime('%Y-%m-%dT%H:%M:%S%z')}",
        f"versions: {', '.join(f'{library} {number}' for library, number in versions().items())}",
        f"system: {platform.platform()}",
        "",
        *traceback.format_exception(problem),
    ]
    text = "\n".join(lines).encode("utf-8", "backslashreplace")
    name = f"didact-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (Path.cwd, lambda: Path(tempfile.gettempdir())):
        try:
            path = folder() / name
            path.write_bytes(text)
        except OSError:
            continue
        return path
    return None


def _headline(problem: BaseException) -> str:
    if isinstance(problem, MemoryError):
        return "out of memory (fewer or shorter texts, a smaller model or cheaper settings may fit)"
    return f"{type(problem).__name__}: {problem}"


def _is_users(problem: OSError, options: argparse.Namespace | None) -> bool:
    """Whether the disk is full, or the failure is about a path that was given."""
    if problem.errno in _DISK:
        return True
    if problem.filename is None or isinstance(problem.filename, int) or options is None:
        return False
    path = Path(os.fsdecode(problem.filename)).absolute()
    given = [Path(value).absolute() for value in vars(options).values() if value and isinstance(value, (str, Path))]
    return any(path == place or path in place.parents or place in path.parents for place in given)
