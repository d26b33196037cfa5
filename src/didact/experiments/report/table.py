"""One model of a table, written as Markdown, HTML, LaTeX, CSV or for the terminal."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from didact.render.latex import escape
from didact.render.markup import html_text, markdown_table, markdown_text, minus_signs
from didact.render.pieces import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

ABSENT = "–"
"""What stands for a missing cell; Markdown leaves it empty."""


@dataclass(frozen=True)
class TableColumn:
    """A column.

    Attributes:
        name: its head.
        arrow: direction behind the name, as in "↑".
        align: "l" for words, "r" for numbers; the first column holds the names of the rows.
        group: heading above neighbouring columns that share it.
        title: explanation that a page shows on hovering.
    """

    name: str
    arrow: str = ""
    align: Literal["l", "r"] = "r"
    group: str = ""
    title: str = ""

    @property
    def head(self) -> str:
        """Name and direction."""
        return f"{self.name} {self.arrow}" if self.arrow else self.name


@dataclass(frozen=True)
class TableCell:
    """A cell.

    Attributes:
        text: what it shows.
        note: small print behind it, in brackets: an interval, or a remark.
        mark: a sign behind the text whose meaning stands in the table's ``marks``.
        best: whether it is emphasised as the best of its column.
        badge: "good", "some" or "bad" where a page shows the text as a coloured badge.
        title: explanation that a page shows on hovering.
        value: number to sort by, which CSV writes in place of the text.
        markup: HTML that a page shows below the text.
    """

    text: str
    note: str = ""
    mark: str = ""
    best: bool = False
    badge: str = ""
    title: str = ""
    value: float | None = None
    markup: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row; controls stand below the other rows, the foot below all."""

    cells: Sequence[TableCell | str | None]
    kind: Literal["body", "control", "foot"] = "body"


