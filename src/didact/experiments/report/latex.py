r"""The summary as LaTeX tables that need the package booktabs and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from didact.experiments.report.findings import Findings
from didact.experiments.report.formatting import number
from didact.experiments.report.markdown import families
from didact.experiments.tables import Cell, Column
from didact.render.latex import escape

WIDE = 5
"""Metrics in one table; further ones go into the next, so that a table fits a page."""

_PREAMBLE = r"""% Made by didact. Needs \usepackage{booktabs}; \input this file where the tables should stand.
"""


def latex(findings: Findings) -> str:
    """One table per family of metrics."""
    blocks = [
        _block(findings, family, columns[start : start + WIDE])
        for family, columns in families(findings).items()
        for start in range(0, len(columns), WIDE)
    ]
    return _PREAMBLE + "\n".join(blocks)


def _block(findings: Findings, family: str, columns: Sequence[Column]) -> str:
    subjects = [s for s in findings.run.measured.subjects if any(s.label in column.cells for column in columns)]
    real = [_row(subject.label, columns) for subject in subjects if not subject.control]
    controls = [_row(subject.label, columns) for subject in subjects if subject.control]
    body = "\\midrule\n".join("".join(rows) for rows in (real, controls) if rows)
    heads = " & ".join(f"{_name(column)}" for column in columns)
    texts = len(findings.run.measured.examples)
    return (
        "\\begin{table}[htbp]\n\\centering\\footnotesize\\setlength{\\tabcolsep}{4pt}\n"
        f"\\caption{{{_caption(findings, family, texts)}}}\n"
        f"\\begin{{tabular}}{{@{{}}l{'c' * len(columns)}@{{}}}}\n\\toprule\n"
        f"explainer & {heads} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _caption(findings: Findings, family: str, texts: int) -> str:
    data = findings.run.manifest.get("data") or {}
    place = escape(str(data.get("name", findings.run.name)))
    return (
        f"{escape(family.capitalize())} on {place} ({texts} texts): mean over texts with its 95\\,\\% bootstrap "
        "interval. Bold: the best mean; $\\approx$: not distinguishable from the best (Wilcoxon, Holm, 5\\,\\%). "
        "Controls below the line."
    )


def _name(column: Column) -> str:
    arrow = {1: " $\\uparrow$", -1: " $\\downarrow$", 0: ""}[column.yardstick.sign]
    # Names break at underscores, so that narrow columns stay narrow.
    lines = escape(column.yardstick.label).replace("\\_\\allowbreak{}", "\\_\\\\ ")
    return f"\\shortstack[c]{{{lines}{arrow}}}"


def _row(label: str, columns: Sequence[Column]) -> str:
    cells = " & ".join(_cell(column.cells.get(label), column, label) for column in columns)
    return f"{escape(label)} & {cells} \\\\\n"


def _cell(cell: Cell | None, column: Column, label: str) -> str:
    if cell is None:
        return "--"
    like = column.largest
    mean = _number(cell.mean, like)
    mean = f"\\textbf{{{mean}}}" if label == column.best else mean
    mark = "$^{\\approx}$" if label in column.tied else ""
    return f"{mean}{mark} {{\\scriptsize[{_number(cell.low, like)}, {_number(cell.high, like)}]}}"


def _number(value: float, like: float) -> str:
    plain = number(value, like)
    special = {"–": "--", "∞": "$\\infty$", "−∞": "$-\\infty$"}
    return special.get(plain, plain.replace("-", "$-$"))
