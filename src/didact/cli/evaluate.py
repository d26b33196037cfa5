"""``didact evaluate``: grade explainers on a model and data, in one command."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from didact.cli import columns, models, printing, running
from didact.cli import options as shared
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.experiments.engine.steps import RunOptions
    from didact.experiments.grading.budget import Planned
    from didact.experiments.grading.recipe import GradingRecipe
    from didact.registry import Registry

NAME = "evaluate"
HELP = "Evaluate methods on a model and data by metrics, and write a report."
EXAMPLES = """examples:
  didact evaluate
  didact evaluate --model ./my-model --data reviews.jsonl --limit 200 --out runs/mine
  didact evaluate --model ./my-model --data reviews.csv --text-column body --label-column stars
  didact evaluate --data sst2 --split validation --methods lime,kernel_shap,integrated_gradients
  didact evaluate --data movie_rationales --split test --metrics rationale_auc,comprehensiveness --truncate
  didact evaluate --methods lime --set lime.samples=200 --seeds 0,1,2 --metrics default
  didact evaluate --methods all --minutes 0 --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    shared.add_model(parser)
    shared.add_limits(parser)
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data",
        default="corpus",
        metavar="DATA",
        help="a file, a folder with a file per split, a preset ('didact list data') or a Hub id "
        "(default: synthetic reviews with known evidence)",
    )
    columns.add_columns(group)
    group.add_argument("--split", help="which split (default: test, validation or the only one)")
    group.add_argument("--limit", type=int, default=50, metavar="N", help="maximum number of texts (default: 50)")
    _add_choices(parser.add_argument_group("methods and metrics"))
    shared.add_dry_run(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--name", default="evaluation", help="name of the run (default: evaluation)")
    group.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME)")
    shared.add_execution(parser)
    shared.add_store(parser)


def _add_choices(group: argparse._ArgumentGroup) -> None:
    """What is evaluated, by what, and for how long."""
    group.add_argument(
        "--methods",
        default="default",
        metavar="A,B",
        help="methods to evaluate: names or aliases, or 'all' that the model allows (default: a few of each family)",
    )
    group.add_argument(
        "--metrics", default="default", metavar="A,B", help="names or aliases, or 'all' (default: a few of each family)"
    )
    group.add_argument(
        "--set",
        metavar="NAME.SETTING=VALUE",
        action="append",
        default=[],
        help="a setting of a method or a metric; may be repeated",
    )
    group.add_argument("--seeds", default="0", metavar="A,B", help="seeds of seeded methods (default: 0)")
    group.add_argument("--no-nulls", action="store_true", help="leave out the shuffled copy of each method, a control")
    group.add_argument(
        "--minutes",
        type=float,
        default=5.0,
        metavar="M",
        help="time budget: evaluates as many texts as fit; the cost is printed before the start; 0 for no limit "
        "(default: 5)",
    )


def run(options: argparse.Namespace) -> None:
    """Make the recipe, run it and report."""
    recipe = _recipe(options)
    if not math.isfinite(options.minutes) or options.minutes < 0:
        raise ParameterError(f"--minutes must be at least 0, got {options.minutes}")
    if options.dry_run:
        running.carry_out(recipe, options)
        return
    from didact.experiments.grading.job import GradingJob

    chosen = running.run_options(recipe, options)
    planned = _planned(recipe, chosen, options.minutes or None)
    for sentence in planned.sentences:
        printing.message(f"didact: {sentence}")
    running.run_and_report(planned.experiment.recipe, chosen, GradingJob(planned.experiment, chosen))


def _planned(recipe: GradingRecipe, chosen: RunOptions, minutes: float | None) -> Planned:
    """What the recipe names, loaded, on as many texts as fit into the budget."""
    from didact.data.load import load_data
    from didact.experiments.grading.budget import plan
    from didact.experiments.grading.prepare import prepare
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    with listening(ProgressBar()):
        experiment = prepare(recipe, trust_remote_code=chosen.trust_remote_code)
        return plan(experiment, minutes, chosen.out, lambda texts: load_data(**{**recipe.data, "limit": texts}))


def _recipe(options: argparse.Namespace) -> GradingRecipe:
    from didact.attribution.base import ATTRIBUTIONS
    from didact.experiments.grading.recipe import GradingRecipe
    from didact.metrics.base import METRICS

    settings = shared.settings_by_owner(options.set)
    fields = columns.chosen(options) or None
    data = {"source": options.data, "split": options.split, "limit": options.limit, "fields": fields}
    recipe: dict[str, object] = {
        "name": options.name,
        "model": models.table(options),
        "data": {name: value for name, value in data.items() if value is not None},
        "explainers": _chosen(options.methods, ATTRIBUTIONS, settings),
        "metrics": _chosen(options.metrics, METRICS, settings),
        "seeds": _seeds(options.seeds),
    }
    shared.check_used(settings)
    if options.no_nulls:
        recipe["nulls"] = []
    return GradingRecipe.from_dict(recipe, "command line")


def _chosen(
    text: str, registry: Registry[Any, Any], settings: dict[str, dict[str, object]]
) -> str | list[dict[str, object]]:
    """What an option lists, with the settings of each, which are taken out of ``settings``."""
    if text in ("all", "default"):
        return text
    names = [registry.resolve(name.strip()) for name in text.split(",") if name.strip()]
    return [{registry.kind: name, **settings.pop(name, {})} for name in names]


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"--seeds takes numbers such as 0,1,2; got {text!r}") from None
