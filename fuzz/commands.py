"""Command lines: right ones, mistyped ones and hostile ones, in this process and as processes of their own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TextIO

from didact.cli import main
from didact.testing.tiny import TEXTS
from fuzz.cases import Attempt, Hang, Wrong, plain, show
from fuzz.hostile import chance, hostile_text, json_value, text
from fuzz.invariants import promise
from fuzz.recipes import GRADING, SIMULABILITY, toml
from fuzz.workshop import Workshop

ALLOWED = (0, 2, 130)
_ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Control characters that a terminal acts on."""

SMALL_DATA = "reviews.jsonl"
FILES: dict[str, bytes] = {
    SMALL_DATA: b"\n".join(b'{"text": "%s", "label": "positive"}' % line.encode() for line in TEXTS * 3),
    "reviews.txt": "\n".join(TEXTS[:2]).encode(),
    "reviews.csv": b"text,label\na warm film,positive\na dull plot,negative\n",
    "binary.txt": bytes(range(256)),
    "blank.txt": b"\n\n",
    "packed.jsonl.gz": b"\x1f\x8bnot gzip",
    "in-the-way": b"a file where a folder is wanted",
    "grading.toml": toml(GRADING),
    "simulability.toml": toml(SIMULABILITY),
}

TEMPLATES: tuple[str, ...] = (
    "explain TEXT --method METHOD",
    "explain TEXT --method METHOD --format FORM --out OUT",
    "explain FILE --method METHOD --format FORM",
    "explain - --method METHOD",
    "explain TEXT --target TARGET --method METHOD",
    "explain TEXT --pair TEXT --inputs INPUTS --method METHOD",
    "explain TEXT --method METHOD --set SET --level LEVEL",
    "explain TEXT --explainer ANY --fallback METHOD",
    "explain TEXT --method METHOD --dry-run --format FORM",
    "explain TEXT --model ANY",
    "explain TEXT --max-length NUMBER --truncate --method METHOD",
    "compare TEXT --methods METHODS --format FORM",
    "compare FILE --methods METHODS --out OUT",
    "evaluate --data FILE --methods METHODS --metrics comprehensiveness --limit 4 --out OUT",
    "evaluate --data FILE --methods METHODS --metrics ANY --limit NUMBER --name ANY",
    "evaluate --methods METHODS --metrics sufficiency --limit 3 --seeds NUMBER --dry-run",
    "simulate --explainers occlusion --students ridge --sizes 8 --subsets 2 --limit 20 --no-controls --out OUT",
    "simulate --explainers METHODS --students ANY --sizes NUMBER --subsets 2 --limit 12 --share NUMBER",
    "train l2e --data FILE --reference occlusion --width 8 --blocks 1 --epochs 1 --out OUT",
    "train ANY --data FILE --width NUMBER",
    "run grading.toml --out OUT",
    "run grading.toml --set SET",
    "run simulability.toml --set SET --out OUT",
    "run grading.toml --set NAME",
    "run ANY",
    "report ANY --format ANY --examples NUMBER",
    "reproduce l2e --table NUMBER --results ANY",
    "reproduce simulability --recipe grading.toml --out OUT",
    "convert ANY --out OUT",
    "list WHAT",
    "list methods",
    "demo --texts NUMBER0 --learn -1",
    "--version",
    "--help",
    "explain --help",
    "ANY",
    "",
)
"""Command lines; words in capitals stand for values."""

NAMES = sorted({template.split()[0] for template in TEMPLATES if template[:1].islower()})
PLACES = ("in-the-way", "in-the-way/under", "folder", "a" * 300)
QUICK = ("occlusion", "gradient_x_input", "random", "attention", "gradient_norm", "trivial")


