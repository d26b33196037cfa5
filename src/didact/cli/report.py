"""``didact report``: the results of a run as tables, charts and plain sentences."""

from __future__ import annotations

import argparse
from pathlib import Path

from didact.cli import running
from didact.errors import ParameterError

NAME = "report"
HELP = "Report on a finished run: which explanations to trust."
EXAMPLES = """examples:
  didact report runs/sst2
  didact report runs/sst2 --format html,csv --examples 6
  didact report runs/movies --metric rationale_auc
  didact report runs/simulation
"""
FORMATS = ("md", "tex", "csv", "json", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a finished run")
    parser.add_argument(
        "--format", metavar="A,B,...", default=",".join(FORMATS), help=f"default: all of {','.join(FORMATS)}"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="metric of the quality-against-cost chart (default: comprehensiveness)"
    )
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="texts shown side by side (default: 3)")


def run(options: argparse.Namespace) -> None:
    """Write the report into the folder, print its table, and the page's path last."""
    formats = [form.strip() for form in options.format.split(",") if form.strip()]
    for form in formats:
        if form not in FORMATS:
            raise ParameterError(f"--format takes {', '.join(FORMATS)}, got {form!r}")
    if options.examples < 0:
        raise ParameterError(f"--examples must be at least 0, got {options.examples}")
    from didact.experiments.engine.kinds import ReportOptions

    chosen = None if options.format == ",".join(FORMATS) else tuple(formats)
    report = ReportOptions(chosen, options.metric, options.examples)
    running.show_report(options.folder, report)
