"""The console that everything for a terminal is printed with: what comes from outside is shown, and never acts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from didact.render.pieces import printable


def safe_console(file: IO[str] | None = None, *, like: Console | None = None) -> Console:
    """A console for texts from outside.

    Names in brackets are no markup and make no links, colons make no emoji, and control characters are drawn.

    Args:
        file: where to print; standard output unless given.
        like: a console whose width and colours it has, where the file itself has none.
    """
    console = Console(
        file=file,
        width=None if like is None else like.width,
        force_terminal=None if like is None else like.is_terminal,
        color_system="auto" if like is None else like.color_system,  # type: ignore[arg-type] # one of its names
        markup=False,
        emoji=False,
        highlight=False,
        force_jupyter=False,
    )
    console.push_render_hook(_Drawn())
    return console


class _Drawn(RenderHook):
    """Lets every renderable through with its control characters drawn."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_DrawnRenderable(each) for each in renderables]


class _DrawnRenderable:
    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _drawn(console.render(self._inner, options))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._inner)


def _drawn(segments: Iterable[Segment]) -> Iterable[Segment]:
    for segment in segments:
        yield segment if segment.control else Segment(printable(segment.text), segment.style)
