"""``didact explain``: which words drove a prediction."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING

from didact.cli import options as shared
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.protocols import Explainer, Model
    from didact.types import Example

NAME = "explain"
HELP = "Show which words drove a model's prediction."
EXAMPLES = """examples:
  didact explain "A warm, funny and wonderful film."
  didact explain "Not bad at all." --method kernel_shap --set evaluations=200 --target negative
  didact explain reviews.txt --method lime --out reviews.html
  didact explain reviews.csv --text-column body --label-column stars --out reviews.json
  didact explain "A man sleeps." --pair "Nobody is awake." --model ./nli-model --inputs pair
  didact explain "The match was close." --model ./nli-model --inputs zero_shot --label-names sports,politics
  didact explain "Not bad at all." --model ./llm.gguf --prompt sentiment.toml --method occlusion
  didact explain --question "Who wrote it?" --passage "Ann wrote it in 1818." --model ./squad-model
  didact explain --image cat.jpg --model ./vit --method occlusion --out cat.png
  cat reviews.txt | didact explain - --format json
  didact explain reviews.txt --method kernel_shap --dry-run
  didact explain reviews.txt --on-error skip
  didact explain reviews.txt --explainer runs/l2e --fallback lime
  didact explain reviews.txt --explainer runs/probe --evaluations 32
  didact explain reviews.txt --explainer runs/aml --refine 10 --refine-by comprehensiveness
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
    group = parser.add_argument_group("learned explainer")
    group.add_argument(
        "--explainer", metavar="DIR", help="folder that 'didact train' wrote, or its Hub id, instead of --method"
    )
    group.add_argument(
        "--fallback",
        metavar="NAME",
        help="method for texts above the threshold of expected disagreement; --set then sets it. The estimate holds "
        "for texts like those of the training alone; for other kinds of text give --check",
    )
    group.add_argument(
        "--disagreement-above",
        type=float,
        metavar="X",
        help="expected disagreement with its reference above which --fallback is used (default: set in training)",
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="evaluate the model 16 times on each text to see whether the network's scores predict it, before "
        "--fallback is decided; notices texts of another kind too",
    )
    group.add_argument(
        "--evaluations",
        type=int,
        metavar="N",
        help="correct the network's scores by N evaluations of the model on each text; gives standard errors too",
    )
    _add_refinement(group)
    shared.add_on_error(parser)
    shared.add_dry_run(parser)
    shared.add_output(parser)


def _add_refinement(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--refine", type=int, metavar="STEPS", help="fine-tune the explainer for so many steps on each text"
    )
    group.add_argument("--refine-seconds", type=float, metavar="S", help="time limit of refinement per text")
    group.add_argument(
        "--refine-by",
        metavar="METRIC",
        help="keep the best of a text's maps by this metric (default: by the loss)",
    )
    group.add_argument(
        "--refine-set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a further setting of refinement: learning_rate, rows, rank, weight_decay, seed; may be repeated",
    )


def run(options: argparse.Namespace) -> None:
    """Explain and write."""
    shared.settle_output(options)
    examples = shared.read_input(options)
    settings = shared.parse_settings(options.set)
    from didact.api import default_method, estimates, load_explainer

    model = shared.load(options)
    settings = {"level": options.level, "scale": options.scale} | settings
    if options.explainer is not None:
        _explain_learned(examples, model, options, settings)
        return
    revised = (options.fallback, options.disagreement_above, options.check or None, options.evaluations)
    if any(value is not None for value in revised) or _refines(options):
        raise ParameterError(
            "--fallback, --disagreement-above, --check, --evaluations and --refine go with --explainer DIR; settings "
            "of a method are given by --set"
        )
    explainer = load_explainer(options.method or default_method(model), **settings)
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, [explainer]), options)
        return
    _write(examples, model, explainer, options)


def _explain_learned(
    examples: list[Example], model: Model, options: argparse.Namespace, settings: dict[str, object]
) -> None:
    """Explain with a trained network, and texts with a high expected disagreement with a method, where one is named."""
    if options.method is not None:
        raise ParameterError(f"give --method {options.method} or --explainer {options.explainer}, not both")
    if options.set and options.fallback is None:
        raise ParameterError("--set sets a method, and a trained network has no settings; name a --fallback")
    ways = {"--fallback": options.fallback, "--evaluations": options.evaluations, "--refine": _refines(options) or None}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise ParameterError(f"give {' or '.join(given)}, not both")
    from didact.api import estimates, load_explainer
    from didact.experimenting import refined
    from didact.trained.budgeted import BudgetedExplainer
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.fallback import FallbackExplainer
    from didact.trained.held_out import FidelityWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FidelityWarning)  # each explanation shows it
        learned = LearnedExplainer.from_pretrained(options.explainer, model=model, device=options.device)
    explainer: Explainer = learned
    if options.fallback is not None:
        slow = load_explainer(options.fallback, **settings)
        explainer = FallbackExplainer(learned, slow, above=options.disagreement_above, check=options.check)
    elif options.evaluations is not None:
        explainer = BudgetedExplainer(learned, options.evaluations)
    elif _refines(options):
        explainer = refined(learned, options.refine_by, **_refinement(options))
    if options.dry_run:
        shared.write_estimates(estimates(examples, model, [explainer]), options)
        return
    _write(examples, model, explainer, options)


def _refines(options: argparse.Namespace) -> bool:
    given = (options.refine, options.refine_seconds, options.refine_by, options.refine_set or None)
    return any(value is not None for value in given)


def _refinement(options: argparse.Namespace) -> dict[str, object]:
    """Settings of ``RefineConfig``; without a number of steps, seconds alone end it where they are given."""
    settings = shared.parse_settings(options.refine_set)
    if options.refine is not None or options.refine_seconds is not None:
        settings |= {"steps": options.refine, "seconds": options.refine_seconds}
    return settings


def _write(examples: list[Example], model: Model, explainer: Explainer, options: argparse.Namespace) -> None:
    from didact.api import explain

    target = shared.target(options, examples, model)
    shared.write(shared.kept(explain(examples, model, explainer, target=target, on_error=options.on_error)), options)
