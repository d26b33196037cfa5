import io

import pytest

from didact.progress import advance, listening, working
from didact.render.progress import ProgressBar


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_short_work_shows_nothing(clock: Clock) -> None:
    stream = Stream(terminal=True)
    with listening(ProgressBar(stream, clock)), working("explaining", 10):
        clock.now += 1.9
        advance(10)
    assert stream.getvalue() == ""


def test_long_work_shows_a_bar_and_takes_it_away(clock: Clock) -> None:
    stream = Stream(terminal=True)
    with listening(ProgressBar(stream, clock)), working("explaining", 100):
        clock.now += 5
        advance(50)
        clock.now += 1
        advance(10)
        shown = stream.getvalue()
    for part in ("explaining", "50%", "10/s, 5.0 s left"):
        assert part in shown
    end = stream.getvalue()[len(shown) :]
    assert "\x1b[?25h" in end, "the cursor is back"
    assert end.rindex("\x1b[2K") > end.rfind("explaining"), "its line is erased"


def test_nested_work_adds_a_line_and_ends_with_the_outermost(clock: Clock) -> None:
    stream = Stream(terminal=True)
    bar = ProgressBar(stream, clock)
    with listening(bar), working("outer", 2):
        clock.now += 3
        with working("inner", 4):
            advance(1)
            assert "inner" in stream.getvalue()
        advance(1)
        with working("second", 4):
            advance(4)
        assert bar._shown is not None
        assert bar._shown.tasks[0].completed == 1
    assert bar._shown is None


def test_the_bar_goes_when_the_work_fails(clock: Clock) -> None:
    bar = ProgressBar(Stream(terminal=True), clock)

    def fail() -> None:
        with listening(bar), working("outer", 2), working("inner", 2):
            clock.now += 3
            advance(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert bar._shown is None


def test_stray_calls_are_forgiven(clock: Clock) -> None:
    bar = ProgressBar(Stream(terminal=True), clock)
    bar.stop()
    bar.advance(1)


@pytest.mark.parametrize("dumb", [True, False])
def test_without_a_terminal_one_line_every_half_minute(
    clock: Clock, dumb: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dumb:
        monkeypatch.setenv("TERM", "dumb")
    stream = Stream(terminal=dumb)
    with listening(ProgressBar(stream, clock)), working("explaining", 1000):
        for _ in range(70):
            clock.now += 1
            advance(5)
    assert stream.getvalue().splitlines() == [
        "explaining: 15% (150 of 1,000), 5.0/s, 2 min 50 s left",
        "explaining: 30% (300 of 1,000), 5.0/s, 2 min 20 s left",
    ]


def test_a_forced_colour_makes_no_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = Stream(terminal=False)
    with listening(ProgressBar(stream, clock)), working("explaining", 10):
        clock.now += 5
        advance(1)
    assert stream.getvalue() == ""


def test_work_of_unknown_size(clock: Clock) -> None:
    for terminal in (True, False):
        with listening(ProgressBar(Stream(terminal), clock)), working("reading", 0):
            clock.now += 40
            advance(1)
