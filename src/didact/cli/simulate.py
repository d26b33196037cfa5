"""``didact simulate``: grade explainers by how well they teach students to imitate the model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from didact.cli import columns, models, running
from didact.cli import options as shared
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.experiments.simulability.recipe import SimulabilityRecipe

Number = TypeVar("Number", int, float)

NAME = "simulate"
HELP = "Evaluate explainers by simulability: how much better do students imitate the model when trained with them?"
EXAMPLES = """examples:
  didact simulate
  didact simulate --model ./my-model --data reviews.jsonl --explainers lime,attention --students ridge --sizes 500
  didact simulate --data imdb --explainers lime,attention --students transformer,bilstm_attention \\
      --set transformer.model=./minilm --sizes 500,2000 --out runs/imdb --truncate
  didact simulate --channels attention --weight attention=5 --share 0.2 --precision 0.01
  didact simulate --explainers integrated_gradients --bits 1,2,4 --students ridge

Students are trained without hints, with explanations as hints, or with controls that explain nothing; they are tested
without hints. Explanations and students are kept in OUT/parts: a run that was stopped resumes when the same command
is given again, and another explainer costs only what is new. See 'didact list students' and 'didact list channels'.
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
        help="training texts: a file, a folder, a preset ('didact list data') or a Hub id (default: synthetic reviews)",
    )
    columns.add_columns(group)
    group.add_argument("--split", help="which split (default: the students' part of a preset that has one)")
    group.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="maximum number of texts to draw training texts from (default: twice the largest size)",
    )
    group.add_argument("--test", metavar="DATA", help="test texts (default: held out from --data)")
    group.add_argument("--test-split", metavar="SPLIT", help="split of the test texts")
    group.add_argument("--test-limit", type=int, metavar="N", help="maximum number of test texts")
    _add_teaching(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--name", default="simulation", help="name of the run (default: simulation)")
    group.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME)")
    shared.add_execution(parser)
    shared.add_store(parser)


def _add_teaching(parser: argparse.ArgumentParser) -> None:
    """What students are taught, and how many of them."""
    group = parser.add_argument_group("students and explanations")
    group.add_argument(
        "--explainers", metavar="A,B", help="methods to compare (default: occlusion,gradient_x_input,attention)"
    )
    group.add_argument(
        "--students", metavar="A,B", help="kinds of students (default: ridge and a small bilstm_attention)"
    )
    group.add_argument(
        "--channels", metavar="A,B", help="how explanations enter training (default: all that the students support)"
    )
    group.add_argument("--sizes", default="100", metavar="A,B", help="training texts per student (default: 100)")
    group.add_argument(
        "--subsets",
        type=int,
        default=5,
        metavar="N",
        help="students per kind and size, each with its own training texts (default: 5)",
    )
    _add_hints(group)
    group.add_argument(
        "--precision",
        type=float,
        metavar="X",
        help="add students until every 95 %% interval of a gain is ± X or narrower (0.01: one point)",
    )
    group.add_argument(
        "--set",
        metavar="NAME.SETTING=VALUE",
        action="append",
        default=[],
        help="a setting of an explainer, a student or a channel; may be repeated",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of training texts, students and controls (default: 0)")


def _add_hints(group: argparse._ArgumentGroup) -> None:
    """How much of an explanation students see, and how much it weighs."""
    group.add_argument(
        "--share", default="0.1", metavar="A,B", help="fraction of the words that a hint marks (default: 0.1)"
    )
    group.add_argument(
        "--bits", metavar="A,B", help="instead of --share: the scores of all words, quantised to this many bits"
    )
    group.add_argument(
        "--no-controls", action="store_true", help="leave out the controls (random, trivial, shuffled hints)"
    )
    group.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="CHANNEL=X",
        help="weight of a channel in the loss (default: 1)",
    )


def run(options: argparse.Namespace) -> None:
    """Make the recipe, run it and report."""
    running.carry_out(_recipe(options), options)


def _recipe(options: argparse.Namespace) -> SimulabilityRecipe:
    from didact.experiments.simulability.recipe import SimulabilityRecipe

    settings = shared.parse_owned(options.set, "transformer.epochs=3")
    for channel, weight in shared.parse_settings(options.weight).items():
        settings.setdefault(channel, {})["weight"] = weight
    sizes = _numbers(options.sizes, "--sizes", int)
    data, test = _sources(options, sizes)
    recipe = {
        "name": options.name,
        "model": models.table(options),
        "data": _given(data),
        "test": _given(test) or None,
        "explainers": _chosen(options.explainers, "method", settings),
        "students": _chosen(options.students, "student", settings),
        "channels": _chosen(options.channels, "channel", settings),
        "hints": _formats(options),
        "sizes": sizes,
        "subsets": options.subsets,
        "precision": options.precision,
        "seed": options.seed,
        "controls": [] if options.no_controls else None,
    }
    if settings:
        raise ParameterError(
            f"--set and --weight name {', '.join(sorted(settings))}, which --explainers, --students and --channels do "
            "not list"
        )
    return SimulabilityRecipe.from_dict(_given(recipe), "command line")


def _sources(options: argparse.Namespace, sizes: list[int]) -> tuple[dict[str, object], dict[str, object]]:
    """Where training texts and test texts come from."""
    from didact.experiments.simulability.prepare import USUAL

    split = options.split
    test: dict[str, object] = {"source": options.test, "split": options.test_split, "limit": options.test_limit}
    if split is None and not any(test.values()) and options.data in USUAL:
        split, test["split"] = USUAL[options.data]
    if any(test.values()) and test["source"] is None:
        test["source"] = options.data
        test["seed"] = 1 if options.data == "corpus" else None
    fields = columns.chosen(options) or None
    if any(test.values()):
        test["fields"] = fields
    return {"source": options.data, "split": split, "limit": options.limit or 2 * max(sizes), "fields": fields}, test


def _given(options: dict[str, object]) -> dict[str, object]:
    """Without what was left out."""
    return {name: value for name, value in options.items() if value is not None}


def _chosen(text: str | None, key: str, settings: dict[str, dict[str, object]]) -> list[dict[str, object]] | None:
    """Names with their settings; None where none are given."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [{key: name, **settings.pop(name, {})} for name in names]


def _formats(options: argparse.Namespace) -> list[dict[str, object]]:
    if options.bits is not None:
        return [{"kind": "dense", "bits": bits} for bits in _numbers(options.bits, "--bits", int)]
    return [{"share": share} for share in _numbers(options.share, "--share", float)]


def _numbers(text: str, option: str, kind: type[Number]) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"{option} takes numbers with commas between them, got {text!r}") from None