@dataclass(frozen=True)
class ReportTable:
    """A table.

    Attributes:
        columns: the first one names the rows.
        rows: with a cell per column, None where there is nothing to show.
        caption: what it shows.
        marks: sign -> its meaning.
        notes: footnotes.
        sortable: whether a page lets its reader sort the rows.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    caption: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    sortable: bool = False

    @staticmethod
    def of(
        heads: Sequence[str], rows: Iterable[TableRow | Sequence[TableCell | str | None]], align: str = "l"
    ) -> ReportTable:
        """A plain table; ``align`` has "l" or "r" per column, its last letter holds for all further columns."""
        letters = align.ljust(len(heads), align[-1])
        columns = [TableColumn(head, align="r" if at == "r" else "l") for head, at in zip(heads, letters, strict=False)]
        return ReportTable(columns, [row if isinstance(row, TableRow) else TableRow(row) for row in rows])

    def kinds(self) -> list[tuple[str, list[TableRow]]]:
        """Rows by their kind: body, controls, foot; only kinds that occur."""
        kinds = [(kind, [row for row in self.rows if row.kind == kind]) for kind in ("body", "control", "foot")]
        return [(kind, rows) for kind, rows in kinds if rows]


def as_markdown(table: ReportTable, text: Callable[[str], str] = markdown_text) -> str:
    """The table in Markdown.

    Args:
        table: the table.
        text: turns plain text into Markdown; escapes all that Markdown would act on unless given.
    """

    def write(cell: TableCell, is_name: bool, kind: str) -> str:
        shown = text(cell.text)
        shown = f"**{shown}**" if cell.best else f"*{shown}*" if is_name and kind != "body" else shown
        return " ".join(part for part in (shown, text(cell.mark), text(cell.note)) if part)

    rows = [
        [write(_cell(cell, ""), not at, kind) for at, cell in enumerate(row.cells)]
        for kind, members in table.kinds()
        for row in members
    ]
    lines = markdown_table([text(column.head) for column in table.columns], rows, _letters(table))
    return "\n\n".join([lines, *(["\n".join(f"* {text(note)}" for note in table.notes)] if table.notes else [])])


def as_html(table: ReportTable) -> str:
    """The table as an element for a page of the kit."""
    bodies = []
    for kind, members in table.kinds():
        inner = "".join(f"<tr>{''.join(_html_cells(table, row))}</tr>" for row in members)
        opening, closing = _HTML_BODIES[kind]
        bodies.append(f"{opening}{inner}{closing}")
    caption = f"<caption>{html_text(table.caption)}</caption>" if table.caption else ""
    notes = "".join(f"<li>{html_text(note)}</li>" for note in table.notes)
    return (
        f'<table class="numbers {"sortable" if table.sortable else "plain"}">{caption}'
        f"<thead>{_html_groups(table)}<tr>{''.join(_html_heads(table))}</tr></thead>{''.join(bodies)}</table>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def as_latex(table: ReportTable, caption: str = "") -> str:
    r"""The table as a float that needs the package booktabs; ``caption`` is LaTeX, that of the table unless given."""
    first, *others = table.columns
    heads = " & ".join([escape(first.head), *map(_latex_head, others)])
    body = "\\midrule\n".join("".join(map(_latex_row, rows)) for _, rows in table.kinds())
    # Numbers are centred: their intervals differ in width.
    layout = "".join("l" if letter == "l" else "c" for letter in _letters(table))
    notes = "".join(f"\\par\\smallskip {escape(note)}\n" for note in table.notes)
    return (
        "\\begin{table}[htbp]\n\\centering\\footnotesize\\setlength{\\tabcolsep}{4pt}\n"
        f"\\caption{{{caption or escape(table.caption)}}}\n"
        f"\\begin{{tabular}}{{@{{}}{layout}@{{}}}}\n\\toprule\n"
        f"{heads} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n{notes}\\end{{table}}\n"
    )


def as_csv(table: ReportTable) -> str:
    """The table as CSV: values where cells have them, their texts otherwise."""
    names = [column.name for column in table.columns]
    rows = ([_cell(cell, "") for cell in row.cells] for row in table.rows)
    values = ([cell.text if cell.value is None else cell.value for cell in row] for row in rows)
    return csv_text(names, (dict(zip(names, row, strict=True)) for row in values))


def csv_text(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows of plain values as CSV; empty where there is no number, names in lists joined by spaces."""
    written = io.StringIO()
    writer = csv.DictWriter(written, names, lineterminator="\n")
    writer.writerow({name: _csv_text(name) for name in names})
    writer.writerows({name: _csv_value(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def as_terminal(table: ReportTable) -> Table:
    """The table for a rich console: no lines, controls and foot dim."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in table.columns:
        if column.align == "l":
            drawn.add_column(Text(column.head), overflow="fold")
        else:
            drawn.add_column(Text(column.head), justify="right", no_wrap=True)
    cells = [[_cell(cell) for cell in row.cells] for row in table.rows]
    marked = [any(cell.best or cell.mark for cell in column) for column in zip(*cells, strict=True)]
    for kind, rows in table.kinds():
        for row in rows:
            drawn.add_row(*map(_terminal_cell, row.cells, marked), style="" if kind == "body" else "dim")
    return drawn


_HTML_BODIES = {
    "body": ("<tbody>", "</tbody>"),
    "control": ('<tbody class="controls">', "</tbody>"),
    "foot": ("<tfoot>", "</tfoot>"),
}


def _cell(cell: TableCell | str | None, absent: str = ABSENT) -> TableCell:
    return cell if isinstance(cell, TableCell) else TableCell(absent if cell is None else cell)


def _letters(table: ReportTable) -> str:
    return "l" + "".join(column.align for column in table.columns[1:])


def _html_groups(table: ReportTable) -> str:
    groups = [(group, len(list(columns))) for group, columns in itertools.groupby(table.columns[1:], lambda c: c.group)]
    heads = (f'<th scope="colgroup" colspan="{many}">{html_text(group)}</th>' for group, many in groups)
    return f"<tr><td></td>{''.join(heads)}</tr>" if any(group for group, _ in groups) else ""


def _html_heads(table: ReportTable) -> Iterable[str]:
    for at, column in enumerate(table.columns):
        name = _breakable(column.name) + (f"&nbsp;{html_text(column.arrow)}" if column.arrow else "")
        name = f'<button type="button">{name}</button>' if table.sortable else name
        yield f'<th scope="col"{_class(at, column)}{_attribute("title", column.title)}>{name}</th>'


def _html_cells(table: ReportTable, row: TableRow) -> Iterable[str]:
    for at, (column, given) in enumerate(zip(table.columns, row.cells, strict=True)):
        cell = _cell(given)
        title = _attribute("title", cell.title)
        if not at:
            yield f'<th scope="row"{title}>{_breakable(cell.text)}</th>'
            continue
        shown = minus_signs(html_text(cell.text)) if column.align == "r" else html_text(cell.text)
        if cell.badge:
            shown = f'<span class="pill {html_text(cell.badge)}">{shown}</span>'
        shown = f'<b class="best-mark">{shown}</b>' if cell.best else shown
        if cell.mark:
            shown += f" <b{_attribute('title', table.marks.get(cell.mark, ''))}>{html_text(cell.mark)}</b>"
        if cell.note:
            shown += f'<span class="ci">{minus_signs(html_text(cell.note.strip("[]()")))}</span>'
        value = "" if cell.value is None else f' data-v="{cell.value:.6g}"'
        yield f"<td{_class(at, column)}{value}{title}>{shown}{cell.markup}</td>"


def _class(at: int, column: TableColumn) -> str:
    return ' class="words"' if at and column.align == "l" else ""


def _attribute(name: str, text: str) -> str:
    return f' {name}="{html_text(text)}"' if text else ""


def _breakable(label: str) -> str:
    """A label that may break at its underscores."""
    return html_text(label).replace("_", "_<wbr>")


def _latex_head(column: TableColumn) -> str:
    arrow = {"↑": " $\\uparrow$", "↓": " $\\downarrow$"}.get(column.arrow, "")
    # Names break at underscores, so that narrow columns stay narrow.
    lines = escape(column.name).replace("\\_\\allowbreak{}", "\\_\\\\ ")
    return f"\\shortstack[c]{{{lines}{arrow}}}"


def _latex_row(row: TableRow) -> str:
    name, *cells = (_cell(cell) for cell in row.cells)
    return " & ".join([escape(name.text), *map(_latex_cell, cells)]) + " \\\\\n"


def _latex_cell(cell: TableCell) -> str:
    shown = _latex_text(cell.text)
    shown = f"\\textbf{{{shown}}}" if cell.best else shown
    mark = {"": "", "≈": "$^{\\approx}$"}.get(cell.mark, f"$^{{{escape(cell.mark)}}}$")
    return f"{shown}{mark}" + (f" {{\\scriptsize{_latex_text(cell.note)}}}" if cell.note else "")


def _latex_text(text: str) -> str:
    written = re.sub(r"-(?=\d)", "$-$", escape(text))
    for sign, command in (("−∞", "$-\\infty$"), ("∞", "$\\infty$"), ("−", "$-$"), ("–", "--")):
        written = written.replace(sign, command)
    return written


def _csv_value(value: object) -> object:
    if isinstance(value, list | tuple):
        return _csv_text(" ".join(map(str, value)))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return _csv_text(value) if isinstance(value, str) else value


def _csv_text(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe stands before a text that begins as one does."""
    shown = printable(text).replace("\r", "␍")
    number = re.fullmatch(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", shown) is not None
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t", "\n")) and not number else shown


def _terminal_cell(given: TableCell | str | None, has_marks: bool) -> Text:
    from rich.text import Text

    if not isinstance(given, TableCell):
        return Text(ABSENT if given is None else given)
    shown = Text(given.text, style="bold" if given.best else "")
    if has_marks or given.note:
        shown.append(f" {'*' if given.best else given.mark or ' '}")
    if given.note:
        shown.append(f" {given.note}", style="dim not bold")
    return shown