def commands(rng: Random, workshop: Workshop) -> Attempt:
    """A command line of a template, perhaps with arguments lost, doubled or added."""
    arguments = [_filled(rng, word) for word in rng.choice(TEMPLATES).split()]
    if arguments and chance(rng, 0.25):
        _disturb(rng, arguments)
    if chance(rng, 0.12):
        return _process(rng, arguments, workshop)
    given = rng.choice((None, "", "a warm film\n", "bad \udcff line\n", "\x00\n", "a\n" * 5))
    call = _Captured(arguments, given, workshop)
    known = [word for word in arguments[:1] if word in NAMES]
    return Attempt(f"in process: {(known or ['other'])[0]}", show("didact", *arguments, stdin=given), call)


def _filled(rng: Random, word: str) -> str:
    """A value for a word in capitals."""
    hostile = chance(rng, 0.3)
    values: dict[str, tuple[str, ...]] = {
        "TEXT": (text(rng), TEXTS[0]),
        "FILE": tuple(FILES) if hostile else (SMALL_DATA, "reviews.txt", "reviews.csv"),
        "METHOD": (hostile_text(rng),) if hostile else QUICK,
        "METHODS": (f"{rng.choice(QUICK)},{hostile_text(rng)}",) if hostile else (",".join(rng.sample(QUICK, 2)),),
        "FORM": (hostile_text(rng),) if hostile else ("terminal", "json", "html", "latex"),
        "OUT": (*PLACES, hostile_text(rng)) if hostile else ("out", "out.html", "deep/er/out.json"),
        "TARGET": (hostile_text(rng), "²", "-1", "99") if hostile else ("positive", "0", "1", "negative"),
        "INPUTS": ("text", "pair"),
        "LEVEL": (hostile_text(rng),) if hostile else ("word", "token"),
        "SET": (f"{hostile_text(rng)}={hostile_text(rng)}", f"seeds={json_value(rng)}", "data.limit=3", "chunk=0"),
        "NAME": (f'name="{rng.choice(("../../escape", "/tmp/fuzz-escape", "..", "x" * 300))}"',),
        "NUMBER": (hostile_text(rng), "-1", "0", "nan", "1e9", "3.5", "²") if hostile else ("3", "1", "0.5"),
        "NUMBER0": ("0", "-1", "x"),
        "WHAT": ("methods", "metrics", "data", "students", "channels", "presets", hostile_text(rng)),
        "ANY": (hostile_text(rng), *FILES, "nowhere", "folder"),
    }  # fmt: skip
    return rng.choice(values[word]) if word in values else word


def _disturb(rng: Random, arguments: list[str]) -> None:
    at = rng.randrange(len(arguments))
    what = rng.choice(("lose", "double", "replace", "insert", "option"))
    if what == "lose":
        del arguments[at]
    elif what == "double":
        arguments.insert(at, arguments[at])
    elif what == "replace":
        arguments[at] = hostile_text(rng)
    else:
        arguments.insert(
            at,
            rng.choice(("--x", "--set", "--workers", "--seconds", "--device", "--"))
            if what == "option"
            else hostile_text(rng),
        )


class _Captured:
    """Runs a command line in this process with its own standard streams and working directory."""

    def __init__(self, arguments: list[str], given: str | None, workshop: Workshop) -> None:
        self.arguments, self.given, self.workshop = arguments, given, workshop

    def __call__(self) -> None:
        with furnished(self.workshop) as (_folder, check), _streams(self.given) as (out, error):
            try:
                code: object = main(self.arguments)
            except SystemExit as exit_:
                code = exit_.code if exit_.code is not None else 0
            check()
        judge_output(self.arguments, code, out.getvalue(), error.getvalue())


