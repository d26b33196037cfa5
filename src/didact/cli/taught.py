"""Simulations in the terminal: carried out, shown and reported; for the commands that do so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from didact.experiments.simulability.findings import Findings
    from didact.experiments.simulability.recipe import Recipe
    from didact.simulation.simulability import Setting


def carry_out(recipe: Recipe, out: Path | None, store: Path | None, device: str | None, command: str) -> None:
    """Run a recipe, write its report, show the summary and print the page's path last."""
    from rich.console import Console

    from didact.experiments.simulability.prepare import prepare
    from didact.experiments.simulability.runner import RunOptions
    from didact.experiments.simulability.runner import run as simulate
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    folder = out or Path("runs") / recipe.name
    with listening(ProgressBar()):
        simulate(prepare(recipe), RunOptions(folder, store, device, command=command))
    report(folder, None, Console())


def report(folder: Path, formats: Sequence[str] | None, console: Console) -> None:
    """Show a finished run and write its report."""
    from didact.experiments.simulability.findings import find
    from didact.experiments.simulability.report import write

    findings = find(folder)
    show(findings, console)
    for path in write(findings) if formats is None else write(findings, formats):
        print(path)


def show(findings: Findings, console: Console) -> None:
    """The sentences and a table per setting in the terminal."""
    from rich.text import Text

    from didact.experiments.simulability.findings import told

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


def _table(findings: Findings, setting: Setting) -> Table:
    from rich.table import Table
    from rich.text import Text

    from didact.experiments.report.formatting import p_value

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("method", overflow="fold")
    for head in (findings.verdict.metric, "gain", "95 % interval", "p"):
        table.add_column(head, justify="right", no_wrap=True)
    rows = findings.verdict.of(setting)
    for one in (*rows[:1], *sorted(rows[1:], key=lambda row: (row.control, -row.gain))):
        plain = one.method == rows[0].method
        gain = Text("" if plain else findings.number(one.gain, sign=True) + (" *" if one.helps else "  "))
        interval = "" if plain else f"[{findings.number(one.low, sign=True)}, {findings.number(one.high, sign=True)}]"
        cells = (findings.number(one.score), gain, Text(interval), "" if plain else p_value(one.adjusted))
        table.add_row(Text(one.method), *cells, style="dim" if one.control else "")
    return table
