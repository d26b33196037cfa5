import re

import pytest
from rich.console import Console

from didact.render.colour import DARK, LIGHT
from didact.render.terminal import LISTED, show_in_terminal, terminal, terminal_svg, terminal_text
from didact.types import Span
from tests.render.conftest import NASTY, Make
from tests.render.contrast import contrast

SEQUENCE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("kind", ["script", "latex", "emoji", "cjk", "combining", "rtl"])
def test_text_is_reproduced(make: Make, kind: str, colour: bool) -> None:
    shown = SEQUENCE.sub("", terminal_text([make(NASTY[kind])], width=200, colour=colour))
    assert NASTY[kind] in shown


def test_lines_and_tabs_are_kept(make: Make) -> None:
    shown = terminal_text([make("first\n\n\tsecond  part\r\nthird\rfourth")], colour=False)
    assert re.search(r"\n  first\n\n +second  part\n  third␍fourth\n", shown)


def test_source_wraps_without_losing_a_character(make: Make) -> None:
    text = "unbreakable" * 30
    shown = terminal_text([make(text, spans=[Span(0, 50)], scores=[1.0])], width=40, colour=False)
    assert text in re.sub(r"\s", "", shown)
    assert max(map(len, shown.splitlines())) <= 40


def test_plain_text_has_no_sequences(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in terminal_text([make(NASTY["control"])], colour=False)


def test_forced_colour_ignores_no_color(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in terminal_text([make()], colour=True)


def test_signs_show_without_colour(make: Make) -> None:
    shown = terminal_text([make("good bad", scores=[0.5, -0.25])], colour=False)
    assert re.search(r"good +\+0\.500 +│█+\n", shown)
    assert re.search(r"bad +-0\.250 +█+│\n", shown)
    assert "+  supports positive" in shown
    assert "-  opposes positive" in shown


def test_bars_are_in_proportion(make: Make) -> None:
    shown = terminal_text([make("all half", scores=[0.5, 0.25])], colour=False)
    whole, half = (len(bar) for bar in re.findall("█+", shown))
    assert whole == 2 * half


def test_comparison_names_the_strongest(make: Make) -> None:
    shown = terminal_text([make("good bad", scores=[0.5, -0.25]), make("good bad", method="lime")], colour=False)
    assert "+0.500 good   -0.250 bad" in shown


def test_long_lists_are_shortened(make: Make) -> None:
    assert f"and {20 - LISTED} more" in terminal_text([make("word " * 20)], colour=False)


@pytest.mark.parametrize(
    ("background", "palette"), [("15;0", DARK), ("0;15", LIGHT), ("", DARK), ("0;default;7", LIGHT)]
)
def test_colours_follow_the_terminal(make: Make, monkeypatch, background: str, palette: object) -> None:
    monkeypatch.setenv("COLORFGBG", background)
    shown = terminal_text([make("good bad so", scores=[0.5, -0.5, 0.1])])
    strongest = ";".join(str(int(palette.positive[at : at + 2], 16)) for at in (1, 3, 5))
    assert f"48;2;{strongest}m" in shown


def test_every_colour_is_readable(make: Make) -> None:
    shown = terminal_text([make("word " * 40), make("word " * 40, signed=False, scores=range(1, 41))])
    pairs = set(re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m", shown))
    assert len(pairs) > 20
    for channels in pairs:
        codes = [f"{int(channel):02x}" for channel in channels]
        assert contrast("#" + "".join(codes[:3]), "#" + "".join(codes[3:])) >= 4.5


def test_no_colour_where_there_is_no_terminal(make: Make, capsys: pytest.CaptureFixture) -> None:
    show_in_terminal([make()])
    printed = capsys.readouterr().out
    assert "98.7 %" in printed
    assert "\x1b" not in printed


def test_no_color_keeps_the_underline(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(force_terminal=True, width=100)
    with console.capture() as capture:
        console.print(terminal([make("good bad", scores=[0.5, -0.5])]))
    assert "\x1b[4mbad" in capture.get()
    assert "48;2" not in capture.get()


def test_the_cut_part_is_dimmed(make: Make) -> None:
    assert "\x1b[2m unseen" in terminal_text([make("seen unseen", spans=[Span(0, 4)], truncated=0.6)])


def test_svg_is_self_contained_and_stable(make: Make) -> None:
    shown = terminal_svg([make(NASTY["script"])], title="a <b>", width=90)
    assert shown == terminal_svg([make(NASTY["script"])], title="a <b>", width=90)
    assert not re.search(r"url\((?!#)|@font-face|<script|href", shown)
    assert "a&#160;&lt;b&gt;" in shown


def test_a_narrow_terminal_shows_settings_below_the_text(make: Make) -> None:
    pair = [make("A warm film.", method="integrated_gradients"), make("A warm film.", method="lime")]
    narrow = terminal_text(pair, width=60, colour=False)
    assert narrow.index("integrated_gradients") < narrow.index("A warm film.") < narrow.index("steps=50")
    assert re.search(r"^ *integrated_gradients$", narrow, re.MULTILINE)
    wide = terminal_text(pair, width=140, colour=False)
    assert re.search(r"^ *integrated_gradients +A warm film\.", wide, re.MULTILINE)
