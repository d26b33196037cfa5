"""What learning to teach takes, before it is done: counted students, and seconds from timing a few of their steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import cast

import numpy as np

from didact.models.head_scores import layer_numbers
from didact.protocols import Heads
from didact.students.base import Student, StudentRun, TaskSetup
from didact.trained.learning import start
from didact.trained.presets.base import TrainingInput
from didact.trained.scaffolding.learning import TeachingTraining, placed
from didact.trained.scaffolding.teaching import FreshStudents, TeachingTexts
from didact.types import Estimate

TIMED = {"cpu": 1, "cuda": 16}
"""Students that are timed together, as many train on such a device."""

FORWARD = 1 / 3
"""What a test of a text takes, in training steps of a text."""

POPULATION = 6
"""Students of a population, unless the signal's settings have another number."""


def teaching_costs(given: TrainingInput, recipe: TeachingTraining) -> list[Estimate]:
    """At most so much: a race and a training may end earlier."""
    split = start(given, recipe)
    recipe = placed(recipe, given)
    units = given.model.units(split.train, recipe.level)
    texts = TeachingTexts.of(given.model, units, split.validation or split.held_out or split.train)
    fresh, parts = recipe.fresh, list[tuple[str, int, int, int]]()
    taught, tests = passes(fresh, len(texts.pool))
    if recipe.search is not None:
        depth, heads = cast("Heads", given.model).head_grid
        layers = layer_numbers(cast("Sequence[int] | None", recipe.shape_settings.get("layers")), depth)
        most = recipe.search.most_students(len(layers), heads)
        parts.append((f"search, {most} students at most", most, taught, tests * len(split.validation)))
    if recipe.meta:
        students = int(cast("int", recipe.signal_settings.get("students", POPULATION)))
        read = recipe.training.epochs * min(fresh.examples, len(texts.pool))
        parts.append((f"meta training, {students} students", students, 2 * read, 2 * read))
    if recipe.students and split.held_out:
        compared = 3 * recipe.students
        parts.append((f"comparison, {compared} students", compared, taught, tests * len(split.held_out)))
    pace, number = seconds_per_text(fresh, texts), sum(map(len, units))
    return [
        Estimate(name, len(units), number, count * (learned + tested), count * learned, _seconds(part, pace))
        for part in parts
        for name, count, learned, tested in [part]
    ]


def passes(fresh: FreshStudents, pool: int) -> tuple[int, int]:
    """Texts that a fresh student learns from, repetitions counted, and how often it is tested."""
    examples, epochs = max(2, min(fresh.examples, pool // 2)), int(getattr(fresh.student, "epochs", 1))
    return examples * epochs, -(-epochs // fresh.curve)


def seconds_per_text(fresh: FreshStudents, texts: TeachingTexts) -> float:
    """Of a student's training, from the difference of a long and a short one; 0 for students that make no steps."""
    if not hasattr(fresh.student, "epochs"):
        return 0.0
    size = min(int(getattr(fresh.student, "batch_size", 8)), len(texts.pool))
    count = TIMED.get(fresh.device, 1)
    taken = [_timed(fresh, texts, size, epochs, count) for epochs in (1, 1, 3)]  # the first one warms up
    return max(0.0, taken[2] - taken[1]) / (2 * size * count)


def _timed(fresh: FreshStudents, texts: TeachingTexts, size: int, epochs: int, count: int) -> float:
    runs = [StudentRun(np.arange(size), [None] * size, 0.0, seed) for seed in range(count)]
    setup = TaskSetup(texts.kind, texts.outputs, None, fresh.device, together=count)
    student: Student = dataclasses.replace(fresh.student, epochs=epochs)  # type: ignore[call-arg] # checked by the caller
    began = time.perf_counter()
    student.train_and_predict(texts.pool[:size], runs, [texts.test[0].example], setup)
    return time.perf_counter() - began


def _seconds(part: tuple[str, int, int, int], pace: float) -> float:
    _, count, learned, tested = part
    return pace * count * (learned + FORWARD * tested)
