"""``didact reproduce``: measured numbers beside the ones that a paper printed."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

from didact import disk
from didact.cli import options as shared
from didact.cli import printing, running
from didact.errors import ParameterError
from didact.types import Example

NAME = "reproduce"
HELP = "Show a paper's tables with the numbers measured here beside the printed ones, or measure them."
EXAMPLES = """examples:
  didact reproduce l2e --table 3
  didact reproduce l2e --figure 5 --results docs/results/l2e
  didact reproduce l2e --recipe recipes/l2e/quick.toml --out runs/l2e
  didact reproduce l2e --neutral $DIDACT_SHARED/weights/minilm-base --out runs/neutral
  didact reproduce simulability --table 5 --results runs/simulability
  didact reproduce simulability --recipe recipes/simulability/movies.toml --out runs/simulability
  didact reproduce aml --table 1
  didact reproduce aml --recipe recipes/aml/sst2.toml --out runs/aml --workers 8
  didact reproduce smat --table 1
  didact reproduce smat --recipe recipes/smat/quick.toml --out runs/smat

l2e: tables 1 to 9 and figures 3 to 7. simulability: tables 1 and 3 to 11. aml: tables 1 to 5. smat: tables 1, 2, 3,
5, 6, 7 and figure 5. All of them unless one is chosen. A recipe that was stopped resumes where it was when the same
command is given again.
"""

_KINDS = {"l2e": "distillation", "simulability": "simulability", "aml": "masking", "smat": "scaffolding"}
"""Paper -> the kind of recipes that measure its tables."""

_FIGURES = ("l2e", "smat")
"""Papers whose figures are shown too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument(
        "paper",
        choices=tuple(_KINDS),
        help="l2e: Situ et al. 2021, Learning to Explain; simulability: Pruthi et al. 2022, Evaluating Explanations; "
        "aml: Barkan et al. 2024, Attributive Masking Learning; smat: Fernandes et al. 2022, Learning to Scaffold",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--table", type=int, metavar="N", help="only this table")
    chosen.add_argument("--figure", type=int, metavar="N", help="only this figure")
    chosen.add_argument("--recipe", type=Path, metavar="FILE", help="measure what a recipe describes, into --out/NAME")
    chosen.add_argument(
        "--neutral",
        metavar="ENCODER",
        help='train the classifier that answers "neutral" without the human rationale, into --out',
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder of measured results (default: docs/results/PAPER or runs/PAPER)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="output folder of --recipe and --neutral (required by them)"
    )
    parser.add_argument("--device", help="cpu, cuda, ... (default: the GPU when there is one)")
    shared.add_execution(parser)
    shared.add_dry_run(parser)
    shared.add_store(parser)
    shared.add_remote_code(parser)


def run(options: argparse.Namespace) -> None:
    """Print the tables, or measure."""
    if (options.recipe or options.neutral) and options.out is None:
        raise ParameterError("--recipe and --neutral write into a folder; name one with --out")
    if options.neutral and options.paper != "l2e":
        raise ParameterError(f"--neutral belongs to l2e; {options.paper} has tables")
    if options.figure is not None and options.paper not in _FIGURES:
        raise ParameterError(f"--figure belongs to {' and '.join(_FIGURES)}; {options.paper} has tables")
    if options.recipe:
        _measure(options)
    elif options.neutral:
        _train(options.neutral, options.out, options.device)
    else:
        printing.line(_printed(options.paper, options.results, table=options.table, figure=options.figure).rstrip())


def _measure(options: argparse.Namespace) -> None:
    """Carry out a recipe into a folder of its own in --out, and print the paper's tables that it fills."""
    from didact.experiments.engine.kinds import read_recipe

    kind, recipe = read_recipe(options.recipe)
    if kind.card.name != _KINDS[options.paper]:
        wanted = _KINDS[options.paper]
        raise ParameterError(f"{options.recipe} is a recipe of {kind.card.name}; {options.paper} takes {wanted}")
    folder = options.out
    options.out = folder / recipe.name
    running.carry_out(recipe, options)
    if options.dry_run:
        return
    for number in recipe.to_dict()["tables"]:
        printing.line(_printed(options.paper, folder, table=number))


def _printed(paper: str, folder: Path | None, *, table: int | None = None, figure: int | None = None) -> str:
    """A table, a figure, or all of them, with what was measured in a folder."""
    from didact.experiments.papers import aml, l2e, simulability, smat

    module: ModuleType = {"l2e": l2e, "simulability": simulability, "aml": aml, "smat": smat}[paper]
    measured = module.read(folder)
    if figure is not None:
        return str(module.figure(figure, measured))
    return str(module.everything(measured) if table is None else module.table(table, measured))


def _train(encoder: str, out: Path, device: str | None) -> None:
    from didact.trained.neutral import NeutralConfig, train_neutral

    disk.check_writable(out / "config.json")
    train, validation = map(marked_reviews, ("l2e_train", "l2e_validation"))
    run = train_neutral(encoder, train, out, validation=validation, config=NeutralConfig(device=device))
    printing.line(f"accuracy {run.accuracy:.3f}, neutral without the rationale {run.neutral:.3f}")
    printing.line(out)


def marked_reviews(split: str) -> list[Example]:
    """The film reviews of a split in which people marked something; in a few they did not."""
    from didact.data.load import load_data

    return [example for example in load_data("movie_rationales", split=split).examples if example.rationale]
