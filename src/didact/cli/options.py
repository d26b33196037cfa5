"""Options and outputs that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from didact import disk
from didact.cli import columns, kinds, printing
from didact.cli.models import add_model as add_model
from didact.cli.models import add_remote_code as add_remote_code
from didact.cli.models import load as load
from didact.cli.saving import save
from didact.data.files import FORMATS, format_of, is_there, read_lines, read_plain
from didact.data.images import ENDINGS as IMAGE_ENDINGS
from didact.data.limits import MAX_BYTES, MAX_TEXTS, ReadLimits
from didact.errors import FormatError, InputError, ParameterError
from didact.images import MAX_PIXELS, USUAL_MAX_PIXELS
from didact.render.pieces import printable
from didact.types import SCALES, Example
from didact.validation import parse_json

if TYPE_CHECKING:
    from didact.api import Explanations
    from didact.protocols import Model, TargetLike
    from didact.render.metric_table import MetricTable
    from didact.types import Estimate, Explanation

ENDINGS = {"terminal": "txt", "json": "json", "html": "html", "latex": "tex", "svg": "svg", "png": "png"}


class CommandParser(argparse.ArgumentParser):
    """A parser whose messages show what was given without letting it act on the terminal."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 2."""
        shown = " ".join(printable(message).split())
        super().error(shown if len(shown) <= printing.LONGEST else shown[: printing.LONGEST] + "…")


def add_input(parser: argparse.ArgumentParser) -> None:
    """What is explained."""
    parser.add_argument(
        "input",
        nargs="?",
        metavar="TEXT|-|FILE",
        help=f"a text, '-' for standard input (a text per line), or a file: {', '.join(FORMATS)} (text formats also "
        "packed as .gz), any other with a text per line",
    )
    columns.add_columns(parser)
    add_limits(parser)
    parser.add_argument("--pair", metavar="TEXT", help="the second text, for a model of pairs")
    parser.add_argument(
        "--target",
        metavar="LABEL",
        help="label or index to explain, 'all' for every class (default: the predicted class)",
    )
    parser.add_argument(
        "--versus", metavar="LABEL", help="explain why the target rather than this label: the difference of both scores"
    )
    kinds.add_question(parser)
    kinds.add_image(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """How large a file may be."""
    group = parser.add_argument_group("limits of a file")
    for option, what, usual in (
        ("--max-bytes", "bytes after unpacking", ReadLimits.bytes),
        ("--max-texts", "lines or rows", ReadLimits.texts),
        ("--max-pixels", "pixels of an image", USUAL_MAX_PIXELS),
    ):
        group.add_argument(option, type=int, metavar="N", help=f"maximum number of {what} (default: {usual:,})")


@contextlib.contextmanager
def reading_limits(options: argparse.Namespace) -> Iterator[None]:
    """Read with the limits that were given; through the environment, so that worker processes have them too."""
    variables = {"max_bytes": MAX_BYTES, "max_texts": MAX_TEXTS, "max_pixels": MAX_PIXELS}
    given = {variable: getattr(options, name, None) for name, variable in variables.items()}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update({name: str(limit) for name, limit in given.items() if limit is not None})
    try:
        ReadLimits.current()
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def add_method(parser: argparse.ArgumentParser) -> None:
    """Settings that all methods have."""
    group = parser.add_argument_group("method")
    group.add_argument(
        "--level", help="what gets a score: word, token, whitespace, ... (default: word; patch for images)"
    )
    group.add_argument(
        "--scale", choices=SCALES, help="which output is explained (default: logit, where the model has logits)"
    )


def add_on_error(parser: argparse.ArgumentParser) -> None:
    """What happens to texts that cannot be explained."""
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="a text that cannot be explained: stop and name it (raise), or continue and report it at the end (skip)",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Whether to print the cost instead of explaining."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print the expected evaluations, seconds and memory, and stop"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=tuple(ENDINGS), help="default: by the ending of --out, else terminal")
    group.add_argument("--out", type=Path, metavar="FILE", help="write to a file instead of standard output")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where a run keeps its parts."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="cache of partial results, to share it between runs (default: OUT/parts)",
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """How many processes share a run, and for how long."""
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="number of processes, which share one GPU or CPU (default: 1)",
    )
    group.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="time limit: start no new step after S seconds and report what is done; the same command resumes later",
    )
    group.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the results of another recipe in the same folder, once the new ones are complete",
    )


def read_input(options: argparse.Namespace) -> list[Example]:
    """The examples a command line names."""
    question, images = kinds.read_question(options), kinds.read_images(options)
    if question is not None or images:
        return images if question is None else [question]
    if options.input is None:
        raise ParameterError("nothing to explain: give a text, '-', a file, --question with --passage, or --image")
    examples = _read(options.input, columns.chosen(options))
    if options.pair is None:
        return [Example.of(example) for example in examples]
    if len(examples) > 1:
        raise InputError("--pair goes with a single text; for many pairs give a .jsonl file with 'text_pair' fields")
    return [Example.of((examples[0].text, options.pair))]


def target(options: argparse.Namespace, examples: Sequence[Example], model: Model) -> TargetLike:
    """What ``--target``, ``--versus`` and ``--answer`` name."""
    label, versus = parse_target(options.target), parse_target(options.versus)
    if versus is not None and options.answer is not None:
        raise ParameterError("give --versus LABEL or --answer, not both: answers are no labels to compare")
    if options.answer is None:
        return label if versus is None else (label, versus)
    if len(examples) > 1:
        raise ParameterError(f"--answer goes with a single text, and {len(examples)} were given")
    place = kinds.place_of(options, examples[0])
    return label if place is None else kinds.target_at(place, label, model)


