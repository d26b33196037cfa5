"""The report's numbers for machines: a tidy CSV and a JSON file with everything."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from didact.experiments.report.anti_gaming import NULLS, Check, MetricVerdict
from didact.experiments.report.findings import Findings
from didact.experiments.report.sentences import caveats, headlines
from didact.experiments.tables import Column

COLUMNS = (
    "explainer",
    "method",
    "control",
    "metric",
    "family",
    "direction",
    "mean",
    "low",
    "high",
    "n",
    "missing",
    "best",
    "tied_with_best",
    "better_than",
    "random",
    "p_vs_random",
    "shuffle",
    "p_vs_shuffle",
    "labels",
    "p_vs_labels",
    "forwards",
    "backwards",
    "seconds",
)


def table(findings: Findings) -> str:
    """One row per explainer and metric; empty where there is no number."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows(findings):
        writer.writerow({name: _plain(value) for name, value in row.items()})
    return written.getvalue()


def rows(findings: Findings) -> list[dict[str, Any]]:
    """The rows of the table with plain values; NaN where there is no number."""
    return [_row(findings, column, label) for column in findings.summary.columns for label in column.cells]


def summary(findings: Findings) -> str:
    """All numbers of the report as JSON, null where there is none."""
    run = findings.run
    found = {
        "name": run.name,
        "model": run.manifest.get("model"),
        "data": run.manifest.get("data"),
        "seeds": run.manifest.get("seeds"),
        "examples": len(run.measured.examples),
        "in_short": headlines(findings),
        "caveats": caveats(findings),
        "rows": rows(findings),
        "metrics": [_metric(column, findings.verdict(column)) for column in findings.summary.columns],
        "rankings": {"metrics": findings.summary.tau_labels, "kendall_tau": findings.summary.taus.tolist()},
        "cost": {label: vars(spent) for label, spent in run.costs.items()},
    }
    return json.dumps(_without_nan(found), indent=1, ensure_ascii=False) + "\n"


def _row(findings: Findings, column: Column, label: str) -> dict[str, Any]:
    subject = next(subject for subject in findings.run.measured.subjects if subject.label == label)
    cell, verdict = column.cells[label], findings.verdict(column)
    random = findings.random if findings.random in column.cells else None
    spent = findings.run.costs.get(label)
    row: dict[str, Any] = {
        "explainer": label,
        "method": subject.method,
        "control": subject.control,
        "metric": column.yardstick.label,
        "family": column.yardstick.family,
        "direction": {1: "higher", -1: "lower", 0: ""}[column.yardstick.sign],
        **vars(cell),
        "best": label == column.best,
        "tied_with_best": label in column.tied,
        "better_than": list(column.tests.beats(label)),
        "random": math.nan if random is None else column.cells[random].mean,
        "p_vs_random": math.nan if random in (None, label) else column.p(label, random),
    }
    for null in NULLS:
        check = _check(verdict, label, null)
        row[null] = math.nan if check is None else check.null
        row[f"p_vs_{null}"] = math.nan if check is None else check.p
    costs = {name: None if spent is None else getattr(spent, name) for name in ("forwards", "backwards", "seconds")}
    return row | costs


def _metric(column: Column, verdict: MetricVerdict | None) -> dict[str, Any]:
    return {
        "metric": column.yardstick.label,
        "family": column.yardstick.family,
        "best": column.best,
        "not_distinguishable_from_best": column.tied,
        "second": column.second,
        "examples_needed_to_tell_best_from_second": column.needed,
        "gamed_by": None if verdict is None else verdict.gamed_by,
        "warnings": [] if verdict is None else verdict.sentences,
    }


def _check(verdict: MetricVerdict | None, label: str, null: str) -> Check | None:
    return None if verdict is None else verdict.checks.get(label, {}).get(null)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
