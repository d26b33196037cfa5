"""Charts of a grading report: which numbers each one shows, and its description in words."""

from __future__ import annotations

import math
import re

import numpy as np

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.summary import Column, MetricInfo, ResultArrays
from didact.experiments.report import charts
from didact.experiments.report.charts import Caption, Point, Series
from didact.experiments.report.formatting import listed, number
from didact.experiments.report.page import heading, paragraph
from didact.stats.bootstrap import intervals
from didact.types import Floats

AXES = {
    "deletion_area": ("share of the words removed, most important first (%)", "probability left"),
    "insertion_area": ("share of the words inserted, most important first (%)", "probability reached"),
}


def cost_chart(findings: GradingFindings) -> str:
    """The chosen metric against seconds, or forwards where time was not measured; empty where neither is known."""
    column, costs = findings.quality, findings.run.costs
    if column is None:
        return ""
    cells = {label: cell for label, cell in column.cells.items() if math.isfinite(cell.low + cell.high)}
    timed = all(costs[label].seconds for label in cells if label in costs)
    unit = "seconds" if timed else "forwards"
    spent = {label: float(getattr(costs[label], unit) or 0) for label in cells if label in costs}
    known = [label for label in cells if spent.get(label, 0) > 0]
    controls = {explainer.label for explainer in findings.run.measured.explainers if explainer.control}
    real = [label for label in known if label not in controls]
    if not real:
        return ""
    sign = column.metric.sign
    on_front = charts.pareto([(spent[label], cells[label].mean) for label in real], sign)
    front = {label for label, is_on in zip(real, on_front, strict=True) if is_on}
    points = [
        Point(name, spent[name], (cell := cells[name]).mean, cell.low, cell.high, name in front, name in controls)
        for name in known
    ]
    order = sorted(front, key=lambda label: spent[label])
    words = f"Pareto front of cost and mean: {listed(order)}; the table shows what differs significantly."
    caption = Caption(
        "cost-chart",
        f"{column.metric.label} against {unit} per text",
        f"{words} Whiskers are 95 % intervals.",
        f"{unit} per text (logarithmic)",
        column.metric.head,
    )
    note = paragraph(f"{words} Whiskers: 95 % intervals; hollow: controls.")
    return note + charts.scatter(points, caption, higher_is_better=sign > 0)


def erasure_charts(findings: GradingFindings) -> str:
    """Mean curves of the area metrics, best explainers first and in colour; bands are 95 % intervals."""
    drawn = []
    for number_, column in enumerate(findings.summary.columns):
        series = _series(findings.run.measured, column)
        if series:
            drawn.append(_curve_chart(column.metric, series, f"curve-{number_}"))
    if not drawn:
        return ""
    note = paragraph(
        "Means over texts with 95 % intervals. The legend goes from the best mean area to the worst, controls last; "
        "hover over a line for its numbers."
    )
    return note + "".join(drawn)


def agreement(findings: GradingFindings) -> str:
    """How far every two explainers agree, by the experiment's top-k agreement."""
    measured = findings.run.measured
    for metric in sorted(measured.metrics, key=lambda each: each.metric != "top_k_agreement"):
        if metric.family == "agreement" and metric.label in measured.parts:
            labels, values = _agreement_matrix(measured, metric)
            if len(labels) > 1:
                return _agreement_chart(metric, labels, values)
    return ""


def tau_chart(findings: GradingFindings) -> str:
    """Kendall's tau between the rankings that the metrics give."""
    labels, taus = findings.summary.tau_labels, findings.summary.taus
    if len(labels) < 2 or not np.isfinite(taus).any():
        return ""
    note = (
        "Kendall's τ between the orders in which the metrics put the explainers, controls left out: 1 is the same "
        "order, −1 the reverse. Metrics that disagree answer different questions, or one of them is fooled."
    )
    caption = Caption("tau-chart", "Kendall's τ between rankings", _extremes(list(labels), taus))
    return paragraph(note) + charts.heat(labels, taus, caption)


def _series(measured: ResultArrays, column: Column) -> list[Series]:
    metric = column.metric
    names, cube = measured.parts.get(metric.label, ((), np.zeros((0, 0, 0))))
    shares = [re.fullmatch(r"([\d.]+)\s*%", name) for name in names]
    if not metric.metric.endswith("_area") or len(names) < 3 or not all(shares):
        return []
    xs = np.array([float(share.group(1)) for share in shares if share])
    order = np.argsort(xs)
    series = []
    for row, explainer in enumerate(measured.explainers):
        curve = cube[order, row]  # (points, examples)
        if explainer.label in column.cells and not np.isnan(curve).all(axis=1).any():
            ends = intervals(curve)
            means = [end.mean for end in ends]
            low = [end.low if math.isfinite(end.low) else end.mean for end in ends]
            high = [end.high if math.isfinite(end.high) else end.mean for end in ends]
            series.append(Series(explainer.label, xs[order].tolist(), means, low, high, explainer.control))
    return sorted(series, key=lambda each: (each.control, -metric.sign * column.cells[each.name].mean))


def _curve_chart(metric: MetricInfo, series: list[Series], key: str) -> str:
    x, y = AXES.get(metric.metric, ("share of the words (%)", "value"))
    description = "The numbers of every line are in its title."
    return heading(metric.head) + charts.curves(series, Caption(key, f"{metric.label}: mean curves", description, x, y))


def _agreement_matrix(measured: ResultArrays, metric: MetricInfo) -> tuple[list[str], Floats]:
    names, cube = measured.parts[metric.label]
    labels = [explainer.label for explainer in measured.explainers if explainer.label in names]
    values = np.full((len(labels), len(labels)), np.nan)
    rows = {explainer.label: row for row, explainer in enumerate(measured.explainers)}
    for i, label in enumerate(labels):
        for j, other in enumerate(labels):
            shares = cube[names.index(other), rows[label]]
            shares = shares[np.isfinite(shares)]
            values[i, j] = 1.0 if i == j else shares.mean() if len(shares) else np.nan
    return labels, values


def _agreement_chart(metric: MetricInfo, labels: list[str], values: Floats) -> str:
    caption = Caption("agreement-chart", f"{metric.label} of every two explainers", _extremes(labels, values))
    return paragraph(f"{metric.summary} {_extremes(labels, values)}") + charts.heat(labels, values, caption)


def _extremes(labels: list[str], values: Floats) -> str:
    """The pair that agrees most and the one that agrees least, in a sentence."""
    rows, columns = np.triu_indices(len(labels), 1)
    pairs = [(float(values[i, j]), labels[i], labels[j]) for i, j in zip(rows, columns, strict=True)]
    pairs = [each for each in pairs if math.isfinite(each[0])]
    if not pairs:
        return "No two can be compared."
    (low, *least), (high, *most) = min(pairs), max(pairs)
    if len(pairs) == 1:
        return f"{listed(most)}: {number(high)}."
    return f"Most alike: {listed(most)} ({number(high)}); least: {listed(least)} ({number(low)})."
