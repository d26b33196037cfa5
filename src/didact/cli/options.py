"""Options and outputs that several commands share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from didact.data.files import SUFFIXES, read_examples, read_lines
from didact.errors import InputError, ParameterError
from didact.types import SCALES, Example

if TYPE_CHECKING:
    from didact.api import Explanations
    from didact.experiments.engine.toml import TomlRecipe
    from didact.protocols import Model
    from didact.types import Estimate, Explanation

ENDINGS = {"terminal": "txt", "json": "json", "html": "html", "latex": "tex"}


def add_input(parser: argparse.ArgumentParser) -> None:
    """What is explained."""
    parser.add_argument("input", metavar="TEXT|-|FILE", help="a text, '-' for standard input, or a .txt/.jsonl file")
    parser.add_argument("--pair", metavar="TEXT", help="the second text, for a model of pairs")
    parser.add_argument("--target", metavar="LABEL", help="label or index to explain (default: the predicted class)")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, and how it reads."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        default="default",
        help="Hub id or directory of a text classifier (default: the embedded sentiment classifier)",
    )
    group.add_argument("--inputs", choices=("text", "pair"), help="what the model reads (default: guessed from labels)")
    group.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: the GPU when there is one)")
    group.add_argument("--max-length", type=int, metavar="N", help="length limit in tokens, below the model's own")
    group.add_argument("--truncate", action="store_true", help="explain what fits, even when most of a text does not")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Whether a model may run code of its own; for commands that load the model they are given, not for recipes."""
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run code that comes with the model, if you know it"
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """Settings that all methods have."""
    group = parser.add_argument_group("method")
    group.add_argument("--level", help="what gets a score: word or token (default: the model's first level, word)")
    group.add_argument("--scale", choices=SCALES, help="which number is explained (default: logit, if there is one)")


def add_on_error(parser: argparse.ArgumentParser) -> None:
    """What happens to texts that cannot be explained."""
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="a text that cannot be explained: stop and name it (raise), or go on and report it at the end (skip)",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Whether to tell the cost instead of explaining."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print evaluations, seconds and memory it would take, and stop"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=tuple(ENDINGS), default="terminal", help="default: terminal")
    group.add_argument("--out", type=Path, metavar="FILE", help="write to a file instead of standard output")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where a run keeps its parts."""
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="parts kept here and shared with other runs (default: DIR/parts)"
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """How many processes share a run, and for how long."""
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that share one GPU or CPU (default: 1)"
    )
    group.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="begin nothing new after so many seconds and report what there is; the same command goes on later",
    )


def carry_out(recipe: TomlRecipe, options: argparse.Namespace, command: str) -> None:
    """Run a recipe, show and write its report, and print the files written; the page's path comes last.

    Args:
        recipe: of any kind.
        options: with ``out``, ``store``, ``device``, ``workers`` and ``seconds``.
        command: the command line, for the manifest.
    """
    import time

    from rich.console import Console

    from didact.experiments.engine.kinds import ReportOptions, kind_of
    from didact.experiments.engine.run import run_recipe
    from didact.experiments.engine.steps import RunOptions
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    if options.workers < 1:
        raise ParameterError(f"--workers must be at least 1, got {options.workers}")
    folder = options.out or Path("runs") / recipe.name
    deadline = None if options.seconds is None else time.time() + options.seconds
    with listening(ProgressBar()):
        result = run_recipe(
            recipe, RunOptions(folder, options.store, options.device, options.workers, deadline, command)
        )
    if not result.complete:
        print(f"didact: time is up before all is done; the same command goes on in {folder}", file=sys.stderr)
    if (folder / "records.parquet").is_file():
        for path in kind_of(folder).report(folder, ReportOptions(), Console()):
            print(path)


def read_input(options: argparse.Namespace) -> list[Example]:
    """The examples a command line names."""
    examples = _read(options.input)
    if options.pair is None:
        return [Example.of(example) for example in examples]
    if len(examples) > 1:
        raise InputError("--pair goes with a single text; for many pairs give a .jsonl file with 'text_pair' fields")
    return [Example.of((examples[0].text, options.pair))]


def load(options: argparse.Namespace) -> Model:
    """The model a command line names."""
    from didact.models.load import load_model

    if options.max_length is not None and options.max_length < 3:
        raise ParameterError(f"--max-length must be at least 3, got {options.max_length}")
    return load_model(
        options.model,
        inputs=options.inputs,
        device=options.device,
        max_length=options.max_length,
        max_truncated=1.0 if options.truncate else 0.5,
        trust_remote_code=options.trust_remote_code,
    )


def parse_target(text: str | None) -> str | int | None:
    """A number means an index, anything else a label."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def parse_settings(pairs: Sequence[str]) -> dict[str, object]:
    """``name=value`` settings; values are JSON where they can be read as such."""
    settings: dict[str, object] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ParameterError(f"a setting looks like name=value, got {pair!r}")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def parse_owned(pairs: Sequence[str], like: str) -> dict[str, dict[str, object]]:
    """``lime.samples=200`` -> {"lime": {"samples": 200}}; ``like`` is an example for the message."""
    by_owner: dict[str, dict[str, object]] = {}
    for name, value in parse_settings(pairs).items():
        owner, dot, setting = name.partition(".")
        if not dot:
            raise ParameterError(f"--set takes NAME.SETTING=VALUE, such as {like}; got {name!r}")
        by_owner.setdefault(owner, {})[setting] = value
    return by_owner


