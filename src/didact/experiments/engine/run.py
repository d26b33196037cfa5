"""Carries out a job: rounds of steps until all are done or time is up, then its files from what there is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from didact import disk
from didact.errors import DidactError
from didact.experiments.engine.executors import Executor, InProcess, Progress, WorkerProcesses
from didact.experiments.engine.folder import claimed, publish
from didact.experiments.engine.kinds import RECIPES
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.toml import TomlRecipe
from didact.progress import advance, working

LOG = "steps.jsonl"


@dataclass(frozen=True)
class RunResult:
    """What became of a run.

    Attributes:
        folder: of the run.
        left: steps that were planned and not done because time was up; a later call does them.
        complete: whether nothing is left to do.
    """

    folder: Path
    left: int
    complete: bool


@dataclass(frozen=True)
class JobSource:
    """Makes the job of a recipe, in this process or in a worker's."""

    kind: str
    recipe: TomlRecipe
    options: RunOptions

    def __call__(self) -> RecipeJob:
        """A new job."""
        return RECIPES.get(self.kind)().job(self.recipe, self.options)


def run_recipe(recipe: TomlRecipe, options: RunOptions, job: RecipeJob | None = None) -> RunResult:
    """Carry out a recipe with as many processes as the options say; what was done before is not done again.

    Args:
        recipe: what to do.
        options: where.
        job: the recipe's job, where it was made already.
    """
    _check_places(options)
    source = JobSource(recipe.kind, recipe.on_device(options.device), options)
    return run_job(source() if job is None else job, source)


def run_job(job: RecipeJob, source: JobSource | None = None) -> RunResult:
    """Carry out a job.

    Args:
        job: what to do.
        source: makes the same job in other processes; needed for more than one worker.

    Results of an earlier run in the same folder stay until all new ones are written.

    Raises:
        InputError: the folder belongs to another recipe or another process, or cannot be written.
        DidactError: steps failed in worker processes; all others were done, and the files written from them.
    """
    options = job.options
    _check_places(options)
    with claimed(job):
        progress = Progress(options.out / LOG)
        complete = _carried_out(job, source, progress)
    if progress.failed:
        first, why = next(iter(progress.failed.items()))
        many = len(progress.failed)
        which = f"{first} failed" if many == 1 else f"{many} steps failed, the first of them {first}"
        raise DidactError(
            f"{which}: {why}; all others are kept, see {progress.log}, and the same command resumes from there"
        )
    return RunResult(options.out, len(progress.left), complete)


def _check_places(options: RunOptions) -> None:
    """Refuse folders that cannot be written before the work is done."""
    disk.check_writable(options.out / LOG)
    disk.check_writable(options.parts.root / LOG)


def _carried_out(job: RecipeJob, source: JobSource | None, progress: Progress) -> bool:
    """Do the steps and publish results; returns whether all could be planned and done."""
    options = job.options
    job.begin()
    publish(options.out)
    executor: Executor = InProcess()
    if source is not None and options.workers > 1:
        executor = WorkerProcesses(source, options.workers)
    try:
        complete = _do_rounds(job, executor, progress)
    finally:
        executor.close()
    _close(job, source, progress)
    job.finish(complete=complete)
    publish(options.out)
    return complete


def _do_rounds(job: RecipeJob, executor: Executor, progress: Progress) -> bool:
    """All rounds; false where one could not be done in full, so that the next cannot be planned."""
    deadline = job.options.deadline
    until = None
    if deadline is not None:
        until = deadline - min(job.closing_seconds, max(0.0, deadline - time.time()) / 4)
    for planned in job.rounds():
        missing = _missing(job, planned, progress)
        with working(f"{job.name}: {planned.title}", len(planned.steps)):
            advance(len(planned.steps) - len(missing))
            executor.carry_out(job, missing, progress, until)
        if progress.left or progress.failed:
            return False
    return True


def _missing(job: RecipeJob, planned: Round, progress: Progress) -> list[KeyedStep]:
    """The steps of a round that no earlier run has done."""
    missing = []
    for step in planned.steps:
        if job.is_done(step):
            progress.done.add(step.name)
        else:
            missing.append(step)
    return missing


def _close(job: RecipeJob, source: JobSource | None, progress: Progress) -> None:
    """The closing steps with the machine to themselves: in a process of their own where others worked before."""
    steps = [step for step in job.closing() if not job.is_done(step)]
    if not steps or job.options.is_late():
        progress.left |= {step.name for step in steps}
        return
    executor: Executor = InProcess()
    if source is not None and job.options.workers > 1:
        executor = WorkerProcesses(source, 1)
    try:
        with working(f"{job.name}: closing", len(steps)):
            executor.carry_out(job, steps, progress, job.options.deadline)
    finally:
        executor.close()
