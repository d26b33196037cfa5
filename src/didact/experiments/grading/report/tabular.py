"""The report's numbers for machines: a tidy CSV and a JSON file with everything."""

from __future__ import annotations

import math

from didact.experiments.grading.report.anti_gaming import MetricVerdict
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.sentences import caveats, headlines
from didact.experiments.grading.summary import NULLS, Check, Column
from didact.experiments.report.files import json_text
from didact.experiments.report.table import csv_text


def table(findings: GradingFindings) -> str:
    """CSV with a row per explainer and metric; empty where there is no number."""
    written = rows(findings)
    return csv_text(list(written[0]), written)


def rows(findings: GradingFindings) -> list[dict[str, object]]:
    """The same rows with plain values; NaN where there is no number."""
    return [_row(findings, column, label) for column in findings.summary.columns for label in column.cells]


def summary(findings: GradingFindings) -> str:
    """All numbers of the report as JSON, null where there is none."""
    run = findings.run
    values = {
        "name": run.name,
        "model": run.manifest.get("model"),
        "data": run.manifest.get("data"),
        "seeds": run.manifest.get("seeds"),
        "examples": len(run.measured.examples),
        "tests": {"comparisons": findings.summary.tests, "texts_needed_for_a_verdict": findings.summary.fewest},
        "in_short": headlines(findings),
        "caveats": caveats(findings),
        "rows": rows(findings),
        "metrics": [_metric(column, findings.verdict(column)) for column in findings.summary.columns],
        "rankings": {"metrics": findings.summary.tau_labels, "kendall_tau": findings.summary.taus.tolist()},
        "cost": {label: vars(spent) for label, spent in run.costs.items()},
    }
    return json_text(values)


def _row(findings: GradingFindings, column: Column, label: str) -> dict[str, object]:
    explainer = next(explainer for explainer in findings.run.measured.explainers if explainer.label == label)
    cell, verdict = column.cells[label], findings.verdict(column)
    random = findings.random if findings.random in column.cells else None
    spent = findings.run.costs.get(label)
    row: dict[str, object] = {
        "explainer": label,
        "method": explainer.method,
        "control": explainer.control,
        "metric": column.metric.label,
        "family": column.metric.family,
        "direction": {1: "higher", -1: "lower", 0: ""}[column.metric.sign],
        **vars(cell),
        "best": label == column.best,
        "tied_with_best": label in column.tied,
        "better_than": list(column.beats(label)),
        "random": math.nan if random is None else column.cells[random].mean,
        "p_vs_random": math.nan if random in (None, label) else column.p(label, random),
    }
    for null in NULLS:
        check = _check(verdict, label, null)
        row[null] = math.nan if check is None else check.null
        row[f"p_vs_{null}"] = math.nan if check is None else check.p
    costs = {name: None if spent is None else getattr(spent, name) for name in ("forwards", "backwards", "seconds")}
    return row | costs


def _metric(column: Column, verdict: MetricVerdict | None) -> dict[str, object]:
    return {
        "metric": column.metric.label,
        "family": column.metric.family,
        "best": column.best,
        "not_distinguishable_from_best": column.tied,
        "second": column.second,
        "examples_needed_to_tell_best_from_second": column.needed,
        "verdict": None if verdict is None else verdict.words,
        "gamed_by": None if verdict is None else verdict.gamed_by,
        "controls_not_beaten": None if verdict is None else verdict.unbeaten,
        "warnings": [] if verdict is None else verdict.sentences,
    }


def _check(verdict: MetricVerdict | None, label: str, null: str) -> Check | None:
    return None if verdict is None else verdict.checks.get(label, {}).get(null)
