"""``didact list``: what there is."""

from __future__ import annotations

import argparse
import json

from didact.cli import printing

NAME = "list"
HELP = "List methods, metrics, losses, presets, students, channels, recipe kinds, models or data sets."
EXAMPLES = """examples:
  didact list methods
  didact list methods --format json
  didact list metrics
  didact list students
  didact list channels
  didact list presets
  didact list losses
  didact list models
  didact list data
  didact list recipes
"""

MODELS = (
    ("default", "the embedded English sentiment classifier; works offline"),
    ("default:NAME", "tiny embedded models of other kinds of input: shapes, questions, quality, reviews"),
    ("DIRECTORY", "a Transformers model saved with save_pretrained (safetensors, fast tokenizer), or a LoRA adapter"),
    ("OWNER/NAME", "a model on the Hugging Face Hub"),
    ("FILE.gguf", "a language model, with --prompt"),
    ("in Python", "also (model, tokenizer), a pipeline, predict_proba, or a function from texts to probabilities"),
)

SHOWN = {
    "methods": ("name", "family", "needs", "cost", "summary"),
    "metrics": ("name", "family", "better", "needs", "summary"),
    "students": ("name", "family", "answers", "channels", "summary"),
    "channels": ("name", "answers", "needs", "summary"),
    "presets": ("name", "family", "shape", "signals", "summary"),
    "shapes": ("name", "family", "needs", "outputs", "summary"),
    "signals": ("name", "family", "needs", "outputs", "summary"),
    "losses": ("name", "family", "needs", "outputs", "summary"),
    "models": ("model", "what"),
    "data": ("name", "task", "splits", "rationales", "from"),
    "recipes": ("name", "summary"),
}
"""The columns of each table; JSON has more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("what", choices=tuple(SHOWN), help="what to list; 'signals' and 'losses' are the same")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(options: argparse.Namespace) -> None:
    """Print a table, or JSON."""
    makers = {
        "methods": _methods,
        "metrics": _metrics,
        "students": _students,
        "channels": _channels,
        "presets": _presets,
        "shapes": _shapes,
        "signals": _signals,
        "losses": _signals,
        "models": _models,
        "data": _data,
        "recipes": _recipes,
    }
    rows = makers[options.what]()
    if options.format == "json":
        printing.document(json.dumps(rows, indent=2))
        return
    from rich.table import Table

    shown = SHOWN[options.what]
    table = Table(*shown, box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.columns[0].no_wrap = True
    table.columns[-1].overflow = "fold"  # a path cut short is of no use
    for row in rows:
        table.add_row(*(", ".join(cell) if isinstance(cell := row[key], list) else str(cell) for key in shown))
    printing.show(table)


def _methods() -> list[dict[str, object]]:
    from didact.attribution.base import ATTRIBUTIONS

    return [card.to_dict() for card in ATTRIBUTIONS.cards()]


def _metrics() -> list[dict[str, object]]:
    from didact.metrics.base import METRICS

    words = {True: "higher", False: "lower", None: "neither"}
    return [card.to_dict() | {"better": words[card.higher_is_better]} for card in METRICS.cards()]


def _students() -> list[dict[str, object]]:
    from didact.students.base import STUDENTS
    from didact.students.matching import reaching

    return [
        vars(card) | {"answers": sorted(card.answers), "offers": sorted(card.offers), "channels": reaching(card)}
        for card in STUDENTS.cards()
    ]


def _channels() -> list[dict[str, object]]:
    from didact.students.base import CHANNELS

    return [vars(card) | {"answers": sorted(card.answers), "needs": sorted(card.needs)} for card in CHANNELS.cards()]


def _presets() -> list[dict[str, object]]:
    from didact.trained.presets.base import PRESETS

    plain = [vars(card) | {"needs": sorted(card.needs), "signals": list(card.signals)} for card in PRESETS.cards()]
    return [{name: value for name, value in card.items() if name not in ("learns", "examples")} for card in plain]


def _shapes() -> list[dict[str, object]]:
    from didact.trained.shapes.base import SHAPES

    return [vars(card) | {"needs": sorted(card.needs)} for card in SHAPES.cards()]


def _signals() -> list[dict[str, object]]:
    from didact.trained.signals.base import SIGNALS

    return [vars(card) | {"needs": sorted(card.needs)} for card in SIGNALS.cards()]


def _recipes() -> list[dict[str, object]]:
    from didact.experiments.engine.kinds import RECIPES

    return [vars(card) for card in RECIPES.cards()]


def _models() -> list[dict[str, object]]:
    return [dict(zip(SHOWN["models"], row, strict=True)) for row in MODELS]


def _data() -> list[dict[str, object]]:
    """The presets, with the folder where one is found on this machine and the Hub's id otherwise."""
    from didact.data.presets import PRESETS

    rows = [
        preset.to_dict() | {"from": str(preset.folder() or (f"hub:{preset.hub}" if preset.hub else "not found"))}
        for preset in PRESETS.values()
    ]
    planted: dict[str, object] = {
        "name": "corpus",
        "task": "sentiment of a synthetic review",
        "labels": ["negative", "positive"],
        "splits": ["all"],
        "rationales": "planted words",
        "from": "generated",
        "hub": "",
        "reference": "didact",
        "notes": "another seed gives other texts",
    }
    return [*rows, planted]
