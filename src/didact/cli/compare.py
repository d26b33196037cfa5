"""``didact compare``: several methods side by side."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from didact.cli import options as shared
from didact.errors import DidactError, ParameterError

if TYPE_CHECKING:
    from didact.api import Explanations, Skipped
    from didact.attribution.base import Attribution
    from didact.protocols import Model
    from didact.render.metric_table import MetricTable
    from didact.types import Example, Explanation

METRIC_FORMATS = ("terminal", "html", "json")
Settings = dict[str, dict[str, object]]
"""Method or metric -> its settings."""

NAME = "compare"
HELP = "Explain each text with several methods, side by side."
EXAMPLES = """examples:
  didact compare "A warm, funny and wonderful film."
  didact compare "Not bad at all." --methods lime,kernel_shap,occlusion
  didact compare "Not bad at all." --methods lime,shap,ig --set lime.samples=200 --metrics
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
    parser.add_argument(
        "--set",
        metavar="METHOD.SETTING=VALUE",
        action="append",
        default=[],
        help="a setting of a method, such as lime.samples=200, or of a metric; may be repeated",
    )
    parser.add_argument(
        "--metrics",
        metavar="A,B,...",
        nargs="?",
        const="default",
        help="also a table of methods x metrics for each text: names, 'all', or a few of each family if none is named",
    )
    shared.add_on_error(parser)
    shared.add_dry_run(parser)
    shared.add_output(parser)


def run(options: argparse.Namespace) -> None:
    """Explain with each method and write."""
    shared.settle_output(options)
    if options.metrics is not None and options.format not in METRIC_FORMATS:
        raise ParameterError(f"--metrics is written as {', '.join(METRIC_FORMATS)}, not {options.format}")
    examples = shared.read_input(options)
    from didact.api import estimates

    settings = shared.settings_by_owner(options.set)
    metrics = _metrics(options.metrics, settings)
    model = shared.load(options)
    chosen = [_methods(example, model, options, settings) for example in examples]
    _check_used(settings, chosen, metrics)
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, min(chosen, key=len)), options)
        return
    tables: list[MetricTable] = []
    made = shared.kept(_compared(examples, chosen, model, metrics, tables, options))
    shared.write(made, options, tables)


def _metrics(text: str | None, settings: Settings) -> list[dict[str, object]] | str | None:
    """What ``--metrics`` names, with settings."""
    if text in (None, "default", "all"):
        return text
    from didact.metrics.base import METRICS

    names = [METRICS.resolve(name.strip()) for name in text.split(",") if name.strip()]
    return [{"metric": name, **settings.get(name, {})} for name in names]


def _compared(
    examples: list[Example],
    chosen: list[list[Attribution]],
    model: Model,
    metrics: list[dict[str, object]] | str | None,
    tables: list[MetricTable],
    options: argparse.Namespace,
) -> Explanations:
    """All explanations of the first text, then of the next; an error names its text where there are several."""
    from didact.api import Explanations, about_text, compare

    target = shared.target(options, examples, model)
    made: list[Explanation] = []
    notes: list[Skipped] = []
    for number, (example, methods) in enumerate(zip(examples, chosen, strict=True)):
        try:
            own = compare(example, model, methods, metrics=metrics, target=target, on_error=options.on_error)
        except DidactError as problem:
            if len(examples) == 1:
                raise
            raise about_text(number, examples, problem) from problem
        made += own
        tables += [] if own.metrics is None else [own.metrics]
        notes += [dataclasses.replace(note, index=number) for note in own.skipped]
    return Explanations(made, notes)


def _methods(example: Example, model: Model, options: argparse.Namespace, settings: Settings) -> list[Attribution]:
    """The named methods, or all that can explain this example, with their settings."""
    from didact.api import list_methods, load_explainer
    from didact.attribution.base import ATTRIBUTIONS

    named = options.methods.split(",") if options.methods else [card.name for card in list_methods(model, example)]
    names = [ATTRIBUTIONS.resolve(name.strip()) for name in named]
    usual = {"level": options.level, "scale": options.scale}
    return [load_explainer(name, **{**usual, **settings.get(name, {})}) for name in names]


def _check_used(settings: Settings, chosen: list[list[Attribution]], metrics: object) -> None:
    """Refuse settings of what was not chosen."""
    used = {one.card.name for each in chosen for one in each}
    used |= {str(one["metric"]) for one in metrics} if isinstance(metrics, list) else set()
    shared.check_used(settings.keys() - used)
