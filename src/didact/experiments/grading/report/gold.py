"""Sentences on plausibility: which texts count, and what the others would have added."""

from __future__ import annotations

import numpy as np

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.summary import Column
from didact.experiments.report.formatting import number, plural
from didact.metrics.plausibility._helpers import GOLD, OTHER
from didact.types import Floats


def gold_lines(findings: GradingFindings) -> list[str]:
    """For each comparison with rationales: how many texts count, how many not, and the best method's mean on both."""
    columns = (column for column in findings.summary.columns if column.metric.family == "plausibility")
    return [line for column in columns for line in _line(findings, column)]


def _line(findings: GradingFindings, column: Column) -> list[str]:
    measured = findings.run.measured
    names, cube = measured.parts.get(column.metric.label, ((), np.zeros((0, 0, 0))))
    if OTHER not in names or column.best is None or column.metric.parameters.get("explained") == "any":
        return []
    row = [info.label for info in measured.explainers].index(column.best)
    gold = cube[names.index(GOLD), row] if GOLD in names else np.empty(0)
    (right, first), (wrong, second) = (_mean(values) for values in (gold, cube[names.index(OTHER), row]))
    if not wrong:
        return []
    return [
        f"{column.metric.label} is of the {right:,} {plural(right, 'text', 'texts')} whose gold label is explained "
        f"({column.best}: {number(first, column.largest)}). Where another label is explained, mostly because the "
        f"model is wrong, a rationale for the gold label is no evidence for it: {wrong:,} "
        f"{plural(wrong, 'text', 'texts')}, {number(second, column.largest)}, reported here alone."
    ]


def _mean(values: Floats) -> tuple[int, float]:
    """How many values are defined, and their mean."""
    known = values[np.isfinite(values)]
    return len(known), float(known.mean()) if len(known) else float("nan")
