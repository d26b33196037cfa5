"""A simulation in the terminal: sentences, and a table per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.experiments.report.formatting import p_value
from didact.experiments.report.table import ReportTable, TableCell, TableRow, as_terminal
from didact.experiments.report.terminal import print_lines, print_sentences
from didact.experiments.simulability.findings import SimulabilityFindings, setting_label
from didact.simulation.gains import Gain
from didact.simulation.simulability import NONE, Setting

if TYPE_CHECKING:
    from rich.console import Console


def show(findings: SimulabilityFindings, console: Console) -> None:
    """Print the sentences and a table per setting."""
    print_sentences(findings.sentences, console)
    for setting in findings.verdict.settings:
        print_lines([setting_label(setting)], console, "bold", before=True)
        console.print(as_terminal(_table(findings, setting)))
    print_lines(["*: significant gain (Holm)   dim: controls"], console, "dim", before=True)
    console.print()


def _table(findings: SimulabilityFindings, setting: Setting) -> ReportTable:
    rows = findings.verdict.of(setting)
    order = (*rows[:1], *sorted(rows[1:], key=lambda row: (row.control, -row.gain)))
    heads = ReportTable.of(("method", findings.verdict.metric, "gain", "95 % interval", "p"), (), "lr")
    return ReportTable(
        heads.columns, [TableRow(_cells(findings, row), "control" if row.control else "body") for row in order]
    )


def _cells(findings: SimulabilityFindings, row: Gain) -> list[TableCell | str | None]:
    score = findings.number(row.score)
    if row.method == NONE:
        return [row.method, score, "", "", ""]
    gain = TableCell(findings.number(row.gain, sign=True), mark="*" if row.helps else "")
    interval = f"[{findings.number(row.low, sign=True)}, {findings.number(row.high, sign=True)}]"
    return [row.method, score, gain, interval, p_value(row.adjusted)]
