"""What is printed in a terminal: brackets are no markup, escapes do not act, pictures stay XML."""

import io
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Console
from rich.table import Table

from didact.render.console import safe_console
from didact.render.progress import ProgressBar
from didact.render.terminal import terminal, terminal_svg, terminal_text
from didact.types import Prediction, Target
from tests.render.conftest import Make

HOSTILE = "[/] [link=https://example.org]x[/link] :smile: \x1b]0;title\x07\x9b31m\u202eabc\ufffe"


def test_markup_and_escapes_in_every_name_are_shown_as_they_are(make: Make) -> None:
    prediction = Prediction((HOSTILE, "other"), (2.0, 1.0), (0.7, 0.3))
    given = make(
        method=HOSTILE,
        label=HOSTILE,
        prediction=prediction,
        target=Target(0, HOSTILE),
        parameters={HOSTILE: HOSTILE},
        details={HOSTILE: 1.0},
        model={"name": HOSTILE, HOSTILE: HOSTILE},
        warnings=(HOSTILE,),
    )
    for explanations in ([given], [given, make(prediction=prediction, target=Target(1, "other"))]):
        for colour in (True, False):
            shown = terminal_text(explanations, width=200, colour=colour)
            assert "[/] [link=https://example.org]x[/link] :smile:" in shown.replace("\n", " ")
            for acting in ("\x1b]", "\x07", "\x9b", "\u202e", "\ufffe"):
                assert acting not in shown
        plain = Console(file=io.StringIO(), width=200)
        plain.print(terminal(explanations))
        ElementTree.fromstring(terminal_svg(explanations, title=HOSTILE))


def test_the_console_draws_what_would_act() -> None:
    written = io.StringIO()
    console = safe_console(written)
    table = Table("a [b]head[/b]")
    table.add_row(HOSTILE)
    console.print(HOSTILE, table)
    shown = written.getvalue()
    assert "[/] [link=https://example.org]x[/link] :smile:" in shown.replace("\n", "")
    assert "[b]head[/b]" in shown
    assert not set("\x1b\x07\x9b\u202e\ufffe") & set(shown)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_shows_names_as_they_are(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    written = io.StringIO()
    written.isatty = lambda: is_terminal  # type: ignore[method-assign]
    now = iter(range(0, 10_000, 100))
    bar = ProgressBar(written, lambda: float(next(now)))
    bar.start(f"{HOSTILE}\nnext", 10)
    bar.advance(1)
    bar.advance(1)
    bar.stop()
    shown = written.getvalue()
    assert "[/] [link=https://example.org]x[/link] :smile:" in shown
    assert "\x1b]" not in shown
    assert "\u202e" not in shown


def test_a_stream_that_nobody_reads_stops_no_work() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    now = iter(range(0, 10_000, 100))
    bar = ProgressBar(Closed(), lambda: float(next(now)))
    bar.start("work", 2)
    bar.advance(1)
    bar.advance(1)
    bar.stop()
