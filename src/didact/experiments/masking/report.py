"""The report on a study of explainers trained for metrics, as Markdown, JSON and one HTML page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from didact.experiments.distillation.summary import spread
from didact.experiments.engine.toml import Options
from didact.experiments.masking.findings import MaskingFindings
from didact.experiments.masking.recipe import RANDOM, trained_label
from didact.experiments.report import reliability
from didact.experiments.report.files import json_text, write_files
from didact.experiments.report.formatting import interval, number, p_value, settings
from didact.experiments.report.markdown import bullets, document
from didact.experiments.report.page import Page, Section, paragraph, scrolling
from didact.experiments.report.page import bullets as html_bullets
from didact.experiments.report.table import ReportTable, TableCell, TableColumn, TableRow, as_markdown
from didact.experiments.report.terminal import print_report
from didact.render.markup import markdown_text
from didact.stats.compare import Comparison
from didact.types import Floats

if TYPE_CHECKING:
    from rich.console import Console

TOPIC = "explainers trained for a metric"
FORMATS = ("md", "json", "html")
WIDEST = 6
"""Columns of a table that a terminal shows with intervals."""

TIED, OWN = "≈", "°"
MARKS = {TIED: "not significantly different from the best of the column", OWN: "trained for this metric"}
NOTES = (
    "Means over the test texts ± 1.96 standard errors; best of a column in bold, ≈ not significantly different "
    "from it (every two compared by a studentised bootstrap, corrected over all metrics).",
    "paml explains in one pass; faml trains its network further for each text and keeps the map that the metric rates "
    "best on that text. A selection takes the best of its members for each text, by the metric of the column.",
    "In a text of few units the smallest shares round to no unit at all, and the value is 0 for every explainer.",
    "Students are ridge regressions that learn to imitate the model from so many texts, with the explanations as a "
    "prior; a gain is over students without them. Times are per text, of many texts together and of one alone; passes "
    "are those of the explained model that an explainer declares.",
    "Random scores are the chance level.",
)


def report(folder: Path, formats: Sequence[str] | None, console: Console) -> list[Path]:
    """Print the tables, write the report, and return the files."""
    findings = MaskingFindings.read(folder)
    shown = [(title, _brief(table) if len(table.columns) > WIDEST else table) for title, table in tables(findings)]
    print_report(console, findings.sentences, shown, notes(findings))
    files = {"md": ("report.md", markdown), "json": ("report.json", as_json), "html": ("report.html", page)}
    return write_files(findings, folder, files, formats or FORMATS)


def notes(findings: MaskingFindings) -> list[str]:
    """How to read the tables, and how well those of the metrics that were graded rank explanations of known quality."""
    study = findings.summary["study"]
    return [*NOTES, *reliability.notes(given["metric"] for given in (*study["metrics"], *study["unseen"]))]


def tables(findings: MaskingFindings) -> list[tuple[str, ReportTable]]:
    """All tables that there are numbers for, with their titles."""
    made = (
        ("Each trained for the metric of its column", main_table(findings)),
        ("Each metric, whatever was trained for", crossed_table(findings)),
        ("Without a term of the loss", ablation_table(findings)),
        ("Students in closed form", teaching_table(findings)),
        ("Weights of the loss", weights_table(findings)),
        ("Time", speed_table(findings)),
    )
    return [(title, table) for title, table in made if table is not None and table.rows]


def main_table(findings: MaskingFindings) -> ReportTable:
    """Rows of explainers, those that are trained each for the metric of the column."""
    compared = findings.comparisons
    rows = []
    for row in findings.rows:
        cells = [_cell(compared[metric], row, findings.values(row, metric)) for metric in compared]
        kind = "control" if row == RANDOM else "body"
        rows.append(TableRow([row, *cells], kind))  # type: ignore[arg-type]
    columns = [TableColumn("explainer", align="l"), *(_column(findings, metric) for metric in compared)]
    return ReportTable(columns, rows, f"{findings.texts} test texts", MARKS)


def crossed_table(findings: MaskingFindings) -> ReportTable:
    """Every explainer on every metric, also those that it was not trained for."""
    compared = findings.crossed
    rows = []
    for one in findings.explainers:
        cells = []
        for metric, comparison in compared.items():
            cell = _cell(comparison, one.label, findings.grades[metric].get(one.label))
            own = cell is not None and one.metric == metric
            cells.append(_marked(cell, OWN) if own and cell is not None else cell)
        rows.append(TableRow([one.label, *cells], "control" if one.role == "random" else "body"))
    columns = [TableColumn("explainer", align="l"), *(_column(findings, metric) for metric in compared)]
    return ReportTable(columns, rows, f"{findings.texts} test texts", MARKS)


def ablation_table(findings: MaskingFindings) -> ReportTable | None:
    """Explainers without a term of the loss, beside the whole ones."""
    recipe = findings.recipe
    if not recipe.ablations:
        return None
    rows = []
    for stage in reversed(recipe.stages):
        for without in ("", *recipe.ablations):
            cells = [_mean(findings, trained_label(stage, metric, without), metric) for metric in recipe.ablated]
            rows.append(TableRow([f"{stage} without {without}" if without else stage, *cells]))
    return ReportTable([TableColumn("explainer", align="l"), *(_column(findings, m) for m in recipe.ablated)], rows)


def teaching_table(findings: MaskingFindings) -> ReportTable | None:
    """What explanations add to the agreement of closed-form students with the model."""
    gains = findings.summary.get("simulability", {}).get("gains", [])
    if not gains:
        return None
    heads = ("explainer", "texts", "agreement", "gain", "95 % interval", "p (Holm)")
    rows = [
        TableRow(
            [row["method"], str(row["size"]), _number(row["score"]), _number(row["gain"]), _between(row), _p(row)],
            "control" if row["control"] or row["method"] == "none" else "body",
        )
        for row in gains
    ]
    return ReportTable([TableColumn(head, align="r" if at else "l") for at, head in enumerate(heads)], rows)


def weights_table(findings: MaskingFindings) -> ReportTable | None:
    """The weights that each explainer was trained with, and what its training took."""
    trained = findings.summary.get("training", {})
    rows = []
    for name, facts in trained.items():
        weights = {key: f"{value:.3g}" for key, value in (facts.get("weights") or {}).items() if value is not None}
        seconds = facts.get("seconds to train")
        rows.append([name.removeprefix("train/"), settings(weights), "" if seconds is None else f"{seconds:.0f}"])
    return ReportTable.of(("trained for", "weights", "seconds"), rows, "llr") if rows else None


def speed_table(findings: MaskingFindings) -> ReportTable | None:
    """Per text: seconds together with others and alone, and passes of the explained model."""
    speed = findings.summary.get("speed", {})
    if not speed:
        return None
    keys = {
        "seconds": "seconds",
        "seconds alone": "alone",
        "forwards": "forwards",
        "backwards": "backwards",
    }
    rows = [[name, *(f"{row[key]:.3g}" for key in keys)] for name, row in speed["explainers"].items()]
    rows.append(["prediction alone", f"{speed['seconds of a prediction']:.3g}", "", "1", "0"])
    return ReportTable.of(("explainer", *keys.values()), rows, "lr")


def markdown(findings: MaskingFindings) -> str:
    """The whole report as Markdown."""
    parts = [f"# {markdown_text(findings.name)}: {TOPIC}", markdown_text(_lead(findings))]
    parts.append(bullets(map(markdown_text, findings.sentences)))
    for title, table in tables(findings):
        parts += [f"## {markdown_text(title)}", as_markdown(table)]
    return document([*parts, "## Keep in mind", bullets(map(markdown_text, notes(findings))), _made(findings)])


def as_json(findings: MaskingFindings) -> str:
    """All numbers as JSON."""
    means = {
        metric: {label: list(findings.mean(label, metric)) for label in rows}
        for metric, rows in findings.grades.items()
    }
    return json_text({"sentences": findings.sentences, "means": means, **findings.summary})


def page(findings: MaskingFindings) -> str:
    """The whole report as one HTML file."""
    sections = [
        Section(f"part-{at}", title, scrolling(table, title)) for at, (title, table) in enumerate(tables(findings))
    ]
    foot = html_bullets(notes(findings)) + paragraph(_made(findings))
    return Page(
        findings.name,
        TOPIC,
        _lead(findings),
        "Do explainers that are trained for a metric lead on it, and what do they lose?",
        findings.sentences,
        [*sections, Section("notes", "Keep in mind", foot)],
    ).html()


def _lead(findings: MaskingFindings) -> str:
    texts, study = findings.summary["texts"], findings.summary["study"]
    return (
        f"{study['model']}: trained on {texts['train']:,} texts, weights and epochs chosen by {texts['validation']:,} "
        f"validation texts, measured on {texts['test']:,} test texts."
    )


def _made(findings: MaskingFindings) -> str:
    speed = findings.summary.get("speed", {})
    return f"Timed on {speed['device']}, {speed['texts']} texts, torch {speed['torch']}." if speed else ""


def _column(findings: MaskingFindings, metric: str) -> TableColumn:
    arrow = {True: "↑", False: "↓", None: ""}[findings.higher_is_better(metric)]
    return TableColumn(metric, arrow)


def _cell(comparison: Comparison, name: str, values: Floats | None) -> TableCell | None:
    """Mean and interval of a row; the best in bold, those tied with it marked."""
    if values is None or name not in comparison.names:
        return None
    mean, half, texts = spread(values)
    best = comparison.best == name
    tied = not best and name in comparison.leaders and bool(np.isfinite(comparison.adjusted).any())
    return TableCell(
        number(mean, 0.5), f"± {number(half, 0.5)}", TIED if tied else "", best, title=f"{texts} texts", value=mean
    )


def _brief(table: ReportTable) -> ReportTable:
    """The same without intervals."""
    rows = [
        TableRow([dataclasses.replace(cell, note="") if isinstance(cell, TableCell) else cell for cell in row.cells])
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=rows)


def _marked(cell: TableCell, mark: str) -> TableCell:
    return dataclasses.replace(cell, mark=cell.mark + mark)


def _mean(findings: MaskingFindings, label: str, metric: str) -> TableCell | None:
    mean, half = findings.mean(label, metric)
    return None if mean != mean else TableCell(number(mean, 0.5), f"± {number(half, 0.5)}", value=mean)


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _between(row: Options) -> str | None:
    return None if row["low"] is None else interval(row["low"], row["high"], 0.5)


def _p(row: Options) -> str | None:
    return None if row["adjusted"] is None else p_value(row["adjusted"])
