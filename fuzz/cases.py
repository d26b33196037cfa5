"""What a case is and how it is judged."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from didact.errors import DidactError

Verdict = Literal["returned", "refused", "escaped", "wrong", "hang", "crash"]
PASSED: tuple[Verdict, ...] = ("returned", "refused")
FAILED: tuple[Verdict, ...] = ("escaped", "wrong", "hang", "crash")
"""An exception outside the error tree, a broken promise, over the time limit, and the end of the process."""

LIMIT = 20.0
"""Seconds after which a case counts as a hang."""


class Wrong(Exception):  # noqa: N818 - it names a verdict
    """A call returned something that breaks a promise."""


class Hang(Exception):  # noqa: N818 - it names a verdict
    """A process that a case started did not end in time."""


@dataclass(frozen=True)
class Attempt:
    """One call that is ready to be made.

    Attributes:
        group: what is called, for the counts of the report.
        shown: the call in one line, for people.
        call: makes it; raises ``Wrong`` where a promise is broken.
    """

    group: str
    shown: str
    call: Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A case by its number."""

    kind: str
    number: int

    def rng(self, seed: int) -> random.Random:
        """Random numbers of this case alone; the same in every process."""
        return random.Random(f"{seed}/{self.kind}/{self.number}")


@dataclass(frozen=True)
class CaseResult:
    """What became of a case.

    Attributes:
        kind: of the case.
        number: of the case.
        group: what was called.
        verdict: one of ``PASSED`` or ``FAILED``.
        seconds: it took.
        root: for failures, exception and the innermost place in didact, so that one defect is one root.
        message: of the exception.
        shown: the call in one line, for failures.
    """

    kind: str
    number: int
    group: str
    verdict: Verdict
    seconds: float
    root: str = ""
    message: str = ""
    shown: str = ""

    @property
    def passed(self) -> bool:
        """Whether it is no failure."""
        return self.verdict in PASSED

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def judge(case: Case, make: Callable[[random.Random], Attempt], seed: int, limit: float = LIMIT) -> CaseResult:
    """Make a case's call and say what became of it."""
    try:
        attempt = make(case.rng(seed))
    except DidactError:  # a noun of the call was refused already
        return CaseResult(case.kind, case.number, "nouns", "refused", 0.0)
    except Exception as early:
        return CaseResult(case.kind, case.number, "nouns", "escaped", 0.0, root_of(early), plain(str(early)))
    began = time.perf_counter()
    verdict: Verdict = "returned"
    problem: BaseException | None = None
    try:
        attempt.call()
    except DidactError:
        verdict = "refused"
    except Wrong as broken:
        verdict, problem = "wrong", broken
    except Hang as late:
        verdict, problem = "hang", late
    except (Exception, SystemExit, KeyboardInterrupt) as escaped:
        verdict, problem = "escaped", escaped
    seconds = time.perf_counter() - began
    if verdict in PASSED and seconds > limit:
        verdict, problem = "hang", Hang(f"{seconds:.0f} s")
    result = CaseResult(case.kind, case.number, attempt.group, verdict, round(seconds, 3))
    if problem is None:
        return result
    return dataclasses.replace(result, root=root_of(problem), message=plain(str(problem)), shown=attempt.shown)


def root_of(problem: BaseException) -> str:
    """The exception and the innermost place in didact that it went through; of a broken promise its beginning."""
    if isinstance(problem, Wrong | Hang):
        return f"{type(problem).__name__}: {plain(str(problem)).split(':')[0]}"
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "/didact/" in frame.filename]
    where = "outside" if not frames else f"{frames[-1].filename.rpartition('/didact/')[2]}:{frames[-1].name}"
    return f"{type(problem).__name__} in {where}"


def plain(text: str, longest: int = 300) -> str:
    """One line of printable ASCII."""
    short = " ".join(text.split())
    short = short if len(short) <= longest else short[: longest - 1] + "…"
    return short.encode("ascii", "backslashreplace").decode("ascii")


def show(name: str, *arguments: object, **named: object) -> str:
    """A call as people would write it."""
    parts = [shown(value) for value in arguments] + [f"{key}={shown(value)}" for key, value in named.items()]
    return plain(f"{name}({', '.join(parts)})", 1000)


def shown(value: object, longest: int = 160) -> str:
    """A value's ``repr``, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
