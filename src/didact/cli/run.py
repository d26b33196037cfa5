"""``didact run``: carry out a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from didact.cli import options as shared
from didact.errors import FormatError
from didact.registry import unknown

NAME = "run"
HELP = "Grade explainers, by metrics or by teaching, as a recipe file says; go on where an earlier run of it stopped."
EXAMPLES = """examples:
  didact run recipes/grading/sst2.toml
  didact run recipes/simulability/quick.toml
  didact run my.toml --out runs/mine --device cuda
  didact run my.toml --store runs/parts     (parts shared between runs: nothing is computed twice)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="a .toml file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME)")
    parser.add_argument("--device", help="cpu, cuda, ... instead of the recipe's")
    shared.add_store(parser)


def run(options: argparse.Namespace) -> None:
    """Run the recipe and report."""
    import dataclasses

    from didact.experiments.recipe import GRADING, Recipe, read_toml
    from didact.experiments.simulability import recipe as simulating

    command = f"didact run {options.recipe.name}"
    kind = read_toml(options.recipe).get("kind", GRADING)
    if kind == simulating.KIND:
        from didact.cli import taught

        given = simulating.Recipe.from_toml(options.recipe)
        if options.device is not None:
            given = dataclasses.replace(given, model={**given.model, "device": options.device})
        taught.carry_out(given, options.out, options.store, options.device, command)
        return
    if kind != GRADING:
        raise FormatError(f"{options.recipe}: {unknown('kind', kind, [GRADING, simulating.KIND])}")
    recipe = Recipe.from_toml(options.recipe)
    if options.device is not None:
        recipe = dataclasses.replace(recipe, model={**recipe.model, "device": options.device})
    shared.carry_out(recipe, options.out, options.store, command)
