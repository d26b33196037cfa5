"""The report on a study: every learned explainer beside its reference, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from didact.experiments.distillation.recipe import READINGS, SIGNALS, learned_label
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Options, Plain

COLUMNS = {
    "log_odds_positive": "Δlog-odds, positive words",
    "log_odds_difference": "Δlog-odds, top 30 %",
    "agreement_labelled": "agreement, strong words",
    "prediction_agreement": "agreement, top 30 %",
    "iou_lexical_labels": "IoU lexical, labels",
    "iou_semantic_labels": "IoU semantic, labels",
    "iou_lexical_top": "IoU lexical, top",
    "iou_semantic_top": "IoU semantic, top",
}
NOTE = (
    "learned / reference = ratio, means over test texts; *: the means differ (studentised bootstrap, corrected over "
    "all metrics and networks)."
)
OF_LABELS = ("log_odds_positive", "agreement_labelled", "iou_lexical_labels", "iou_semantic_labels")
"""Measured by the labels of words, which networks that rank do not give."""


def write(folder: Path) -> Path:
    """Write the report of a finished study into its folder."""
    path = folder / "report.md"
    path.write_text(markdown(read_summary(folder)), encoding="utf-8")
    return path


def read_summary(folder: Path) -> Plain:
    """The summary of a finished study."""
    missing = f"{folder} is not finished: summary.json is missing; give the same command again"
    return read_object(folder / "summary.json", missing)


def markdown(summary: Options) -> str:
    """A row per network: learned / reference = ratio on every metric; * the means differ."""
    study = summary["study"]
    lines = [f"# {study['name']}: learned explainers beside their references", ""]
    lines += [f"| reference, signal | training texts | {' | '.join(COLUMNS.values())} |"]
    lines += [f"|---|--:|{'---|' * len(COLUMNS)}", *_rows(summary), ""]
    lines += [NOTE]
    return "\n".join(lines) + "\n"


def _rows(summary: Options) -> Iterator[str]:
    for reference in summary["study"]["references"]:
        for signal in SIGNALS:
            for reading in READINGS:
                row = _row(summary, reference["label"], signal, reading)
                if row is not None:
                    yield row


def _row(summary: Options, reference: str, signal: str, reading: str) -> str | None:
    """The row of a network, if there is one."""
    learned = learned_label(reading, signal, reference)
    rows = {(row["metric"], row["reference"]): row for row in summary["versus"] if row["learned"] == learned}
    facts = [fact for step, fact in summary["facts"].items() if f"/{reference}/{reading}/{signal}/" in step]
    if not rows or not facts:
        return None
    absolute = signal == "ranking" and any(beside == f"abs({reference})" for _, beside in rows)
    title = f"{reference}, {signal.replace('_', ' ')}"
    title += " (beside absolute weights)" if absolute else ""
    title += ", reads words" if reading == "words" else ""
    title += "" if len(facts) == 3 else f", {len(facts)} initialisations"
    cells = []
    for metric in COLUMNS:
        row = rows.get((metric, f"abs({reference})" if absolute else reference))
        cells.append(_cell(row) if row and (signal == "labelling" or metric not in OF_LABELS) else "–")
    return f"| {title} | {facts[0]['texts']:,} | {' | '.join(cells)} |"


def _cell(row: Options) -> str:
    star = "*" if row.get("differs") else ""
    return f"{row['own']:.3g} / {row['theirs']:.3g} = {row['ratio']:.2f}{star}"
