"""Explanations for a terminal, in colour where there is colour and with bars and numbers everywhere."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from didact.render import answers, facts
from didact.render.colour import DARK, FAINT, LIGHT, Palette, channels, strengths, tint
from didact.render.console import safe_console
from didact.render.mosaic import Mosaic
from didact.render.pieces import Piece, name, pieces, printable, ranked
from didact.types import Explanation

LISTED = 8
"""How many units the list under a single explanation shows."""

LISTED_IN_ROW = 5
"""How many units are named under each row of a comparison."""

NARROW = 90
"""Columns below which a comparison shows settings below the text instead of beside it."""

_WEAKEST = 0.2
_HALF_BAR = 14
_INDENT = 2


def terminal(explanations: Sequence[Explanation]) -> RenderableType:
    """Something ``rich.console.Console().print`` can show: one block per example, one row per method.

    Raises:
        InputError: there is no explanation.
    """
    return _blocks(explanations, _palette())


def show_in_terminal(explanations: Sequence[Explanation]) -> None:
    """Print to standard output: in colour on a terminal, as plain text into a pipe or a file."""
    console = safe_console()
    if console.is_terminal:
        console.print(terminal(explanations))
    else:
        sys.stdout.write(terminal_text(explanations, colour=False))


def terminal_text(explanations: Sequence[Explanation], *, width: int = 100, colour: bool = True) -> str:
    """The same as a string, with ANSI colours or as plain text."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        force_jupyter=False,
        color_system="truecolor" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(_blocks(explanations, _palette()))
    shown = capture.get()
    return shown if colour else re.sub(" +$", "", shown, flags=re.MULTILINE)


def terminal_svg(explanations: Sequence[Explanation], *, title: str = "didact", width: int = 100) -> str:
    """A picture of the terminal as SVG, for documents; it refers to nothing outside itself."""
    console = Console(
        file=io.StringIO(), width=width, record=True, force_terminal=True, force_jupyter=False, color_system="truecolor"
    )
    console.print(_blocks(explanations, DARK))
    content = [title, str(width), *(explanation.to_json() for explanation in explanations)]
    digest = hashlib.sha256("\n".join(content).encode("utf-8", "replace")).hexdigest()
    svg = console.export_svg(title=printable(title), unique_id=f"didact-{digest[:12]}", theme=_theme(DARK))
    svg = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", svg)
    return svg.replace("Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas")


def _theme(palette: Palette) -> TerminalTheme:
    ansi = [SVG_EXPORT_THEME.ansi_colors[index] for index in range(16)]
    return TerminalTheme(channels(palette.page), channels(palette.text), ansi[:8], ansi[8:])  # type: ignore[arg-type]


