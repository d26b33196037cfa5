"""``didact study``: a blind study in which people rank explanations, or learn from them to predict the model."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from didact.cli import printing
from didact.cli.options import CommandParser
from didact.cli.serve import TOKEN, check_installed, read_token
from didact.errors import InputError, ParameterError

if TYPE_CHECKING:
    from didact.types import Explanation

NAME = "study"
HELP = "Study explanations with people: create a blind study, serve its pages, see its results, export its answers."
EXAMPLES = """examples:
  didact study create runs/reviews --explainers lime,attention --items 60 --raters 20 --out runs/study
  didact study create runs/reviews --protocol simulate --items 24 --learning 16
  didact study serve runs/study
  didact study results runs/study
  didact study export runs/study --format csv,parquet
  didact study delete runs/study K7QF-2M9X

Explanations come from a run, such as: didact evaluate --data reviews.jsonl --out runs/reviews

What people find convincing (rank) and what helps them to predict the model's output (simulate) are different
questions: they are different protocols, and their results are never merged. See docs/study.md.
"""

Action = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], None]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A parser for each action."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=CommandParser)
    for name, (summary, add, carry_out) in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        add(action)
        action.set_defaults(action=carry_out)


def run(options: argparse.Namespace) -> None:
    """Carry out the action."""
    options.action(options)


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="RUN",
        type=Path,
        help="where explanations come from: folder of 'didact evaluate', or a .parquet or .json file of explanations",
    )
    parser.add_argument("--explainers", metavar="A,B", help="methods to study (default: all of the run)")
    parser.add_argument("--protocol", default="rank", metavar="P", help="rank or simulate (default: rank)")
    parser.add_argument("--no-control", action="store_true", help="do not add random explanations as a control")
    parser.add_argument("--out", type=Path, default=Path("runs/study"), metavar="DIR", help="default: runs/study")
    sizes = parser.add_argument_group("sizes")
    for option, usual, what in (
        ("--items", 60, "items that a rater ranks; in simulate, items of the test before and after"),
        ("--learning", 20, "items that a rater learns from, in simulate"),
        ("--raters", 20, "planned raters, with an invitation code each"),
        ("--practice", 2, "practice pages with feedback"),
        ("--repeats", 6, "items ranked twice, for agreement of raters with themselves"),
        ("--check-every", 15, "pages between attention checks, 0 for none"),
        ("--seed", 0, "decides items and orders"),
    ):
        sizes.add_argument(option, type=int, default=usual, metavar="N", help=f"{what} (default: {usual})")
    shown = parser.add_argument_group("what raters see")
    shown.add_argument(
        "--show",
        default="support",
        metavar="HOW",
        help="support (evidence for the prediction), signed (also against it) or top (highest tenth, marked alike); "
        "default: support",
    )
    for option, what in (("--title", "title"), ("--question", "question of rank")):
        shown.add_argument(option, metavar="TEXT", help=f"{what} (default: didact's own)")
    for option in ("--consent", "--instructions"):
        shown.add_argument(option, type=Path, metavar="FILE", help="text file (default: didact's own)")


def _create(options: argparse.Namespace) -> None:
    from didact.study.design import CONTROL, StudyDesign
    from didact.study.material import StudyMaterial
    from didact.study.registration import advice
    from didact.study.session import Study

    explained = _read(options.source)
    given = explained if options.explainers is None else [name.strip() for name in options.explainers.split(",")]
    names = [name for name in dict.fromkeys(given) if name]
    control = [] if options.no_control or CONTROL in names else [CONTROL]
    numbers = ("items", "learning", "raters", "practice", "repeats", "check_every", "seed")
    texts = {name: getattr(options, name) for name in ("title", "question") if getattr(options, name) is not None}
    texts |= {name: _text(getattr(options, name)) for name in ("consent", "instructions") if getattr(options, name)}
    design = StudyDesign(
        protocol=options.protocol,
        explainers=(*names, *control),
        show=options.show,
        **{name: getattr(options, name) for name in numbers},
        **texts,
    )
    study = Study.create(options.out, design, StudyMaterial.chosen(explained, design))
    for line in advice(design):
        printing.line(line)
    printing.line(f"Complete {study.folder / 'preregistration.md'} before the first rater joins: it is hashed then.")
    printing.line(f"Invitation codes: {study.folder / 'codes.txt'}")
    printing.line(study.folder)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help=f"address to listen on (default: 127.0.0.1); any other needs {TOKEN}"
    )
    parser.add_argument("--port", type=int, default=8400, help="default: 8400; 0 for any free port")
    parser.add_argument(
        "--public",
        metavar="URL",
        help="address that raters open, if the server is behind a proxy: https://study.example.org",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file with the owner's key (or set {TOKEN}; default: generated and printed)",
    )


def _serve(options: argparse.Namespace) -> None:
    check_installed()
    from didact.experiments.people import report
    from didact.service.config import ServiceConfig, ServiceLimits, is_loopback
    from didact.service.studies.serving import FORM_BYTES, serve_study
    from didact.study.session import Study

    study = Study(options.folder)
    given = read_token(options.token_file)
    key = secrets.token_urlsafe(12) if given is None and is_loopback(options.host) else given
    secure, hosts = _public(options.public)
    config = ServiceConfig(
        host=options.host, port=options.port, token=key, hosts=hosts, limits=ServiceLimits(body=FORM_BYTES)
    )

    def announce(place: str) -> None:
        printing.line(f"raters open {options.public or place} (stop with Ctrl-C)")
        printing.line(f"the owner opens {options.public or place}/owner")
        if given is None:
            printing.line(f"the owner's key is {key}")

    serve_study(study, config, report.page, announce, secure=secure)


def _public(address: str | None) -> tuple[bool, tuple[str, ...]]:
    """Whether raters come by HTTPS, and the name of the host that they open."""
    if address is None:
        return False, ()
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ParameterError(f"--public takes an address such as https://study.example.org, got {address!r:.80}")
    return parts.scheme == "https", (parts.hostname,)


def _add_results(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument("--format", metavar="A,B", default="json,html", help="files to write (default: json,html)")


def _results(options: argparse.Namespace) -> None:
    from didact.experiments.people import report
    from didact.progress import listening
    from didact.render.progress import ProgressBar
    from didact.study.results import study_results
    from didact.study.session import Study

    formats = _formats(options.format, report.FORMATS)
    study = Study(options.folder)
    with listening(ProgressBar()):
        results = study_results(study)
    with printing.console() as console:
        report.show(results, console)
        written = report.write_report(results, study.folder, formats)
    for path in written:
        printing.line(path)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument("--format", metavar="A,B", default="csv,jsonl,parquet", help="default: csv,jsonl,parquet")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the files (default: STUDY/export)")


def _export(options: argparse.Namespace) -> None:
    from didact.study.export import FORMATS, export
    from didact.study.session import Study

    formats = _formats(options.format, FORMATS)
    for path in export(Study(options.folder), options.out or options.folder / "export", formats):
        printing.line(path)


def _add_invite(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument("--raters", type=int, default=1, metavar="N", help="how many further codes (default: 1)")


def _invite(options: argparse.Namespace) -> None:
    from didact.study.session import Study

    for code in Study(options.folder).invite(options.raters):
        printing.line(code)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    _add_folder(parser)
    parser.add_argument("code", metavar="CODE", help="invitation code of the rater")


def _delete(options: argparse.Namespace) -> None:
    from didact.study.session import Study

    deleted = Study(options.folder).forget(options.code)
    printing.line(f"{deleted} events of this rater are permanently deleted, and the code is no longer valid")
    printing.line("reports and exports that were written before still hold the answers: write them again")


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="STUDY", type=Path, help="folder of the study")


def _formats(text: str, known: tuple[str, ...]) -> list[str]:
    formats = [form.strip() for form in text.split(",") if form.strip()]
    for form in formats:
        if form not in known:
            raise ParameterError(f"--format takes {', '.join(known)}, got {form!r}")
    return formats


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"cannot read {path} as text ({problem}); give a file in UTF-8") from None


def _read(source: Path) -> dict[str, list[Explanation]]:
    """Explanations of a run or a file, by explainer."""
    from didact.render.jsonio import load
    from didact.store import explanations as explanation_store

    path = source / "explanations.parquet" if source.is_dir() else source
    if not path.is_file():
        raise InputError(
            f"there are no explanations at {path}; give the folder of a finished 'didact evaluate', or a file of "
            "explanations (.parquet, .json)"
        )
    if path.suffix.lower() == ".json":
        explanations = load(_text(path))
        names = [each.method for each in explanations]
    else:
        table = explanation_store.read(path)
        explanations = explanation_store.from_table(table)
        names = table.column("explainer" if "explainer" in table.column_names else "method").to_pylist()
    by_name: dict[str, list[Explanation]] = {}
    for name, each in zip(names, explanations, strict=True):
        by_name.setdefault(name, []).append(each)
    return by_name


ACTIONS: dict[str, Action] = {
    "create": ("Create a study from the explanations of a run.", _add_create, _create),
    "serve": ("Serve the pages that raters and the owner open in a browser.", _add_serve, _serve),
    "results": ("Analyse the answers so far, and write the report.", _add_results, _results),
    "export": ("Write all answers as tables.", _add_export, _export),
    "invite": ("Create further invitation codes.", _add_invite, _invite),
    "delete": ("Delete all answers of a rater.", _add_delete, _delete),
}
"""What can be done with a study; a further action is a further entry."""
