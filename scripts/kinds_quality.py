"""Grades methods on translation quality: AUC against words tagged BAD, per language pair and side.

Runs recipes/kinds/quality.toml for every language pair of MLQE-PE, writes docs/results/kinds/quality.json, and from it
docs/results/kinds/quality.md, where the figures stand beside those of Fernandes et al. 2022 (SMaT), Table 6. A run that
was stopped goes on with the same command.

Usage:
    DIDACT_SHARED=... python scripts/kinds_quality.py --out runs/quality --device cuda --workers 12 --seconds 540
    python scripts/kinds_quality.py --page      # the page again, from the figures
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from didact.experiments.engine.run import run_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.recipe import GradingRecipe
from didact.provenance import versions
from didact.render.markup import markdown_table
from didact.stats.bootstrap import interval
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.types import Floats

REPO = Path(__file__).resolve().parents[1]
RECIPE = REPO / "recipes" / "kinds" / "quality.toml"
FIGURES = REPO / "docs" / "results" / "kinds" / "quality.json"
PAIRS = ("en-de", "en-zh", "et-en", "ne-en", "ro-en", "ru-en", "si-en")
TRAINED = PAIRS[:-1]
"""The pairs that the model was trained on and that the paper has; si-en is neither."""
OVERALL = "six pairs"
SIDES = ("source", "translation")
COMMAND = "python scripts/kinds_quality.py --out runs/quality --device cuda --workers 12"

PUBLISHED: Mapping[str, Sequence[float]] = {
    "Gradient L2": (0.64, 0.65, 0.65, 0.49, 0.67, 0.61, 0.68, 0.55, 0.72, 0.68, 0.65, 0.54, 0.67, 0.59),
    "Gradient × Input": (0.58, 0.60, 0.61, 0.51, 0.60, 0.54, 0.61, 0.49, 0.64, 0.59, 0.58, 0.51, 0.61, 0.54),
    "Integrated Gradients": (0.59, 0.60, 0.63, 0.49, 0.60, 0.52, 0.64, 0.48, 0.64, 0.59, 0.60, 0.51, 0.62, 0.53),
    "Attention (all layers)": (0.60, 0.63, 0.68, 0.52, 0.60, 0.61, 0.58, 0.55, 0.66, 0.70, 0.62, 0.55, 0.62, 0.59),
    "Attention (last layer)": (0.51, 0.49, 0.61, 0.49, 0.51, 0.50, 0.55, 0.48, 0.52, 0.57, 0.56, 0.50, 0.54, 0.50),
    "Attention (SMaT)": (0.64, 0.65, 0.68, 0.52, 0.66, 0.64, 0.66, 0.54, 0.71, 0.70, 0.61, 0.54, 0.66, 0.60),
}
"""Table 6 of the paper: per pair in the order of ``TRAINED`` and overall, source then translation."""

Values = dict[tuple[str, str], Floats]
"""Method and metric -> one value per example."""


def main() -> None:
    """Run all pairs and write figures and page, or the page alone."""
    options = _options()
    if not options.page:
        deadline = time.time() + options.seconds
        figures: dict[str, Any] = {"command": COMMAND, "versions": versions(), "pairs": {}}
        pooled: dict[str, Values] = {}
        for pair in options.pairs.split(","):
            folder = options.out / pair
            if not _run(pair, folder, options, deadline):
                raise SystemExit(f"time is up before {pair} is done; the same command goes on")
            pooled[pair] = _values(folder)
            figures["pairs"][pair] = _summary(pooled[pair]) | {"pearson": _pearson(folder)}
        figures["pairs"][OVERALL] = _summary(_joined([pooled[pair] for pair in TRAINED if pair in pooled]))
        options.figures.parent.mkdir(parents=True, exist_ok=True)
        options.figures.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page = options.figures.with_suffix(".md")
    page.write_text(written(json.loads(options.figures.read_text(encoding="utf-8"))), encoding="utf-8")
    print(page)


def written(figures: Mapping[str, Any]) -> str:
    """The page of results."""
    pairs: Mapping[str, Any] = figures["pairs"]
    texts = sum(pairs[pair]["texts"] for pair in pairs if pair != OVERALL)
    pearson = ", ".join(f"{pair} {pairs[pair]['pearson']:.2f}" for pair in pairs if pair != OVERALL)
    blocks = [
        "# Translation quality: are the bad words found?",
        "AUC of word scores against the words tagged BAD, mean over translations with its 95 % interval; chance is "
        f"0.5. The model is minilm-mlqe (English word pieces, trained on {len(TRAINED)} of the pairs), the data the "
        f"whole dev sets of MLQE-PE, {texts:,} translations. Its Pearson correlation with the assessed quality: "
        f"{pearson}.",
        f"```\n{figures['command']}\n```",
        "Quality is explained, so a bad word should lower it: signed scores count with the opposite sign (`evidence = "
        '"against"`); "size" takes their absolute value. Words are those between blanks. Translations without a bad '
        "word on a side, or with nothing else there, have no AUC and are left out; so are words beyond 160 tokens.",
    ]
    for number, side in enumerate(SIDES):
        blocks += [f"## {side.capitalize()}", _table(pairs, side), _left(pairs, side)]
        blocks += [
            f"The same in the paper (Table 6, with XLM-R-base, which reads these languages):\n\n{_published(number)}"
        ]
    return "\n\n".join(blocks) + "\n"


def _run(pair: str, folder: Path, options: argparse.Namespace, deadline: float) -> bool:
    recipe = GradingRecipe.from_toml(RECIPE)
    data = dict(recipe.data) | {"split": f"{pair}.{options.split}"}
    data |= {} if options.limit is None else {"limit": options.limit}
    chosen = replace(recipe, name=f"quality of {pair}", data=data)
    place = RunOptions(folder, None, options.device, options.workers, deadline, COMMAND)
    return run_recipe(chosen, place).complete


def _values(folder: Path) -> Values:
    rows = record_store.from_table(record_store.read(folder / "records.parquet"))
    names = sorted({row.example for row in rows})
    places = {name: number for number, name in enumerate(names)}
    values: Values = {}
    for row in rows:
        if not row.part:
            own = values.setdefault((row.explainer, row.metric), np.full(len(names), np.nan))
            own[places[row.example]] = row.value
    return values


def _joined(several: Sequence[Values]) -> Values:
    return {key: np.concatenate([values[key] for values in several]) for key in several[0]} if several else {}


def _summary(values: Values) -> dict[str, Any]:
    """Mean, interval and number of defined values by metric and method."""
    methods: dict[str, dict[str, Any]] = {}
    for (method, metric), own in values.items():
        made = interval(own)
        figures = {"mean": made.mean, "low": made.low, "high": made.high, "n": made.n}
        methods.setdefault(metric, {})[method] = figures
    return {"texts": max(map(len, values.values()), default=0), "auc": methods}


def _pearson(folder: Path) -> float:
    """Of the model's predictions with the labels."""
    table = explanation_store.read(folder / "explanations.parquet")
    first = table.filter([name == "random" for name in table.column("explainer").to_pylist()])
    outputs = [row[0] for row in first.column("outputs").to_pylist()]
    labels = [float(label) for label in first.column("label").to_pylist()]
    return float(np.corrcoef(outputs, labels)[0, 1])


