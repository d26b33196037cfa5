"""From training runs to outcomes: students of one kind in cohorts, trained, tested, and checked for failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from didact.progress import working
from didact.students.base import Cohort, CurvePoint, Ints, StudentOutcome, StudentRun, TaskSetup
from didact.students.batches import CohortData, TrainingBatches, check_runs
from didact.students.optimization import Schedule, products
from didact.students.predictions import Predictions, Predictor
from didact.students.trainer import CohortTrainer, TrainingLog
from didact.types import Floats

CohortFactory = Callable[[Sequence[int]], Cohort]
"""Makes untrained students from their seeds."""


def train_students(
    make: CohortFactory,
    data: CohortData,
    runs: Sequence[StudentRun],
    setup: TaskSetup,
    schedule: Schedule,
    together: int,
) -> list[StudentOutcome]:
    """Train a student for each run, up to ``together`` of them at once, and let all answer the test texts.

    Args:
        make: makes the students.
        data: training pool and test texts.
        runs: one per student.
        setup: kind of answer, channel and device.
        schedule: of the training.
        together: students trained at once; fewer where the device's memory does not hold them.

    Returns:
        One outcome per run, in order. ``details`` has the mean task loss of the first and the last epoch, the mean
        channel loss of the last epoch, and the number of steps.
    """
    check_runs(runs, len(data.pool))
    outcomes: dict[int, StudentOutcome] = {}
    waiting = _groups(runs, together)
    steps = sum(schedule.stretch(len(run.places)) * schedule.steps(len(run.places)) for run in runs)
    with working(f"training {len(runs)} students", steps), products(schedule.precision):
        while waiting:
            group = waiting.pop(0)
            try:
                trained = _train_group(make, data, [runs[number] for number in group], setup, schedule)
            except torch.OutOfMemoryError:
                if len(group) == 1:
                    raise
                torch.cuda.empty_cache()
                half = len(group) // 2
                waiting[:0] = [group[:half], group[half:]]
                continue
            outcomes.update(zip(group, trained, strict=True))
    return [outcomes[number] for number in range(len(runs))]


def _train_group(
    make: CohortFactory, data: CohortData, runs: Sequence[StudentRun], setup: TaskSetup, schedule: Schedule
) -> list[StudentOutcome]:
    """Outcomes of runs with equally many training examples, trained as one cohort."""
    seeds, stretch = [run.seed for run in runs], schedule.stretch(len(runs[0].places))
    schedule, setup = replace(schedule, epochs=stretch * schedule.epochs), replace(setup, curve=stretch * setup.curve)
    cohort = make(seeds)
    if not any(run.uses_hints for run in runs):
        setup = replace(setup, channel=None)
    trainer = CohortTrainer(cohort, setup, schedule, [run.weight for run in runs], seeds)
    batches = TrainingBatches(data, runs, setup, schedule)
    tests = _Tests(trainer, Predictor(data.test, setup, schedule, batches.scale), setup.curve)
    log = trainer.train(batches, tests.after_epoch)
    return [_outcome(number, run, data, setup, log, tests) for number, run in enumerate(runs)]


class _Tests:
    """Predictions of a cohort after the last epoch, and after every so many where there is a curve."""

    def __init__(self, trainer: CohortTrainer, predictor: Predictor, every: int) -> None:
        self.trainer, self.predictor, self.every = trainer, predictor, every
        self.points: list[tuple[int, int, Predictions]] = []

    def after_epoch(self, epoch: int, steps: int) -> None:
        """Answer the test texts where it is time."""
        if epoch == self.trainer.schedule.epochs or (self.every and epoch % self.every == 0):
            with self.trainer.evaluating() as cohort:
                self.points.append((epoch, steps, self.predictor.predict(cohort)))

    @property
    def last(self) -> Predictions:
        """After the last epoch."""
        return self.points[-1][2]

    def curve(self, student: int) -> tuple[CurvePoint, ...]:
        """A student's points; none where no curve is wanted."""
        made = (CurvePoint(epoch, steps, each.answers[student]) for epoch, steps, each in self.points)
        return tuple(made) if self.every else ()


def _outcome(
    number: int, run: StudentRun, data: CohortData, setup: TaskSetup, log: TrainingLog, tests: _Tests
) -> StudentOutcome:
    answers, epochs = tests.last.answers[number], tests.trainer.schedule.epochs
    details = _details(log, number, epochs)
    if setup.channel is None or not run.uses_hints:
        del details["channel_loss"]
    failure = _divergence(log, number, tests.last)
    if failure is None and not run.has_finite_hints:
        failure = "weights of its hints are not finite"
    if failure is None and setup.kind == "class":
        failure = _collapse(answers, data.answers[run.places], details)
    return StudentOutcome(answers, failure, details, tests.curve(number))


def _details(log: TrainingLog, student: int, epochs: int) -> dict[str, float]:
    """Mean losses of the first and the last epoch."""
    steps = len(log.task) // epochs
    return {
        "first_loss": float(log.task[:steps, student].mean()),
        "last_loss": float(log.task[-steps:, student].mean()),
        "steps": float(len(log.task)),
        "channel_loss": float(log.channel[-steps:, student].mean()),
    }


def _divergence(log: TrainingLog, student: int, predictions: Predictions) -> str | None:
    """Why a student's numbers are not finite, or None."""
    step = int(log.diverged[student])
    if step >= 0:
        return f"its loss or gradient was not finite at step {step + 1} of {len(log.task)}"
    return None if predictions.finite[student] else "its answers to the test texts are not finite"


def _collapse(answers: Ints | Floats, trained_on: Ints | Floats, details: dict[str, float]) -> str | None:
    """Why a student that predicts a single class learned nothing, or None."""
    first, last = details["first_loss"], details["last_loss"]
    is_varied = len(np.unique(trained_on)) == 1 or len(answers) < 2 or len(np.unique(answers)) > 1
    if is_varied or not last >= first:
        return None
    return f"it predicts {answers[0]} throughout, and its loss never fell (first {first:.4g}, last {last:.4g})"


def _groups(runs: Sequence[StudentRun], together: int) -> list[list[int]]:
    """Numbers of runs with equally many examples, up to ``together`` in a group, in groups of like size."""
    alike: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        alike.setdefault(len(run.places), []).append(number)
    groups: list[list[int]] = []
    for numbers in alike.values():
        size = -(-len(numbers) // -(-len(numbers) // together))
        groups += [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return groups
