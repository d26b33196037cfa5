"""Worker processes that make the cases; one that hangs or dies is replaced, and its case recorded."""

from __future__ import annotations

import faulthandler
import functools
import multiprocessing
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

from fuzz.cases import Attempt, Case, CaseResult, judge
from fuzz.workshop import Workshop

GRACE = 25.0
"""Seconds beyond the limit before a process is ended: the first case of an artefact also makes it."""


@dataclass
class Worker:
    """A process, the case it is at, and the file it would leave a traceback in."""

    seed: int
    limit: float
    log: Path = field(default_factory=lambda: Path(tempfile.mkstemp(prefix="fuzz-log-")[1]))
    case: Case | None = None
    since: float = 0.0

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.seed, self.limit, str(self.log)))
        self.process.start()
        theirs.close()

    def begin(self, case: Case) -> None:
        """Hand over a case."""
        self.case, self.since = case, time.perf_counter()
        self.connection.send(case)

    def result(self) -> CaseResult:
        """What became of the case; where the process ended, how."""
        assert self.case is not None
        case, self.case = self.case, None
        try:
            made: CaseResult = self.connection.recv()
        except EOFError:
            self.process.join()
            made = self._ended(case)
        return made

    @property
    def alive(self) -> bool:
        """Whether it can take another case."""
        return self.process.is_alive()

    def _ended(self, case: Case) -> CaseResult:
        left = self.log.read_text(encoding="utf-8", errors="replace")
        seconds = round(time.perf_counter() - self.since, 1)
        frames = re.findall(r'File ".*/didact/(\S+)", line \d+ in (\w+)', left)
        where = ":".join(frames[0]) if frames else "outside"
        if left.startswith("Timeout"):
            return CaseResult(case.kind, case.number, "unknown", "hang", seconds, f"Hang in {where}", "did not end")
        return CaseResult(
            case.kind,
            case.number,
            "unknown",
            "crash",
            seconds,
            f"Crash in {where}",
            f"exit code {self.process.exitcode}",
        )

    def close(self) -> None:
        """End the process."""
        if self.alive:
            if self.case is None:
                self.connection.send(None)
                self.process.join(10)
            self.process.terminate()
            self.process.join()
        self.log.unlink(missing_ok=True)


def run(
    cases: Iterator[Case], seed: int, workers: int, limit: float, until: float | None = None
) -> Iterator[CaseResult]:
    """The results of cases in the order in which they end; none is begun after ``until``."""
    staff = [Worker(seed, limit) for _ in range(workers)]
    try:
        for number in range(len(staff)):
            _next(staff, number, cases, until)
        while busy := [worker for worker in staff if worker.case is not None]:
            ready = wait([worker.connection for worker in busy])
            for number, worker in enumerate(staff):
                if worker.case is None or worker.connection not in ready:
                    continue
                yield worker.result()
                if not worker.alive:
                    worker.close()
                    staff[number] = Worker(seed, limit)
                _next(staff, number, cases, until)
    finally:
        for worker in staff:
            worker.close()


def _next(staff: list[Worker], number: int, cases: Iterator[Case], until: float | None) -> None:
    if until is not None and time.time() > until:
        return
    case = next(cases, None)
    if case is not None:
        staff[number].begin(case)


def _work(connection: Connection, seed: int, limit: float, log: str) -> None:
    """Make cases until there are no more; everything that they print is thrown away."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    prepare()
    from fuzz.artefacts import clean

    workshop = Workshop(limit=limit)
    with Path(log).open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        while (case := connection.recv()) is not None:
            faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=file)
            result = judge(case, functools.partial(_attempt, case.kind, workshop), seed, limit)
            faulthandler.cancel_dump_traceback_later()
            connection.send(result)
    workshop.close()
    clean()


def _attempt(kind: str, workshop: Workshop, rng: Random) -> Attempt:
    from fuzz.kinds import KINDS

    return KINDS[kind](rng, workshop)


def prepare() -> None:
    """One thread, no bars and no warnings; paths that hold in every working directory."""
    sys.path[:] = [str(Path(entry).resolve()) for entry in sys.path]
    warnings.simplefilter("ignore")
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
