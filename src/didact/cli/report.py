"""``didact report``: what a run found, as tables, charts and plain sentences."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from didact.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from didact.experiments.report.findings import Findings
    from didact.experiments.tables import Column

NAME = "report"
HELP = "Report on a finished run: which explanations to trust."
EXAMPLES = """examples:
  didact report runs/sst2
  didact report runs/sst2 --format html,csv --examples 6
  didact report runs/movies --metric rationale_auc
  didact report runs/simulation
"""
WIDTH = 26
"""Characters that a metric takes in the terminal: a mean, a mark and an interval."""
FORMATS = ("md", "tex", "csv", "json", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a finished run")
    parser.add_argument(
        "--format", metavar="A,B,...", default=",".join(FORMATS), help=f"default: all of {','.join(FORMATS)}"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="metric of the quality-against-cost chart (default: comprehensiveness)"
    )
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="texts shown side by side (default: 3)")


def run(options: argparse.Namespace) -> None:
    """Write the report into the folder, print its table, and the page's path last."""
    formats = [form.strip() for form in options.format.split(",") if form.strip()]
    for form in formats:
        if form not in FORMATS:
            raise ParameterError(f"--format takes {', '.join(FORMATS)}, got {form!r}")
    if options.examples < 0:
        raise ParameterError(f"--examples must be at least 0, got {options.examples}")
    from rich.console import Console

    if _is_simulation(options.folder):
        from didact.cli import taught

        taught.report(options.folder, formats if options.format != ",".join(FORMATS) else None, Console())
        return
    from didact.experiments.report import find_in, write

    findings = find_in(options.folder, metric=options.metric, examples=options.examples)
    written = write(findings, formats)
    show(findings, Console())
    for path in written:
        print(path)


def _is_simulation(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "manifest.json").read_text(encoding="utf-8")).get("kind") == "simulability")
    except (OSError, ValueError):
        return False


def show(findings: Findings, console: Console) -> None:
    """The sentences and the summary table in the terminal, one table per family of metrics."""
    from rich.text import Text

    from didact.experiments.report.markdown import families
    from didact.experiments.report.sentences import caveats, headlines

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
    from rich.table import Table
    from rich.text import Text

    from didact.experiments.report.formatting import interval, number

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
