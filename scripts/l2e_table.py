"""The table of docs/results/l2e.md: learned explainers beside their teachers, from the summaries of l2e_experiment.py.

python scripts/l2e_table.py docs/results/l2e
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didact.experiments.distillation.recipe import READINGS, learned_label

STUDIES = {"sst2": "SST-2", "ag_news": "AG News"}
TEACHERS = {
    "lime": "LIME-1000",
    "kernel_shap_100": "KernelSHAP-100",
    "occlusion": "occlusion",
    "gradient": "gradient x input",
    "lrp": "LRP",
    "deep_shap": "Deep SHAP",
    "kernel_shap": "KernelSHAP-300",
}
SIGNALS = ("labelling", "ranking", "signed_ranking")
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
OF_LABELS = ("log_odds_positive", "agreement_labelled", "iou_lexical_labels", "iou_semantic_labels")
"""Measured by the labels of words, which networks that rank do not give."""


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
    found = {name: json.loads((folder / f"summary-{name}.json").read_text(encoding="utf-8")) for name in STUDIES}
    print(f"| data, teacher, signal | training texts | {' | '.join(COLUMNS.values())} |")
    print(f"|---|--:|{'---|' * len(COLUMNS)}")
    for teacher in TEACHERS:
        for name, summary in found.items():
            for signal in SIGNALS:
                for reading in READINGS:
                    if row := _row(name, summary, teacher, signal, reading):
                        print(row)


def _row(name: str, summary: Mapping[str, Any], teacher: str, signal: str, reading: str) -> str | None:
    """The row of a network, if there is one."""
    learned = learned_label(reading, signal, teacher)
    rows = {(row["metric"], row["teacher"]): row for row in summary["versus"] if row["learned"] == learned}
    facts = [fact for piece, fact in summary["facts"].items() if f"/{teacher}/{reading}/{signal}/" in piece]
    if not rows:
        return None
    absolute = signal == "ranking" and any(beside == f"abs({teacher})" for _, beside in rows)
    title = f"{STUDIES[name]}, {TEACHERS[teacher]}, {signal.replace('_', ' ')}"
    title += " (beside absolute weights)" if absolute else ""
    title += ", reads words" if reading == "words" else ""
    title += "" if len(facts) == 3 else f", {len(facts)} initialisations"
    cells = []
    for metric in COLUMNS:
        row = rows.get((metric, f"abs({teacher})" if absolute else teacher))
        cells.append(_cell(row) if row and (signal == "labelling" or metric not in OF_LABELS) else "–")
    return f"| {title} | {facts[0]['texts']:,} | {' | '.join(cells)} |"


def _cell(row: Mapping[str, Any]) -> str:
    star = "*" if row["adjusted"] < 0.05 else ""
    return f"{row['own']:.3g} / {row['theirs']:.3g} = {row['ratio']:.2f}{star}"


if __name__ == "__main__":
    main()
