"""``didact compare``: several methods side by side."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from didact.cli import options as shared
from didact.errors import DidactError

if TYPE_CHECKING:
    from didact.api import Explanations, Skipped
    from didact.attribution.base import Attribution
    from didact.protocols import Model
    from didact.types import Example, Explanation

NAME = "compare"
HELP = "Explain each text with several methods, side by side."
EXAMPLES = """examples:
  didact compare "A warm, funny and wonderful film."
  didact compare "Not bad at all." --methods lime,kernel_shap,occlusion
  didact compare reviews.txt --format html --out compared.html
  didact compare --image cat.jpg --model ./vit --out cat.html
  didact compare "Not bad at all." --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_input(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--methods", metavar="A,B,...", help="default: every method that the model and the text allow")
    shared.add_on_error(parser)
    shared.add_dry_run(parser)
    shared.add_output(parser)


def run(options: argparse.Namespace) -> None:
    """Explain with each method and write."""
    shared.settle_output(options)
    examples = shared.read_input(options)
    from didact.api import estimates

    model = shared.load(options)
    chosen = [_methods(example, model, options) for example in examples]
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, min(chosen, key=len)), options)
        return
    shared.write(shared.kept(_compared(examples, chosen, model, options)), options)


def _compared(
    examples: list[Example], chosen: list[list[Attribution]], model: Model, options: argparse.Namespace
) -> Explanations:
    """All explanations of the first text, then of the next; an error names its text where there are several."""
    from didact.api import Explanations, about_text, compare

    target = shared.target(options, examples, model)
    made: list[Explanation] = []
    notes: list[Skipped] = []
    for number, (example, methods) in enumerate(zip(examples, chosen, strict=True)):
        try:
            own = compare(example, model, methods, target=target, on_error=options.on_error)
        except DidactError as problem:
            if len(examples) == 1:
                raise
            raise about_text(number, examples, problem) from problem
        made += own
        notes += [dataclasses.replace(note, index=number) for note in own.skipped]
    return Explanations(made, notes)


def _methods(example: Example, model: Model, options: argparse.Namespace) -> list[Attribution]:
    """The named methods, or all that can explain this example."""
    from didact.api import list_methods, load_explainer

    named = options.methods.split(",") if options.methods else [card.name for card in list_methods(model, example)]
    return [load_explainer(name.strip(), level=options.level, scale=options.scale) for name in named]
