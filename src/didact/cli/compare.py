"""``didact compare``: several methods side by side."""

from __future__ import annotations

import argparse

from didact.cli import options as shared

NAME = "compare"
HELP = "Explain each text with several methods, side by side."
EXAMPLES = """examples:
  didact compare "A warm, funny and wonderful film."
  didact compare "Not bad at all." --methods lime,kernel_shap,occlusion
  didact compare reviews.txt --format html --out compared.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_input(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--methods", metavar="A,B,...", help="default: every method that the model allows")
    shared.add_output(parser)


def run(options: argparse.Namespace) -> None:
    """Explain with each method and write."""
    examples = shared.read_input(options)
    from didact.api import compare, list_methods, load_explainer

    model = shared.load(options)
    names = options.methods.split(",") if options.methods else [card.name for card in list_methods(model)]
    methods = [load_explainer(name.strip(), level=options.level, scale=options.scale) for name in names]
    target = shared.parse_target(options.target)
    shared.write([found for e in examples for found in compare(e, model, methods, target=target)], options)
