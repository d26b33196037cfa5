"""``didact list``: what there is."""

from __future__ import annotations

import argparse
import json

NAME = "list"
HELP = "List the registered methods, or the models that can be explained."
EXAMPLES = """examples:
  didact list methods
  didact list methods --format json
  didact list models
"""

MODELS = (
    ("default", "the embedded English sentiment classifier; works offline"),
    ("DIRECTORY", "a Transformers text classifier saved with save_pretrained (safetensors, fast tokenizer)"),
    ("OWNER/NAME", "a text classifier on the Hugging Face Hub"),
    ("in Python", "also (model, tokenizer), a text-classification pipeline, or a function from texts to probabilities"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("what", choices=("methods", "models"))
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(options: argparse.Namespace) -> None:
    """Print a table, or JSON."""
    rows = (
        _methods() if options.what == "methods" else [dict(zip(("model", "what"), row, strict=True)) for row in MODELS]
    )
    if options.format == "json":
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    shown = ("name", "family", "needs", "cost", "summary") if options.what == "methods" else ("model", "what")
    table = Table(*shown, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(", ".join(cell) if isinstance(cell := row[key], list) else str(cell) for key in shown))
    Console().print(table)


def _methods() -> list[dict[str, object]]:
    from didact.attribution.base import ATTRIBUTIONS

    return [card.to_dict() for card in ATTRIBUTIONS.cards()]
