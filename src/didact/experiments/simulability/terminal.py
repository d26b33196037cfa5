"""A simulation in the terminal: plain sentences, and a table per setting."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from didact.experiments.report.formatting import p_value
from didact.experiments.simulability.findings import SimulabilityFindings, told
from didact.simulation.simulability import Setting


def show(findings: SimulabilityFindings, console: Console) -> None:
    """The sentences and a table per setting in the terminal."""
    console.print()
    for line in findings.sentences:
        console.print(Text(line, style="bold yellow" if line.startswith("Warning: ") else ""))
    for setting in findings.verdict.settings:
        console.print()
        console.print(Text(told(setting), style="bold"))
        console.print(_table(findings, setting))
    console.print()
    console.print(Text("*: gains beyond chance (Holm)   dim: controls", style="dim"))
    console.print()


def _table(findings: SimulabilityFindings, setting: Setting) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("method", overflow="fold")
    for head in (findings.verdict.metric, "gain", "95 % interval", "p"):
        table.add_column(head, justify="right", no_wrap=True)
    rows = findings.verdict.of(setting)
    for row in (*rows[:1], *sorted(rows[1:], key=lambda row: (row.control, -row.gain))):
        plain = row.method == rows[0].method
        gain = Text("" if plain else findings.number(row.gain, sign=True) + (" *" if row.helps else "  "))
        interval = "" if plain else f"[{findings.number(row.low, sign=True)}, {findings.number(row.high, sign=True)}]"
        cells = (findings.number(row.score), gain, Text(interval), "" if plain else p_value(row.adjusted))
        table.add_row(Text(row.method), *cells, style="dim" if row.control else "")
    return table
