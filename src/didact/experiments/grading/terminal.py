"""A grading run in the terminal: sentences, and a table per family of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.sentences import caveats, headlines
from didact.experiments.grading.report.tables import summary_table
from didact.experiments.report.terminal import print_report

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 26
"""Characters that a metric takes: a mean, a mark and an interval."""
LEGEND = (
    "*: best mean, significantly better than another   ≈: not significantly different from it   below and dim: controls"
)


def show(findings: GradingFindings, console: Console) -> None:
    """Print the sentences and the summary, as many metrics side by side as fit."""
    names = max(len(info.label) for info in findings.run.measured.explainers)
    side_by_side = max(1, (console.width - names - 2) // WIDTH)
    tables = (
        (family, summary_table(findings, columns[start : start + side_by_side]))
        for family, columns in findings.families.items()
        for start in range(0, len(columns), side_by_side)
    )
    print_report(console, headlines(findings), tables, [LEGEND, *caveats(findings)])
