r"""The summary as LaTeX tables that need the package booktabs and nothing else."""

from __future__ import annotations

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.tables import summary_table
from didact.experiments.report.table import as_latex
from didact.render.latex import escape

WIDE = 5
"""Metrics in one table; further ones go into the next, so that a table fits a page."""

_PREAMBLE = r"""% Made by didact. Needs \usepackage{booktabs}; \input this file where the tables should stand.
"""


def latex(findings: GradingFindings) -> str:
    """One table per family of metrics, or several where a family has many."""
    blocks = [
        as_latex(summary_table(findings, columns[start : start + WIDE]), _caption(findings, family))
        for family, columns in findings.families.items()
        for start in range(0, len(columns), WIDE)
    ]
    return _PREAMBLE + "\n".join(blocks)


def _caption(findings: GradingFindings, family: str) -> str:
    data = findings.run.manifest.get("data") or {}
    place = escape(str(data.get("name", findings.run.name)))
    return (
        f"{escape(family.capitalize())} on {place} ({len(findings.run.measured.examples)} texts): mean over texts "
        "with its 95\\,\\% interval. Bold: the best mean, where it is significantly better than another; $\\approx$: "
        "not significantly different from the best (studentised bootstrap, max-T over the whole report, 5\\,\\%). "
        "Controls below the line."
    )