def kept(explanations: Explanations) -> Explanations:
    """The explanations, once those left out are reported on standard error; refused when none is left."""
    for note in explanations.skipped:
        print(f"didact: {note}", file=sys.stderr)
    if not explanations:
        raise InputError("nothing could be explained; the reasons stand above")
    return explanations


def write(explanations: Sequence[Explanation], options: argparse.Namespace) -> None:
    """Show or save explanations as the command line asks."""
    from didact.render.formats import render

    if options.out is not None:
        _save(render(explanations, ENDINGS[options.format]), options.out)
    elif options.format == "terminal":
        from didact.render.terminal import show_in_terminal

        show_in_terminal(explanations)
    else:
        print(render(explanations, ENDINGS[options.format]))


def write_estimates(estimates: Sequence[Estimate], options: argparse.Namespace) -> None:
    """Show or save what explaining would take, as a table or as JSON."""
    if options.format not in ("terminal", "json"):
        raise ParameterError(f"--dry-run is written as terminal or json, not {options.format}")
    as_json = json.dumps([estimate.to_dict() for estimate in estimates], indent=2)
    text = as_json if options.format == "json" else _table(estimates)
    if options.out is None:
        print(text)
    else:
        _save(text, options.out)


def _table(estimates: Sequence[Estimate]) -> str:
    from rich.console import Console
    from rich.table import Table

    heads = ("method", "texts", "units", "forwards", "backwards", "seconds", "memory")
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(heads[0], min_width=max(len(row.method) for row in estimates))
    for head in heads[1:]:
        table.add_column(head, justify="right")
    for row in estimates:
        counts = (f"{number:,}" for number in (row.examples, row.units, row.forwards, row.backwards))
        memory = "unknown" if row.memory is None else f"{row.memory / 2**20:,.0f} MiB"
        table.add_row(row.method, *counts, f"{row.seconds:,.2f}", memory)
    console = Console()
    with console.capture() as capture:
        console.print(table)
        console.print(
            "Counts are exact (at most where a method may stop early, more where it raises its steps), seconds"
        )
        console.print("timed on a few passes, memory rough. Nothing was explained.")
    return capture.get().rstrip()


def _save(text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from None
    print(path)


def _read(given: str) -> list[Example]:
    if given == "-":
        return read_lines(sys.stdin, "standard input")
    path = Path(given)
    try:
        exists = bool(given.strip()) and path.exists()
    except OSError:  # a text too long to be a file name
        exists = False
    if exists:
        return read_examples(path)
    if path.suffix in SUFFIXES and not any(blank in given for blank in " \t\n"):
        raise InputError(f"there is no file {given}; to explain it as a text, pass it through '-'")
    return [Example(given)]
