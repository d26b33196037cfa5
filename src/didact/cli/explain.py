"""``didact explain``: which words drove a prediction."""

from __future__ import annotations

import argparse

from didact.cli import options as shared

NAME = "explain"
HELP = "Show which words drove a model's prediction."
EXAMPLES = """examples:
  didact explain "A warm, funny and wonderful film."
  didact explain "Not bad at all." --method kernel_shap --set evaluations=200 --target negative
  didact explain reviews.txt --method lime --format html --out reviews.html
  didact explain "A man sleeps." --pair "Nobody is awake." --model ./nli-model --inputs pair
  cat reviews.txt | didact explain - --format json
  didact explain reviews.txt --method kernel_shap --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_input(parser)
    shared.add_model(parser)
    shared.add_method(parser)
    parser.add_argument("--method", metavar="NAME", help="see 'didact list methods' (default: integrated_gradients)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the method; may be repeated"
    )
    shared.add_dry_run(parser)
    shared.add_output(parser)


def run(options: argparse.Namespace) -> None:
    """Explain and write."""
    examples = shared.read_input(options)
    settings = shared.parse_settings(options.set)
    from didact.api import default_method, estimates, explain, load_explainer

    model = shared.load(options)
    settings = {"level": options.level, "scale": options.scale} | settings
    explainer = load_explainer(options.method or default_method(model), **settings)
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, [explainer]), options)
        return
    shared.write(explain(examples, model, explainer, target=shared.parse_target(options.target)), options)
