"""The tables of a grading report, which Markdown, LaTeX, the page and the terminal write each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from didact.experiments.grading.report.anti_gaming import MetricVerdict
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.summary import NULLS, Check, Column
from didact.experiments.report.formatting import interval, number, p_value, settings
from didact.experiments.report.table import ReportTable, TableCell, TableColumn, TableRow
from didact.render import facts

TIED = "≈"
MARKS = {TIED: "not significantly different from the best"}


def summary_table(findings: GradingFindings, columns: Sequence[Column], *, counts: bool = False) -> ReportTable:
    """Explainers by metrics: means with intervals, the best and those tied with it marked, controls below.

    Args:
        findings: of the run.
        columns: the metrics.
        counts: whether the last row has the number of texts.
    """
    rows = [
        TableRow(
            [
                TableCell(info.label, title=f"{info.summary} {settings(info.parameters)}".strip()),
                *(_mean(findings, column, info.label) for column in columns),
            ],
            "control" if info.control else "body",
        )
        for info in findings.run.measured.explainers
        if any(info.label in column.cells for column in columns)
    ]
    if counts:
        rows.append(TableRow(["n", *map(_counts, columns)], "foot"))
    return ReportTable([TableColumn("explainer", align="l"), *map(_head, columns)], rows, marks=MARKS)


def difference_table(column: Column, *, means: bool = False) -> ReportTable:
    """Which explainers each one is significantly better than; from the best mean to the worst where means are shown."""
    labels = list(column.cells)
    if not means:
        rows = [[label, better_than(column, label)] for label in labels]
        return ReportTable.of(("explainer", "better than"), rows)
    labels.sort(key=lambda label: -column.metric.sign * column.cells[label].mean)
    rows = [[label, number(column.cells[label].mean, column.largest), better_than(column, label)] for label in labels]
    return ReportTable.of(("explainer", "mean", "better than"), rows, "lrl")


def cost_table(findings: GradingFindings) -> ReportTable | None:
    """Forward and backward passes and time per text; None where nothing was measured."""
    rows = [
        [
            label,
            *(None if value is None else number(value) for value in (spent.forwards, spent.backwards)),
            None if spent.seconds is None else facts.duration(spent.seconds),
        ]
        for label, spent in findings.run.costs.items()
    ]
    return ReportTable.of(("explainer", "forwards", "backwards", "time"), rows, "lr") if rows else None


def null_table(findings: GradingFindings, verdict: MetricVerdict, *, split: bool = False) -> ReportTable:
    """Values beside those of the broken copies; ``split`` gives p-values columns of their own."""
    nulls = [null for null in NULLS if any(null in checks for checks in verdict.checks.values())]
    column = findings.column(verdict)
    rows = []
    for info in findings.run.measured.explainers:
        if info.label in column.cells:
            checks = verdict.checks.get(info.label, {})
            cells: list[str | None] = [info.label, number(column.cells[info.label].mean, column.largest)]
            for null in nulls:
                cells += _check(checks.get(null), column, split)
            rows.append(TableRow(cells, "control" if info.control and not split else "body"))
    heads = [head for null in nulls for head in (_SPLIT_HEADS[null] if split else (null,))]
    return ReportTable.of(("explainer", "value", *heads), rows, "lr")


_SPLIT_HEADS = {"shuffle": ("shuffled", "p")}


def better_than(column: Column, label: str) -> str:
    """Which others an explainer beats, in the shorter of two forms."""
    others = [other for other in column.cells if other != label]
    return beaten(column.beats(label), others)


def beaten(better_than: Sequence[str], all_others: Sequence[str]) -> str:
    """Names of those that are beaten, or "all but" the others where these are fewer."""
    rest = [label for label in all_others if label not in better_than]
    if not better_than:
        return "none"
    if not rest:
        return "all others"
    if len(rest) < len(better_than) / 2:
        return f"all but {', '.join(rest)}"
    return ", ".join(better_than)


def _head(column: Column) -> TableColumn:
    metric = column.metric
    title = f"{metric.summary} {settings(metric.parameters)}".strip()
    return TableColumn(metric.label, metric.arrow, group=metric.family, title=title)


def _mean(findings: GradingFindings, column: Column, label: str) -> TableCell | None:
    cell = column.cells.get(label)
    if cell is None:
        return None
    title = f"{label}, {column.metric.label}: n = {cell.n}"
    if column.tests is not None:
        title += f"; better than: {better_than(column, label)}"
    return TableCell(
        number(cell.mean, column.largest),
        interval(cell.low, cell.high, column.largest) if isfinite(cell.low) else "",
        mark=TIED if label in column.tied else "",
        best=label == column.best and column.leads,
        title=title,
        value=cell.mean,
        markup=_bar(findings, column, label),
    )


def _bar(findings: GradingFindings, column: Column, label: str) -> str:
    """The interval among the intervals of its column, with a line at the value of random."""
    cell = column.cells[label]
    ends = [
        end for each in column.cells.values() for end in (each.low, each.high, each.mean) if abs(end) < float("inf")
    ]
    if not ends or max(ends) == min(ends) or not all(abs(v) < float("inf") for v in (cell.mean, cell.low, cell.high)):
        return ""
    low, wide = min(ends), max(ends) - min(ends)
    places = {"a": cell.low, "b": cell.high, "m": cell.mean}
    random = column.cells.get(findings.random or "")
    if random is not None and abs(random.mean) < float("inf"):
        places["r"] = random.mean
    return (
        f'<i class="iv" style="{";".join(f"--{key}:{100 * (at - low) / wide:.1f}" for key, at in places.items())}"></i>'
    )


def _counts(column: Column) -> TableCell:
    counts = sorted({cell.n for cell in column.cells.values()})
    undefined = max(cell.missing for cell in column.cells.values())
    shown = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"
    return TableCell(shown, f"(up to {undefined:,} undefined)" if undefined else "")


def _check(check: Check | None, column: Column, split: bool) -> list[str | None]:
    if check is None:
        return [None, None] if split else [None]
    null, p = number(check.null, column.largest), p_value(check.p)
    mark = "" if check.beats else " ✗"
    return [null, p + mark] if split else [f"{null} (p {p}){mark}"]
