"""``didact run``: carry out a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from didact.cli import options as shared
from didact.cli import running

NAME = "run"
HELP = "Run the experiment that a recipe file describes; an earlier run of it is resumed where it stopped."
EXAMPLES = """examples:
  didact run recipes/grading/sst2.toml
  didact run recipes/simulability/quick.toml
  didact run recipes/l2e/sst2.toml --device cuda --workers 15 --seconds 600
  didact run my.toml --out runs/mine --set subsets=6 --set data.limit=500
  didact run my.toml --store runs/parts     (parts shared between runs: nothing is computed twice)

The kind of a recipe is grading (the default), simulability, distillation, masking, scaffolding, or one of another
package; see 'didact list recipes'.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="a .toml file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/NAME)")
    parser.add_argument("--device", help="cpu, cuda, ... instead of the recipe's")
    parser.add_argument(
        "--set",
        metavar="ENTRY=JSON",
        action="append",
        default=[],
        help="an entry of the recipe, or TABLE.ENTRY, instead of the file's; may be repeated",
    )
    shared.add_execution(parser)
    shared.add_dry_run(parser)
    shared.add_limits(parser)
    shared.add_store(parser)
    shared.add_remote_code(parser)


def run(options: argparse.Namespace) -> None:
    """Run the recipe and report."""
    from didact.experiments.engine.kinds import read_recipe

    _, recipe = read_recipe(options.recipe, shared.parse_settings(options.set))
    running.carry_out(recipe, options)
