"""``didact convert``: bring folders of an older version to the present format."""

from __future__ import annotations

import argparse
from pathlib import Path

from didact.cli import printing

NAME = "convert"
HELP = "Convert runs, explanations and learned explainers that an older version wrote."
EXAMPLES = """examples:
  didact convert runs/simulation                    (in place)
  didact convert old-results --out docs/results     (all runs in a folder)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a run, a folder of runs, or a learned explainer")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: in place)")


def run(options: argparse.Namespace) -> None:
    """Convert, and print what was written."""
    from didact.experiments.conversion import convert

    for path in convert(options.folder, options.out):
        printing.line(path)
