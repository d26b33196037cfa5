"""Who does the steps: this process, or many processes that share one GPU or the cores of a CPU."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from didact import disk
from didact.experiments.engine.steps import KeyedStep, RecipeJob
from didact.progress import advance

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

Running = dict[Connection, tuple[KeyedStep, float]]
"""Connection to a busy process -> the step that it does, and since when."""

LONGEST = 400
"""Characters of a reason."""
GRACE = 0.1
"""Share of the time limit that steps running at its end may still take before their processes are ended."""


@dataclass
class Progress:
    """How far a run is: names of the steps that are done and what became of the others; each step is logged at once.

    Attributes:
        log: a line of JSON per step with its seconds and, where it failed, the reason.
        done: steps whose results are there.
        failed: step -> reason.
        left: steps that were not begun, or not finished, because time was up.
    """

    log: Path
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def note(self, job: RecipeJob, step: KeyedStep, seconds: float, problem: str | None = None) -> None:
        """Enter what became of a step."""
        if problem is not None:
            self.failed[step.name] = problem
        else:
            (self.done if job.is_done(step) else self.left).add(step.name)
        self.write(step, seconds, problem)
        advance(1)

    def write(self, step: KeyedStep, seconds: float, problem: str | None) -> None:
        """Log an attempt at a step."""
        row: dict[str, object] = {"step": step.name, "key": step.key, "seconds": round(seconds, 3)}
        if problem is not None:
            row["failed"] = problem
        try:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as refusal:
            raise disk.refused(self.log, refusal) from refusal

    def is_ready(self, step: KeyedStep) -> bool:
        """Whether all that a step needs is done."""
        return step.after <= self.done


@dataclass(frozen=True)
class StepFailure:
    """Why a step failed.

    Attributes:
        reason: the error.
        memory: whether memory ran out, as it may where several processes share a device.
    """

    reason: str
    memory: bool


class Executor(Protocol):
    """Does steps until all are done or time is up."""

    def carry_out(self, job: RecipeJob, steps: Sequence[KeyedStep], progress: Progress, until: float | None) -> None:
        """Do the steps, none of which is done yet, and enter what becomes of each."""

    def close(self) -> None:
        """End what was started."""


class InProcess:
    """One step after the other in this process; a step that fails ends the run."""

    def carry_out(self, job: RecipeJob, steps: Sequence[KeyedStep], progress: Progress, until: float | None) -> None:
        """Do the steps in their order."""
        for step in steps:
            if not progress.is_ready(step) or (until is not None and time.time() > until):
                progress.left.add(step.name)
                continue
            began = time.perf_counter()
            job.do(step)
            progress.note(job, step, time.perf_counter() - began)

    def close(self) -> None:
        """Nothing was started."""


class WorkerProcesses:
    """Steps handed to processes that each build the job anew.

    One process cannot keep a GPU busy with small networks and short texts; a dozen can. They are forked from a server
    that has imported the libraries and touched no GPU: a process forked from one that has could not use it. A step
    that fails, or whose process is killed, does not stop the others. One that runs out of memory is repeated with a
    process less, and fails where only one is left; the process that had too little ends.

    Args:
        build: makes the job in a process; must be picklable.
        count: how many processes; they are started when they are first needed.
    """

    def __init__(self, build: Callable[[], RecipeJob], count: int) -> None:
        self._build = build
        self._count = count
        self._context = _context()
        self._processes: dict[Connection, multiprocessing.process.BaseProcess] = {}

    def carry_out(self, job: RecipeJob, steps: Sequence[KeyedStep], progress: Progress, until: float | None) -> None:
        """Hand out the steps in their order as soon as what they need is done."""
        waiting, running = list(steps), Running()
        began = time.time()
        while waiting or running:
            if until is not None and time.time() > until:
                progress.left |= {step.name for step in waiting}
                waiting = []
            self._hand_out(waiting, running, progress)
            if not running:
                progress.left |= {step.name for step in waiting}
                return
            for connection in wait(list(running), timeout=0.5):
                assert isinstance(connection, Connection)
                self._receive(job, connection, waiting, running, progress)
            if until is not None and time.time() > until + GRACE * (until - began):
                progress.left |= {step.name for step, _ in running.values()}
                self.close()
                return

    def close(self) -> None:
        """End the processes, whatever they are doing: what they had finished is kept."""
        for process in self._processes.values():
            process.terminate()
        for connection in list(self._processes):
            self._end(connection)

    def _hand_out(self, waiting: list[KeyedStep], running: Running, progress: Progress) -> None:
        """Give every idle process a step, and start processes while there are fewer than wanted."""
        idle = [connection for connection in self._processes if connection not in running]
        for step in [step for step in waiting if progress.is_ready(step)]:
            if not idle and len(self._processes) < self._count:
                idle.append(self._start())
            if not idle:
                return
            waiting.remove(step)
            connection = idle.pop(0)
            running[connection] = (step, time.perf_counter())
            connection.send(step)

    def _start(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._build, theirs), daemon=True)
        process.start()
        theirs.close()
        self._processes[ours] = process
        return ours

    def _receive(
        self,
        job: RecipeJob,
        connection: Connection,
        waiting: list[KeyedStep],
        running: Running,
        progress: Progress,
    ) -> None:
        step, began = running.pop(connection)
        failure = self._answer(connection)
        seconds = time.perf_counter() - began
        if failure is not None and failure.memory and self._count > 1:
            self._count -= 1
            left = "1 process remains" if self._count == 1 else f"{self._count} processes remain"
            warnings.warn(f"{step.name} ran out of memory and is repeated; {left}", RuntimeWarning, stacklevel=2)
            progress.write(step, seconds, failure.reason)
            waiting.insert(0, step)
        else:
            progress.note(job, step, seconds, failure.reason if failure else None)

    def _answer(self, connection: Connection) -> StepFailure | None:
        """What a process returned of its step; one that died or has too little memory is gone afterwards."""
        try:
            failure: StepFailure | None = connection.recv()
        except (EOFError, ConnectionError):
            code = self._end(connection)
            return StepFailure(f"its process ended with code {code} (killed, or out of memory)", memory=False)
        if failure is not None and failure.memory:
            self._end(connection)
        return failure

    def _end(self, connection: Connection) -> int | None:
        process = self._processes.pop(connection)
        process.join()
        connection.close()
        return process.exitcode


def _context() -> ForkServerContext | SpawnContext:
    """How processes are started: from a server where the system has one, so that torch is imported once for all."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", __name__])
    return context


def _work(build: Callable[[], RecipeJob], connection: Connection) -> None:
    """The life of a worker process: build the job with the first step, do steps until the other end is closed.

    It ends when memory runs out: what it holds is free then, and an error of a GPU may last as long as its process.
    """
    import torch

    from didact.models.planner import is_out_of_memory

    torch.set_num_threads(1)
    job: RecipeJob | None = None
    while True:
        try:
            step: KeyedStep = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        failure: StepFailure | None = None
        try:
            job = job or build()
            job.do(step)
        except Exception as problem:  # one step may fail without the others
            failure = StepFailure(reason(problem), memory=is_out_of_memory(problem))
        try:
            connection.send(failure)
        except BrokenPipeError:  # the process that hands out steps is gone
            return
        if failure is not None and failure.memory:
            return


def reason(problem: Exception) -> str:
    """An error in a line or a few, of which the beginning says most."""
    return "".join(traceback.format_exception_only(problem)).strip()[:LONGEST]