@contextlib.contextmanager
def _streams(given: str | None) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Standard streams that are files, as strict as real ones; no standard input at all where none is given."""
    out, error = io.BytesIO(), io.BytesIO()
    before = sys.stdin, sys.stdout, sys.stderr
    stdin: TextIO | None = None
    if given is not None:
        stdin = io.TextIOWrapper(io.BytesIO(given.encode("utf-8", "surrogateescape")), encoding="utf-8")
    wrapped = [io.TextIOWrapper(stream, encoding="utf-8", errors=how, write_through=True)
               for stream, how in ((out, "strict"), (error, "backslashreplace"))]  # fmt: skip
    sys.stdin, sys.stdout, sys.stderr = stdin, *wrapped
    try:
        yield out, error
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in wrapped:
            with contextlib.suppress(ValueError):
                stream.flush()
                stream.detach()  # or it would close the bytes when it is collected


@contextlib.contextmanager
def furnished(workshop: Workshop) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A working directory with the usual files, two folders deep; ``check`` sees that nothing was written above it."""
    with workshop.folder() as folder:
        place = folder / "a" / "b"
        (place / "folder").mkdir(parents=True)
        for name, content in FILES.items():
            (place / name).write_bytes(content)
        os.chdir(place)

        def check() -> None:
            written = [
                path.name for path in (*folder.iterdir(), *(folder / "a").iterdir()) if path.name not in ("a", "b")
            ]
            escape = Path("/tmp/fuzz-escape")
            promise(not written and not escape.exists(), f"written outside of the working directory: {written}")

        yield place, check


def judge_output(arguments: list[str], code: object, out: bytes, error: bytes) -> None:
    """Exit 0, 2 or 130, no traceback, and nothing that a terminal would act on."""
    said, told = out.decode("utf-8", "replace"), error.decode("utf-8", "replace")
    if "Traceback (most recent call last)" in told or code not in ALLOWED:
        last = (told.strip().splitlines() or ["no message"])[-1]
        raise Wrong(f"exit {code}, {_kind(last)}: {plain(last)}")
    for name, shown in (("standard output", said), ("standard error", told)):
        acting = _ACTING.search(shown)
        promise(
            acting is None,
            f"a control character in {name}: {acting and acting.group()!r} of {plain(str(arguments), 80)}",
        )
    if code == 2:
        promise(bool(told.strip()), "exit 2 without a word: nothing on standard error")


def _kind(last: str) -> str:
    """The exception that a traceback ends with, or the beginning of the line."""
    return plain(last.partition(":")[0], 60)


def _process(rng: Random, arguments: list[str], workshop: Workshop) -> Attempt:
    """The same as a process of its own, with standard streams open, closed, or a pipe that nobody reads."""
    arguments = [argument.replace("\x00", "0") for argument in arguments]
    streams = rng.choice(("open", "open", "no stdin", "no reader", "no stdout"))

    def call() -> None:
        with furnished(workshop) as (_, check):
            code, out, error = run_process(arguments, streams, workshop.limit)
            check()
        judge_output(
            arguments, 0 if streams in ("no reader", "no stdout") and code in (120, 141, -13) else code, out, error
        )

    return Attempt(f"process, {streams}", show("didact", *arguments, streams=streams), call)


def run_process(arguments: list[str], streams: str, limit: float) -> tuple[int, bytes, bytes]:
    """Exit code and what was printed; ended where it takes too long."""
    command = [os.fsencode(sys.executable), b"-m", b"didact", *map(_encoded, arguments)]
    reading, writing = os.pipe()
    os.close(reading)
    closing = {"no stdin": lambda: os.close(0), "no stdout": lambda: os.close(1)}.get(streams)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=writing if streams == "no reader" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=closing,
        )
    except OSError as problem:  # an argument longer than the system takes
        raise Wrong(f"the harness could not start a process: {problem}") from None
    finally:
        os.close(writing)
    try:
        out, error = process.communicate(b"a warm film\n" if streams != "no stdin" else None, timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Hang(f"a process: over {limit:.0f} s") from None
    return process.returncode, out or b"", error


def _encoded(part: str) -> bytes:
    """An argument as the system hands it over; a lone surrogate becomes bytes that are no UTF-8."""
    try:
        return os.fsencode(part)
    except UnicodeEncodeError:
        return part.encode("utf-8", "surrogatepass")
