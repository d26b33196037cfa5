"""A simulation in the terminal: sentences, and a table per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.experiments.report.formatting import p_value
from didact.experiments.report.table import ReportTable, TableCell, TableRow
from didact.experiments.report.terminal import print_report
from didact.experiments.simulability.findings import SimulabilityFindings, setting_label
from didact.simulation.gains import Gain
from didact.simulation.simulability import NONE, Setting

if TYPE_CHECKING:
    from rich.console import Console


def show(findings: SimulabilityFindings, console: Console) -> None:
    """Print the sentences and a table per setting."""
    tables = ((setting_label(setting), _table(findings, setting)) for setting in findings.verdict.settings)
    print_report(
        console, findings.sentences, tables, ["*: significant gain over none (Holm, all settings)   dim: controls"]
    )


def _table(findings: SimulabilityFindings, setting: Setting) -> ReportTable:
    none, *others = findings.verdict.of(setting)
    gains = [none, *sorted(others, key=lambda gain: (gain.control, -gain.gain))]
    return ReportTable.of(
        ("method", findings.verdict.metric, "gain", "95 % interval", "p"),
        [_row(findings, gain) for gain in gains],
        "lr",
    )


def _row(findings: SimulabilityFindings, row: Gain) -> TableRow:
    score = findings.number(row.score)
    if row.method == NONE:
        return TableRow([row.method, score, "", "", ""])
    gain = TableCell(findings.number(row.gain, sign=True), mark="*" if row.helps else "")
    interval = f"[{findings.number(row.low, sign=True)}, {findings.number(row.high, sign=True)}]"
    return TableRow([row.method, score, gain, interval, p_value(row.adjusted)], "control" if row.control else "body")