def parse_target(text: str | None) -> str | int | None:
    """A number means an index, anything else a label."""
    return int(text) if text is not None and re.fullmatch("-?[0-9]{1,9}", text) else text


def parse_settings(pairs: Sequence[str]) -> dict[str, object]:
    """``name=value`` settings; values are JSON where they can be read as such."""
    settings: dict[str, object] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ParameterError(f"a setting looks like name=value, got {pair!r}")
        try:
            settings[name] = parse_json(value)
        except FormatError:
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


def settings_by_owner(pairs: Sequence[str]) -> dict[str, dict[str, object]]:
    """``ig.steps=20`` -> {"integrated_gradients": {"steps": 20}}: settings by the registered method or metric."""
    from didact.attribution.base import ATTRIBUTIONS
    from didact.metrics.base import METRICS

    settings: dict[str, dict[str, object]] = {}
    for owner, given in parse_owned(pairs, "lime.samples=200").items():
        is_metric = owner in METRICS.names() or owner in METRICS.aliases()
        settings.setdefault((METRICS if is_metric else ATTRIBUTIONS).resolve(owner), {}).update(given)
    return settings


def check_used(unused: Iterable[str]) -> None:
    """Refuse settings of methods and metrics that were not chosen."""
    names = sorted(unused)
    if names:
        raise ParameterError(f"--set names {', '.join(names)}, which --methods and --metrics do not list")


def settle_output(options: argparse.Namespace) -> None:
    """Choose the format by the file's ending where none is given, and refuse a file that could not be written."""
    by_ending = {f".{ending}": form for form, ending in ENDINGS.items()} | {".htm": "html"}
    ending = "" if options.out is None else options.out.suffix.lower()
    implied = by_ending.get(ending)
    if options.format is None and implied is None and ending:
        raise ParameterError(
            f"--out {options.out}: no format ends with {ending}; name the file {', '.join(by_ending)}, or give --format"
        )
    if options.format is not None and implied not in (None, options.format):
        raise ParameterError(f"--format {options.format} does not go with --out {options.out}, which ends as {implied}")
    options.format = options.format or implied or "terminal"
    if options.out is not None:
        disk.check_writable(options.out)
    elif options.format == "png":
        raise ParameterError("--format png is a picture: give it a file with --out FILE.png")


def kept(explanations: Explanations) -> Explanations:
    """The explanations, once those left out are reported on standard error; refused when none is left."""
    for note in explanations.skipped:
        printing.message(f"didact: {note}")
    if not explanations:
        raise InputError("nothing could be explained; the reasons stand above")
    return explanations


def write(explanations: Sequence[Explanation], options: argparse.Namespace, tables: Sequence[MetricTable] = ()) -> None:
    """Show or save explanations, and metrics of them where there are any, in the format that was chosen."""
    from didact.render.formats import encoded, render

    if tables and options.format != "terminal":
        _write_document(_with_metrics(explanations, tables, options.format), options.out)
    elif options.out is not None:
        listed = "".join(f"\n{table}\n" for table in tables).encode("utf-8", "backslashreplace")
        save(encoded(explanations, ENDINGS[options.format]) + listed, options.out)
    elif options.format == "terminal":
        printing.show_explanations(explanations)
        printing.show_metrics(tables)
    else:
        printing.document(render(explanations, ENDINGS[options.format]))


def _with_metrics(explanations: Sequence[Explanation], tables: Sequence[MetricTable], form: str) -> str:
    """A page, or a JSON document, with a table of metrics per text."""
    from didact.render import html, jsonio

    if form == "html":
        return html.page(explanations, below="".join(table.html() for table in tables))
    return jsonio.dump(explanations, indent=2, metrics=[table.to_dict() for table in tables])


def _write_document(text: str, out: Path | None) -> None:
    if out is None:
        printing.document(text)
    else:
        save(text.encode("utf-8", "backslashreplace"), out)


def write_estimates(estimates: Sequence[Estimate], options: argparse.Namespace) -> None:
    """Show or save what explaining would take, as a table or as JSON."""
    if options.format not in ("terminal", "json"):
        raise ParameterError(f"--dry-run is written as terminal or json, not {options.format}")
    as_json = json.dumps([estimate.to_dict() for estimate in estimates], indent=2)
    _write_document(as_json if options.format == "json" else printing.estimates_table(estimates), options.out)


def _read(given: str, fields: columns.Columns) -> list[Example]:
    """The examples of standard input, of a file, or the text itself."""
    path = Path(given)
    if given != "-" and given.strip() and is_there(path):
        return _read_file(path, fields)
    if fields:
        raise ParameterError("--column names the columns of a file, and none was given")
    if given == "-":
        return read_lines(sys.stdin, "standard input")
    if format_of(path) is not None and not any(blank in given for blank in " \t\n"):
        raise InputError(f"there is no file {given}; to explain it as a text, pass it through '-'")
    return [Example(given)]


def _read_file(path: Path, fields: columns.Columns) -> list[Example]:
    """A table or a list of texts as its ending says; one text per line where it says nothing."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a file ({', '.join(FORMATS)}), or --image for one of images")
    if path.suffix.lower() in IMAGE_ENDINGS:
        return [Example.of(path)]
    if format_of(path) is None:
        return read_plain(path)
    from didact.data.load import load_data

    return list(load_data(path, fields=fields).examples)
