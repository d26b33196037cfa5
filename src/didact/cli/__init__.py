"""The ``didact`` command. One file per command; heavy imports happen inside the commands."""

from __future__ import annotations

import argparse
import gc
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from didact.cli import (
    compare,
    convert,
    demo,
    evaluate,
    explain,
    listing,
    record,
    report,
    reproduce,
    run,
    serve,
    simulate,
    study,
    train,
    words,
)
from didact.cli.failures import exit_code
from didact.cli.options import CommandParser, reading_limits
from didact.cli.printing import open_streams, shown_warnings

COMMANDS = (
    explain,
    compare,
    record,
    words,
    evaluate,
    simulate,
    study,
    train,
    run,
    report,
    reproduce,
    convert,
    listing,
    serve,
    demo,
)
EPILOG = """examples:
  didact explain "A warm, funny and wonderful film."
  didact compare "Not bad at all." --methods lime,kernel_shap,integrated_gradients
  didact record "Not bad at all." --out decision.html
  didact words reviews.jsonl --limit 200 --out words.html
  didact evaluate --data reviews.jsonl --methods lime,kernel_shap,integrated_gradients
  didact simulate --data reviews.jsonl --explainers lime,attention --students ridge
  didact train l2e --data reviews.jsonl --reference lime --out runs/my-explainer
  didact study create runs/evaluation --explainers lime,kernel_shap --items 60
  didact list methods
  didact demo
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: 0 when all went well, 2 after one line on a user's mistake, 1 with a report file on a defect."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = shlex.join(["didact", *given])
    options = None
    open_streams()
    try:
        options = parser().parse_args(given, argparse.Namespace(command=command))
        gc.set_threshold(200_000)  # a tenth of the start is the collector walking through half-imported libraries
        with reading_limits(options), shown_warnings():
            options.run(options)
    except (Exception, KeyboardInterrupt) as problem:
        return exit_code(problem, options, command)
    return 0


class _Command(CommandParser):
    """A command whose options are added when it is the one that was given, so that the others cost nothing."""

    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def] # as argparse has it
        """Add the options, then parse."""
        if self.add_arguments is not None:
            add, self.add_arguments = self.add_arguments, None
            add(self)
        return super().parse_known_args(args, namespace)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = CommandParser(
        prog="didact",
        description="Explain the predictions of transformer models, grade explanations, and train explainers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"didact {version('didact')}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Command)
    for module in COMMANDS:
        command = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.HELP,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments = module.add_arguments
        command.set_defaults(run=module.run)
    return whole
