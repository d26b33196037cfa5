"""``didact reproduce``: measured numbers beside the ones that a paper printed."""

from __future__ import annotations

import argparse
from pathlib import Path

from didact.errors import ParameterError

NAME = "reproduce"
HELP = "Show a paper's tables with the numbers measured here beside the printed ones, or measure them."
EXAMPLES = """examples:
  didact reproduce l2e --table 3
  didact reproduce l2e --figure 5 --results docs/results/l2e
  didact reproduce l2e --recipe recipes/l2e/quick.toml --out runs/l2e
  didact reproduce l2e --neutral $DIDACT_SHARED/weights/minilm-base --out runs/neutral
  didact reproduce simulability --table 5 --results runs/simulability
  didact reproduce simulability --recipe recipes/simulability/movies.toml --out runs/simulability

l2e: tables 1, 2, 3, 4, 5, 7, 8, 9 and figures 3 to 6. simulability: tables 1 and 3 to 11. All of them unless one is
chosen. A recipe that was stopped goes on where it was when the same command is given again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument(
        "paper",
        choices=("l2e", "simulability"),
        help="l2e: Situ et al. 2021, Learning to Explain; simulability: Pruthi et al. 2022, Evaluating Explanations",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--table", type=int, metavar="N", help="only this table")
    chosen.add_argument("--figure", type=int, metavar="N", help="only this figure")
    chosen.add_argument("--recipe", type=Path, metavar="FILE", help="measure what a study file says, into --out")
    chosen.add_argument(
        "--neutral",
        metavar="ENCODER",
        help='train the classifier that answers "neutral" without the human rationale, into --out',
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="measured numbers (default: docs/results/PAPER or runs/PAPER)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where --recipe and --neutral write (no default)")
    parser.add_argument("--device", help="cpu, cuda, ... (default: the GPU when there is one)")


def run(options: argparse.Namespace) -> None:
    """Print the tables, or measure."""
    if (options.recipe or options.neutral) and options.out is None:
        raise ParameterError("--recipe and --neutral write into a folder; name one with --out")
    if options.paper == "simulability":
        _simulability(options)
    elif options.recipe:
        _measure(options.recipe, options.out, options.device)
    elif options.neutral:
        _train(options.neutral, options.out, options.device)
    else:
        _show(options)


def _simulability(options: argparse.Namespace) -> None:
    from didact.experiments.papers import simulability

    if options.neutral or options.figure is not None:
        raise ParameterError("--neutral and --figure belong to l2e; simulability has tables")
    if options.recipe:
        from didact.cli import taught
        from didact.experiments.simulability.recipe import Recipe

        recipe = Recipe.from_toml(options.recipe)
        folder = options.out / recipe.name
        taught.carry_out(recipe, folder, None, options.device, f"didact reproduce simulability {options.recipe.name}")
        results = simulability.read(options.out)
        for number in recipe.tables:
            print(simulability.table(number, results))
        return
    results = simulability.read(options.results)
    chosen = (
        simulability.table(options.table, results) if options.table is not None else simulability.everything(results)
    )
    print(chosen, end="")


def _show(options: argparse.Namespace) -> None:
    from didact.experiments.papers import l2e

    results = l2e.read(options.results)
    if options.table is not None:
        print(l2e.table(options.table, results), end="")
    elif options.figure is not None:
        print(l2e.figure(options.figure, results), end="")
    else:
        print(l2e.everything(results), end="")


def _measure(recipe: Path, out: Path, device: str | None) -> None:
    from didact.experiments.distillation.recipe import Study
    from didact.experiments.distillation.steps import run
    from didact.experiments.papers import l2e
    from didact.progress import listening
    from didact.render.progress import ProgressBar
    from didact.store import records

    study = Study.from_toml(recipe)
    with listening(ProgressBar()):
        table = run(study, out / "work" / study.name, device=device)
    records.write(out / f"records-{study.name}.parquet", table)
    results = l2e.read(out)
    for number in study.tables:
        print(l2e.table(number, results))
    print(out / f"records-{study.name}.parquet")


def _train(encoder: str, out: Path, device: str | None) -> None:
    from didact.data.load import load_data
    from didact.trained.neutral import NeutralConfig, train_neutral

    train, validation = (
        load_data("movie_rationales", split=split).examples for split in ("l2e_train", "l2e_validation")
    )
    found = train_neutral(encoder, train, out, validation=validation, config=NeutralConfig(device=device))
    print(f"accuracy {found.accuracy:.3f}, neutral without the rationale {found.neutral:.3f}")
    print(out)
