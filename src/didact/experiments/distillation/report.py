"""The report on a study: every learned explainer beside its reference, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from didact import disk
from didact.experiments.distillation.kept import (
    KEPT,
    KEPT_NOTE,
    READS,
    STABLE_NOTE,
    kept_table,
    learnable,
    stable_table,
)
from didact.experiments.distillation.recipe import READINGS, SIGNALS, learned_label
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Options, Plain
from didact.experiments.report import reliability
from didact.render.markup import markdown_table, markdown_text

COLUMNS = {
    "log_odds_positive": "Δlog-odds, positive words",
    "log_odds_difference": "Δlog-odds, top 30 %",
    "comprehensiveness": "comprehensiveness",
    "agreement_labelled": "agreement, strong words",
    "prediction_agreement": "agreement, top 30 %",
    "iou_lexical_labels": "IoU lexical, labels",
    "iou_semantic_labels": "IoU semantic, labels",
    "iou_lexical_top": "IoU lexical, top",
    "iou_semantic_top": "IoU semantic, top",
}
_HEADS = ("reference, signal", "beside", "training texts", *COLUMNS.values())
NOTE = (
    "learned / reference = ratio, means over the test texts on which both are defined; (n): how many these are, where "
    "some are left out; *: the means differ (studentised bootstrap, corrected over all metrics and networks). A "
    "network that learned the order of absolute weights stands beside these, and beside the weights as given. Random "
    "scores are the chance level."
)
OF_LABELS = ("log_odds_positive", "agreement_labelled", "iou_lexical_labels", "iou_semantic_labels")
"""Measured by the labels of words, which networks that rank do not give."""


def write(folder: Path) -> Path:
    """Write the report of a finished study into its folder."""
    path = folder / "report.md"
    disk.write_text(path, markdown(read_summary(folder)))
    return path


def read_summary(folder: Path) -> Plain:
    """The summary of a finished study."""
    missing = f"{folder} is not finished: summary.json is missing; give the same command again"
    return read_object(folder / "summary.json", missing)


def markdown(summary: Options) -> str:
    """The table under a title, and how to read it."""
    title = f"# {markdown_text(str(summary['study']['name']))}: learned explainers beside their references"
    parts = [title, table(summary), NOTE]
    for made, note in ((kept_table(summary), KEPT_NOTE), (stable_table(summary), STABLE_NOTE)):
        parts += [made, note] if made else []
    parts += reliability.notes(metric for metric in {**COLUMNS, **KEPT} if metric in summary["means"].get("random", {}))
    return "\n\n".join(parts) + "\n"


def table(summary: Options) -> str:
    """A row per network and what it stands beside, and what random scores have; metrics that none has are left out."""
    columns = zip(_HEADS, *_rows(summary), _chance(summary), strict=True)
    kept = [cells for cells in columns if cells[0] in _HEADS[:3] or set(cells[1:]) != {"–"}]
    heads, *rows = zip(*kept, strict=True)
    return markdown_table(heads, rows, "llrl")


def _rows(summary: Options) -> Iterator[list[str]]:
    for reference, signal, reading in product(learnable(summary["study"]), SIGNALS, READINGS):
        yield from _network(summary, reference, signal, reading)


def _network(summary: Options, reference: str, signal: str, reading: str) -> Iterator[list[str]]:
    """The rows of a network, if there is one."""
    learned = learned_label(reading, signal, reference)
    rows = {(row["metric"], row["reference"]): row for row in summary["versus"] if row["learned"] == learned}
    facts = [fact for step, fact in summary["facts"].items() if f"/{reference}/{reading}/{signal}/" in step]
    if not rows or not facts:
        return
    title = f"{reference}, {signal.replace('_', ' ')}"
    title += READS[reading]
    title += {1: ", 1 initialisation", 3: ""}.get(len(facts), f", {len(facts)} initialisations")
    texts = max(row["n"] for row in summary["versus"])
    for beside, words in ((f"abs({reference})", "absolute weights"), (reference, "weights as given")):
        if any(known == beside for _, known in rows) and (beside == reference or signal == "ranking"):
            shown = [metric if signal == "labelling" or metric not in OF_LABELS else "" for metric in COLUMNS]
            yield [
                markdown_text(title),
                words,
                f"{facts[0]['texts']:,}",
                *(_cell(rows.get((metric, beside)), texts) for metric in shown),
            ]


def _chance(summary: Options) -> list[str]:
    known = summary["means"].get("random", {})
    means = [known.get(metric, [math.nan])[0] for metric in COLUMNS]
    return ["random scores", "", "", *("–" if math.isnan(mean) else f"{mean:.3g}" for mean in means)]


def _cell(row: Options | None, texts: int) -> str:
    if row is None or not row["n"]:
        return "–"
    star = "*" if row.get("differs") else ""
    count = f" ({row['n']:,})" if row["n"] < texts else ""
    ratio = "" if math.isnan(row["ratio"]) else f" = {row['ratio']:.2f}"
    return f"{row['own']:.3g} / {row['theirs']:.3g}{ratio}{star}{count}"