def _table(pairs: Mapping[str, Any], side: str) -> str:
    rows = []
    for metric, note in ((side, ""), (f"{side}, either sign", ", size")):
        for method in pairs[OVERALL]["auc"][metric]:
            cells = [pairs[pair]["auc"][metric][method] for pair in pairs]
            same = [pairs[pair]["auc"][side][method] for pair in pairs] if note else []
            if cells != same:
                rows.append([f"{method}{note}", *map(_cell, cells)])
    return markdown_table(["method", *pairs], rows, "lr")


def _cell(figures: Mapping[str, float]) -> str:
    mean = f"{figures['mean']:.2f}"
    return mean if np.isnan(figures["low"]) else f"{mean} [{figures['low']:.2f}, {figures['high']:.2f}]"


def _left(pairs: Mapping[str, Any], side: str) -> str:
    counts = ", ".join(f"{pair} {pairs[pair]['auc'][side]['random']['n']:,}" for pair in pairs if pair != OVERALL)
    return f"Translations that count: {counts}."


def _published(side: int) -> str:
    rows = [[name, *(f"{value:.2f}" for value in values[side::2])] for name, values in PUBLISHED.items()]
    return markdown_table(["paper's method", *TRAINED, "overall"], rows, "lr")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/quality"), help="folder of the runs, one per pair")
    parser.add_argument("--device", help="cpu or cuda")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="begin nothing new after so many seconds")
    parser.add_argument("--pairs", default=",".join(PAIRS), help="language pairs, joined by commas")
    parser.add_argument("--split", default="dev", help="published split (default: dev)")
    parser.add_argument("--limit", type=int, help="translations per pair (default: all)")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where the figures are written")
    parser.add_argument("--page", action="store_true", help="only write the page from the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
