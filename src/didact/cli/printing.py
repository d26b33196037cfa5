"""All that the commands print goes through here: texts from outside cannot act, and a closed pipe stops no work."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from didact.errors import InputError
from didact.render.pieces import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from didact.render.metric_table import MetricTable
    from didact.types import Estimate, Explanation

LONGEST = 2_000
"""Characters of a message; what was given may be far longer."""


def line(text: object) -> None:
    """A line on standard output, such as the path of a file that was written."""
    _write(sys.stdout, f"{printable(str(text))}\n")


def message(text: str) -> None:
    """One line on standard error, whatever the text holds."""
    flat = " ".join(printable(text).split())
    _write(sys.stderr, f"{flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + '…'}\n")


def document(text: str) -> None:
    """A text on standard output that was made to be written to a file, such as a page."""
    _write(sys.stdout, text if text.endswith("\n") else f"{text}\n")


@contextlib.contextmanager
def console() -> Iterator[Console]:
    """A console as wide and colourful as standard output, on which nothing from outside can act.

    What is printed to it goes out at the end, so that a reader who went away keeps nothing from being done.
    """
    from didact.render.console import safe_console

    shown = io.StringIO()
    try:
        yield safe_console(shown, like=safe_console())
    finally:
        _write(sys.stdout, shown.getvalue())


def show(*parts: RenderableType) -> None:
    """Tables and texts on standard output, one below the other."""
    with console() as printer:
        for part in parts:
            printer.print(part)


def show_explanations(explanations: Sequence[Explanation]) -> None:
    """Explanations on standard output: in colour on a terminal, as plain text into a pipe or a file."""
    from didact.render.console import safe_console
    from didact.render.terminal import terminal, terminal_text

    if safe_console().is_terminal:
        show(terminal(explanations))
    else:
        document(terminal_text(explanations, colour=False))


def show_metrics(tables: Sequence[MetricTable]) -> None:
    """Tables of methods x metrics on standard output, as wide as it is."""
    with console() as printer:
        for table in tables:
            for part in table.terminal(printer.width):
                printer.print(part, "")
            printer.print(table.note)


@contextlib.contextmanager
def shown_warnings() -> Iterator[None]:
    """Warnings as one line each, whatever they hold."""
    before = warnings.showwarning
    warnings.showwarning = lambda text, *_, **__: message(f"didact: warning: {text}")
    try:
        yield
    finally:
        warnings.showwarning = before


def open_streams() -> None:
    """Give a process that was started with closed streams empty ones."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 # as long as the process


def estimates_table(estimates: Sequence[Estimate]) -> str:
    """What explaining would take, a row per method."""
    from rich.table import Table

    from didact.render.console import safe_console

    heads = ("method", "texts", "units", "forwards", "backwards", "seconds", "memory")
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(heads[0], min_width=max(len(row.method) for row in estimates))
    for head in heads[1:]:
        table.add_column(head, justify="right")
    for row in estimates:
        counts = (f"{number:,}" for number in (row.examples, row.units, row.forwards, row.backwards))
        memory = "unknown" if row.memory is None else f"{row.memory / 2**20:,.0f} MiB"
        table.add_row(row.method, *counts, f"{row.seconds:,.2f}", memory)
    written = io.StringIO()
    console = safe_console(written, like=safe_console())
    console.print(table)
    console.print("Counts are exact (at most where a method may stop early, more where it raises its steps), seconds")
    console.print("timed on a few passes or texts, memory rough. Nothing was kept.")
    return written.getvalue().rstrip()


def _write(stream: TextIO, text: str) -> None:
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:  # a terminal that does not speak UTF-8
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:  # the reader (head, less) went away: results still go where else they should
        _discard(stream)
    except (OSError, ValueError) as problem:
        _discard(stream)
        if stream is not sys.stderr:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise InputError(f"cannot write to standard output: {reason}; give a file with --out") from None


def _discard(stream: TextIO) -> None:
    """Send what is still written to a stream nowhere, so that nothing fails at the end of the process."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