def _palette() -> Palette:
    """Light where COLORFGBG, which some terminals set, names a light background; dark otherwise."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in ("7", "15") else DARK


def _blocks(explanations: Sequence[Explanation], palette: Palette) -> RenderableType:
    groups = facts.grouped(explanations)
    blocks: list[RenderableType] = []
    for number, group in enumerate(groups, start=1):
        if len(groups) > 1:
            blocks.append(Rule(Text(f"{number} of {len(groups)}", "dim"), align="left", style="dim"))
        blocks.append(_single(group, palette) if len(group.explanations) == 1 else _comparison(group, palette))
    return Group(*blocks)


def _single(group: facts.Group, palette: Palette) -> RenderableType:
    """The answer first: prediction, text and strongest words; how they were made comes below."""
    explanation = group.first
    body = Group(_source(explanation, palette), Text(), _bars(explanation, palette), Text(), _legend(group, palette))
    below = _facts()
    below.add_row("target", _plain(facts.target(explanation)))
    below.add_row("method", _method(explanation))
    if facts.details(explanation):
        below.add_row("details", _plain("  ".join(facts.details(explanation))))
    below.add_row("cost", facts.cost(explanation))
    _model(below, group)
    return _spaced(_prediction(group), *_warnings(facts.warnings(explanation)), Text(), body, Text(), below)


def _comparison(group: facts.Group, palette: Palette) -> RenderableType:
    below = _facts()
    if group.target is not None:
        below.add_row("target", _plain(facts.target(group.first)))
    _model(below, group)
    parts = (Text(), _Rows(group, palette), _legend(group, palette), Text(), below)
    return _spaced(_prediction(group), *_warnings(group.warnings), *parts)


@dataclass(frozen=True)
class _Rows:
    """One row per method: settings beside the text, or below it where the terminal is narrow."""

    group: facts.Group
    palette: Palette

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        beside = Table.grid(padding=(0, 3, 0, 0), expand=True)
        beside.add_column(ratio=2)
        beside.add_column(ratio=5)
        for explanation in self.group.explanations:
            name, settings = _row_name(self.group, explanation), _row_settings(explanation)
            body = _row_body(self.group, explanation, self.palette)
            if options.max_width < NARROW:
                yield Group(*name, body, *settings, Text())
            else:
                beside.add_row(Group(*name, *settings, Text()), body)
        if beside.row_count:
            yield beside


def _row_name(group: facts.Group, explanation: Explanation) -> list[Text]:
    lines = [Text(printable(explanation.method), "bold", overflow="fold")]
    return [*lines, Text(printable(facts.target(explanation)))] if group.target is None else lines


def _row_settings(explanation: Explanation) -> list[Text]:
    lists = (facts.settings(explanation), [facts.cost(explanation)], facts.details(explanation))
    return [Text(printable("  ".join(fact)), "dim", overflow="fold") for fact in lists if fact]


def _row_body(group: facts.Group, explanation: Explanation, palette: Palette) -> RenderableType:
    listed = Text()
    for unit, number in facts.strongest(explanation, LISTED_IN_ROW):
        listed.append(f"{number} ", "bold").append(f"{unit}   ")
    return Group(_source(explanation, palette), *_warnings(group.own_warnings(explanation)), Text(), listed, Text())


def _plain(text: str) -> Text:
    """A text from outside: brackets in it are no markup, and control characters are drawn."""
    return Text(printable(text))


def _facts() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _prediction(group: facts.Group) -> Table:
    head = _facts()
    line = Text(printable(answers.predicted(group.first)), "bold").append(
        f"  {facts.certainty(group.first)}", "not bold"
    )
    head.add_row("prediction", line)
    others = facts.other_classes(group.first.prediction)
    if others:
        head.add_row("others", _plain(others))
    if group.example.label is not None:
        head.add_row("gold label", _plain(answers.gold(group.example)))
    return head


def _model(below: Table, group: facts.Group) -> None:
    if group.first.model:
        below.add_row("model", _plain("  ".join(facts.origin(group.first))))


def _method(explanation: Explanation) -> Text:
    line = Text(printable(explanation.method), "bold")
    for setting in facts.settings(explanation):
        line.append("  ").append(printable(setting), "not bold")
    return line


def _warnings(lines: Sequence[str]) -> list[RenderableType]:
    return [Text(printable(f"warning: {line}"), "bold yellow") for line in lines]


def _source(explanation: Explanation, palette: Palette) -> RenderableType:
    """The fields one below the other, coloured; texts under their names where there are several fields."""
    fields = explanation.example.fields
    parts: list[RenderableType] = []
    for number, field in enumerate(fields):
        if not isinstance(field, str):
            parts.append(Mosaic(explanation, number))
            continue
        text = Text(overflow="fold")
        if len(fields) > 1:
            text.append(f"{facts.field_name(explanation, number)}  ", "dim")
        parts.append(_coloured(text, explanation, number, palette))
    return Group(*parts)


def _coloured(shown: Text, explanation: Explanation, field: int, palette: Palette) -> Text:
    """One text, appended with its colours."""
    parts = pieces(explanation, field)
    # Rich drops a carriage return; before a line break it is not missed, alone it gets its picture.
    written = re.sub("\r(?!\n)", "␍", printable("".join(piece.text for piece in parts)))
    place = 0
    for piece in parts:
        after = place + len(piece.text)
        shown.append(written[place:after], _style(piece, explanation.signed, palette))
        place = after
    return shown


def _style(piece: Piece, signed: bool, palette: Palette) -> Style:
    if piece.cut:
        return Style(dim=True)
    if abs(piece.strength) < FAINT:
        return Style(bold=True) if piece.marked else Style.null()
    # The terminal's own background is unknown: start from a visible hue, not from the palette's page.
    visible = math.copysign(_WEAKEST + (1 - _WEAKEST) * abs(piece.strength), piece.strength)
    colours = tint(visible, signed=signed, palette=palette)
    against = signed and piece.strength < 0
    return Style(color=colours.foreground, bgcolor=colours.background, underline=against, bold=piece.marked or None)


def _bars(explanation: Explanation, palette: Palette) -> RenderableType:
    """The strongest units as a list that needs no colour: name, number, bar to the left or right of zero."""
    power, written, texts = strengths(explanation), facts.estimates(explanation), explanation.units.texts
    listed = ranked(explanation)[:LISTED]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    two_sided = any(power[unit] < 0 for unit in listed)
    for unit in listed:
        table.add_row(Text(name(texts[unit])), written[unit], _bar(power[unit], explanation.signed, two_sided, palette))
    left_over = len(texts) - len(listed)
    if left_over:
        table.add_row(Text(f"and {left_over} more", "dim"))
    return table


def _bar(strength: float, signed: bool, two_sided: bool, palette: Palette) -> Text:
    halves = round(2 * _HALF_BAR * abs(strength))
    full, half = divmod(halves, 2)
    strongest = palette.unsigned if not signed else palette.positive if strength > 0 else palette.negative
    if strength < 0:
        return Text(("▐" * half + "█" * full).rjust(_HALF_BAR), strongest).append("│", "dim")
    left = " " * _HALF_BAR if two_sided else ""
    return Text(left).append("│", "dim").append("█" * full + "▌" * half, strongest)


def _legend(group: facts.Group, palette: Palette) -> Text:
    legend = Text()
    for signed, words in facts.meanings(group):
        for strength, meaning in zip((1.0, -1.0), words, strict=False):
            mark = Piece("", strength=strength)
            legend.append(f" {'-' if strength < 0 else '+' if signed else '#'} ", _style(mark, signed, palette))
            legend.append(f" {printable(meaning)}   ", "dim")
    return legend.append(f"\n{facts.scaling(group)}", "dim")


def _spaced(*parts: RenderableType) -> RenderableType:
    return Padding(Group(*parts), (1, _INDENT, 1, _INDENT))
