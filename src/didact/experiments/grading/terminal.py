"""A grading run in the terminal: sentences, and a table per family of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.sentences import caveats, headlines
from didact.experiments.grading.report.tables import summary_table
from didact.experiments.report.table import as_terminal
from didact.experiments.report.terminal import print_lines, print_sentences

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 26
"""Characters that a metric takes: a mean, a mark and an interval."""


def show(findings: GradingFindings, console: Console) -> None:
    """Print the sentences and the summary, as many metrics side by side as fit."""
    print_sentences(headlines(findings), console)
    names = max(len(info.label) for info in findings.run.measured.explainers)
    side_by_side = max(1, (console.width - names - 2) // WIDTH)
    for family, columns in findings.families.items():
        for start in range(0, len(columns), side_by_side):
            print_lines([family], console, "bold", before=True)
            console.print(as_terminal(summary_table(findings, columns[start : start + side_by_side])))
    legend = "*: best mean   ≈: not distinguishable from it   below and dim: controls"
    print_lines([legend, *caveats(findings)], console, "dim", before=True)
    console.print()
