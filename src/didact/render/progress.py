"""A progress bar on standard error that appears only when work takes long, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from didact.render.facts import duration
from didact.render.pieces import printable


class ProgressBar:
    """A listener for ``didact.progress.listening``.

    On a terminal a bar per nested piece of work; elsewhere (a log file, a notebook) one plain line now and then.

    Args:
        stream: where to show it; standard error unless given.
        clock: seconds that only grow.
    """

    patience: ClassVar[float] = 2.0
    """Seconds that the outermost work may last without a bar."""

    interval: ClassVar[float] = 30.0
    """Seconds between plain lines where there is no terminal."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._works: list[_Work] = []
        self._last_line = 0.0
        self._shown: Progress | None = None

    def start(self, what: str, total: int) -> None:
        """A piece of work begins, perhaps inside another."""
        now = self._clock()
        if not self._works:
            self._last_line = now
        self._works.append(_Work(" ".join(printable(what).split()), total, now, self._clock))
        if self._shown is not None:
            self._add(self._shown, self._works[-1])

    def advance(self, steps: int) -> None:
        """Some steps of the innermost work are done."""
        if not self._works:
            return
        work = self._works[-1]
        work.done += steps
        if self._shown is not None and work.task is not None:
            self._shown.update(work.task, completed=work.done)
        elif self._terminal():
            self._appear()
        else:
            self._write_line(work)

    def stop(self) -> None:
        """The innermost work ended; with the outermost the bar goes away."""
        if not self._works:
            return
        work = self._works.pop()
        if self._shown is None:
            return
        if work.task is not None:
            self._shown.remove_task(work.task)
        if not self._works:
            self._shown.stop()
            self._shown = None

    def _terminal(self) -> bool:
        return self._stream.isatty() and not Console(file=self._stream).is_dumb_terminal

    def _appear(self) -> None:
        if self._clock() - self._works[0].started < self.patience:
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), _Pace())
        console = Console(file=self._stream, force_jupyter=False)
        # Standard output may be piped into a file: nothing printed there may be led to this stream.
        self._shown = Progress(*columns, console=console, transient=True, redirect_stdout=False)
        for work in self._works:
            self._add(self._shown, work)
        self._shown.start()

    def _add(self, shown: Progress, work: _Work) -> None:
        work.task = shown.add_task(work.what, total=work.total, completed=work.done, work=work)

    def _write_line(self, work: _Work) -> None:
        now = self._clock()
        if now - self._last_line < self.interval:
            return
        self._last_line = now
        share = f"{work.done / work.total:.0%} " if work.total else ""
        named = ", ".join(each.what for each in self._works[-2:])  # such as "explaining: lime, evaluating variants"
        with contextlib.suppress(OSError, ValueError):  # nobody reads on: the work goes on without its lines
            self._stream.write(f"{named}: {share}({work.done:,} of {work.total:,}), {work.pace()}\n")
            self._stream.flush()


@dataclass
class _Work:
    """One piece of work under way."""

    what: str
    total: int
    started: float
    clock: Callable[[], float]
    done: int = 0
    task: TaskID | None = None

    def pace(self) -> str:
        """How fast it goes and how long it will take."""
        passed = self.clock() - self.started
        if self.done <= 0 or passed <= 0:
            return ""
        rate = self.done / passed
        left = max(0.0, (self.total - self.done) / rate)
        speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"
        return f"{speed}, {duration(left)} left"


class _Pace(ProgressColumn):
    """Rate and time left since the work began, also the part before the bar appeared."""

    def render(self, task: Task) -> Text:
        work: _Work = task.fields["work"]
        return Text(work.pace(), "dim")
