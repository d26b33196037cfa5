"""Recipes carried out from the command line: where, for how long, and what is printed at the end."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from didact import disk
from didact.cli import printing
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.experiments.engine.kinds import ReportOptions
    from didact.experiments.engine.steps import RecipeJob, RunOptions
    from didact.experiments.engine.toml import TomlRecipe


def run_options(recipe: TomlRecipe, options: argparse.Namespace) -> RunOptions:
    """Where and how a command line wants a recipe carried out; places that cannot be written are refused.

    Args:
        recipe: of any kind.
        options: with ``out``, ``store``, ``device``, ``command`` for the manifest, and what ``add_execution`` and
            ``add_remote_code`` add.
    """
    import time

    from didact.experiments.engine.steps import RunOptions

    if options.workers < 1:
        raise ParameterError(f"--workers must be at least 1, got {options.workers}")
    folder = options.out or Path("runs") / recipe.name
    for place in (folder, options.store):
        if place is not None:
            disk.check_writable(place / "manifest.json")
    deadline = None if options.seconds is None else time.time() + options.seconds
    permitted = {"overwrite": options.overwrite, "trust_remote_code": options.trust_remote_code}
    places = (folder, options.store, options.device)
    return RunOptions(*places, options.workers, deadline, options.command, **permitted)


def carry_out(recipe: TomlRecipe, options: argparse.Namespace) -> None:
    """Run a recipe, or print what it would take; arguments as for ``run_options``."""
    from didact.experiments.engine.kinds import RECIPES
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    chosen = run_options(recipe, options)
    if not getattr(options, "dry_run", False):
        run_and_report(recipe, chosen)
        return
    with listening(ProgressBar()):
        estimates = RECIPES.get(recipe.kind)().estimates(recipe.on_device(options.device), chosen)
    printing.document(printing.estimates_table(estimates))


def run_and_report(recipe: TomlRecipe, chosen: RunOptions, job: RecipeJob | None = None) -> None:
    """Run a recipe, show and write its report, and print the files written; the page's path comes last."""
    from didact.experiments.engine.kinds import ReportOptions
    from didact.experiments.engine.run import run_recipe
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    with listening(ProgressBar()):
        result = run_recipe(recipe, chosen, job)
    if not result.complete:
        printing.message(f"didact: the time limit is reached; the same command resumes in {chosen.out}")
    if (chosen.out / "records.parquet").is_file():
        show_report(chosen.out, ReportOptions())


def show_report(folder: Path, report: ReportOptions) -> None:
    """Write the report of a run, then print its tables and the files written: a closed pipe keeps no file back."""
    from didact.experiments.engine.kinds import kind_of

    with printing.console() as console:
        written = kind_of(folder).report(folder, report, console)
    for path in written:
        printing.line(path)
