"""``didact words``: which words matter over a whole dataset."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from didact import disk
from didact.cli import options as shared
from didact.cli import printing
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.summary.words import WordTable
    from didact.types import Explanation

NAME = "words"
HELP = "Show the mean importance of each word over many texts, by class, with the examples behind it."
EXAMPLES = """examples:
  didact words reviews.jsonl --limit 200 --out words.html
  didact words reviews.csv --text-column body --model ./my-model --method lime --target all --out words.json
  didact words explained.json --least 5                    (what 'didact explain --out explained.json' wrote)
"""
SHOWN = 12
"""Words of each class in the terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_input(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--method", metavar="NAME", help="see 'didact list methods' (default: integrated_gradients)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the method; may be repeated"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="explain the first N texts (default: all)")
    parser.add_argument("--least", type=int, default=3, metavar="N", help="leave out words of fewer texts (default: 3)")
    shared.add_on_error(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help=".html or .json (default: a table in the terminal)")


def run(options: argparse.Namespace) -> None:
    """Explain all texts, average, and write."""
    if options.limit is not None and options.limit < 1:
        raise ParameterError(f"--limit must be at least 1, got {options.limit}")
    if options.out is not None:
        if options.out.suffix.lower() not in (".html", ".htm", ".json"):
            raise ParameterError(f"--out {options.out}: a table of words is written as .html or .json")
        disk.check_writable(options.out)
    from didact.reporting import words

    made = words(_explanations(options), least=options.least)
    _show(made)
    if options.out is not None:
        printing.line(made.save(options.out))


def _explanations(options: argparse.Namespace) -> list[Explanation]:
    """Those that a file holds, or those of the texts that the command line names."""
    stored = _stored(options.input)
    if stored is not None:
        return stored[: options.limit]
    examples = shared.read_input(options)[: options.limit]
    settings = {"level": options.level, "scale": options.scale} | shared.parse_settings(options.set)
    from didact.api import explain

    model = shared.load(options)
    target = shared.target(options, examples, model)
    made = explain(examples, model, options.method, target=target, on_error=options.on_error, **settings)
    return list(shared.kept(made))


def _stored(given: str | None) -> list[Explanation] | None:
    """The explanations of a file that didact wrote; None where something else is given."""
    path = Path(given or "")
    if path.suffix.lower() not in (".json", ".html") or not path.is_file():
        return None
    from didact.render import html, jsonio

    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix.lower() == ".html":
        return html.read_page(text)
    return jsonio.load(text) if jsonio.FORMAT in text[:200] else None


def _show(made: WordTable) -> None:
    """The strongest words of each class."""
    from rich.table import Table

    from didact.summary.page import interval

    for label in made.labels:
        rows = [row for row in made.rows if row.label == label]
        table = Table(title=f"explained class: {label}", title_justify="left", box=None, header_style="bold")
        for head, side in (("word", "left"), ("texts", "right"), ("mean", "right"), ("95 % interval", "left")):
            table.add_column(head, justify=side)  # type: ignore[arg-type] # rich's own names
        for row in rows[:SHOWN]:
            table.add_row(row.word, str(row.texts), f"{row.mean:+.3f}", interval(row))
        printing.show(table)
        if len(rows) > SHOWN:
            printing.line(f"and {len(rows) - SHOWN} more")
