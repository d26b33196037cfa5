"""An evaluation in the terminal: plain sentences, and a table per family of metrics."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from didact.experiments.report.findings import Findings
from didact.experiments.report.formatting import interval, number
from didact.experiments.report.markdown import families
from didact.experiments.report.sentences import caveats, headlines
from didact.experiments.tables import Column

WIDTH = 26
"""Characters that a metric takes in the terminal: a mean, a mark and an interval."""


def show(findings: Findings, console: Console) -> None:
    """The sentences and the summary table in the terminal, one table per family of metrics."""
    console.print()
    for line in headlines(findings):
        console.print(Text(line, style="bold yellow" if line.startswith("Warning: ") else ""))
    names = max(len(subject.label) for subject in findings.run.measured.subjects)
    side_by_side = max(1, (console.width - names - 2) // WIDTH)
    for family, columns in families(findings).items():
        for start in range(0, len(columns), side_by_side):
            console.print()
            console.print(Text(family, style="bold"))
            console.print(_table(findings, columns[start : start + side_by_side]))
    console.print()
    console.print(Text("*: best mean   ≈: not distinguishable from it   below and dim: controls", style="dim"))
    for line in caveats(findings):
        console.print(Text(line, style="dim"))
    console.print()


def _table(findings: Findings, columns: Sequence[Column]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("explainer", overflow="fold")
    for column in columns:
        table.add_column(Text(f"{column.yardstick.label}{column.yardstick.arrow}"), justify="right", no_wrap=True)
    for subject in sorted(findings.run.measured.subjects, key=lambda subject: subject.control):
        cells = []
        for column in columns:
            cell = column.cells.get(subject.label)
            text = Text(
                "–" if cell is None else number(cell.mean, column.largest),
                style="bold" if subject.label == column.best else "",
            )
            if cell is not None:
                text.append(" *" if subject.label == column.best else " ≈" if subject.label in column.tied else "  ")
                text.append(f" {interval(cell, column.largest)}", style="dim not bold")
            cells.append(text)
        table.add_row(Text(subject.label), *cells, style="dim" if subject.control else "")
    return table
