"""``didact record``: one decision on one page."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from didact import disk
from didact.cli import columns, printing
from didact.cli import options as shared
from didact.errors import InputError, ParameterError

NAME = "record"
HELP = "Write the record of one decision: prediction, reasons, what would flip it, how far to trust it."
EXAMPLES = """examples:
  didact record "A warm, funny and wonderful film."
  didact record "Not bad at all." --model ./my-model --method lime --out decision.html
  didact record "Not bad at all." --data reviews.jsonl     (measures the method on 30 of these texts)
  didact record "A man sleeps." --pair "Nobody is awake." --model ./nli-model --inputs pair --budget 1000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("input", metavar="TEXT|-|FILE", help="a text, '-' for standard input, or a file with one text")
    parser.add_argument("--pair", metavar="TEXT", help="the second text, for a model of pairs")
    columns.add_columns(parser)
    shared.add_limits(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--method", metavar="NAME", help="see 'didact list methods' (default: integrated_gradients)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the method; may be repeated"
    )
    parser.add_argument(
        "--data", metavar="DATA", help="texts to measure the method on, 30 at most (default: the given text alone)"
    )
    parser.add_argument("--budget", type=int, metavar="N", help="evaluations of the flip search (default: 300)")
    parser.add_argument(
        "--out", type=Path, default=Path("record.html"), metavar="FILE", help=".html, with .json beside it, or .json"
    )
    parser.set_defaults(question=None, passage=None, image=[], answer=None)


def run(options: argparse.Namespace) -> None:
    """Make the record, print its findings and the files written."""
    if options.out.suffix.lower() not in (".html", ".htm", ".json"):
        raise ParameterError(f"--out {options.out}: a decision record is written as .html or .json")
    if options.budget is not None and options.budget < 1:
        raise ParameterError(f"--budget must be at least 1 evaluation, got {options.budget}")
    disk.check_writable(options.out)
    examples = shared.read_input(options)
    if len(examples) != 1:
        raise InputError(f"a decision record is about one text, and {len(examples)} were given; give them one by one")
    settings = {"level": options.level, "scale": options.scale} | shared.parse_settings(options.set)
    from didact.counterfactuals.flip import BUDGET
    from didact.decisions.page import flip_sentence
    from didact.reporting import record

    model, budget = shared.load(options), options.budget or BUDGET
    made = record(examples[0], model, options.method, data=options.data, budget=budget, **settings)
    made = dataclasses.replace(made, command=options.command)
    printing.show_explanations([made.explanation])
    printing.line(flip_sentence(made.flip))
    printing.line(f"{made.trust.verdict}.")
    for path in made.save(options.out):
        printing.line(path)
