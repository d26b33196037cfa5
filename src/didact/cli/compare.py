"""``didact compare``: several methods side by side."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from didact.cli import options as shared

if TYPE_CHECKING:
    from didact.attribution.base import Attribution
    from didact.protocols import Model
    from didact.types import Example

NAME = "compare"
HELP = "Explain each text with several methods, side by side."
EXAMPLES = """examples:
  didact compare "A warm, funny and wonderful film."
  didact compare "Not bad at all." --methods lime,kernel_shap,occlusion
  didact compare reviews.txt --format html --out compared.html
  didact compare "Not bad at all." --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_input(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--methods", metavar="A,B,...", help="default: every method that the model and the text allow")
    shared.add_dry_run(parser)
    shared.add_output(parser)


def run(options: argparse.Namespace) -> None:
    """Explain with each method and write."""
    shared.settle_output(options)
    examples = shared.read_input(options)
    from didact.api import compare, estimates

    model = shared.load(options)
    chosen = [_methods(example, model, options) for example in examples]
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, min(chosen, key=len)), options)
        return
    target = shared.parse_target(options.target)
    pairs = zip(examples, chosen, strict=True)
    explanations = [made for e, methods in pairs for made in compare(e, model, methods, target=target)]
    shared.write(explanations, options)


def _methods(example: Example, model: Model, options: argparse.Namespace) -> list[Attribution]:
    """The named methods, or all that can explain this example."""
    from didact.api import list_methods, load_explainer

    named = options.methods.split(",") if options.methods else [card.name for card in list_methods(model, example)]
    return [load_explainer(name.strip(), level=options.level, scale=options.scale) for name in named]
