"""A small but real student for tests of the protocol, and lessons whose best hints are known."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from didact.simulation.simulability import Material
from didact.students.base import (
    Batch,
    Channel,
    CohortOutput,
    Course,
    Hint,
    Lesson,
    Student,
    StudentCard,
    StudentOutcome,
    TaskSetup,
)
from didact.types import Example, Span

GOOD, BAD = ("warm", "witty", "bright", "fine"), ("dull", "slow", "cold", "flat")
FILLERS = tuple(f"w{number}" for number in range(60))


@dataclass(frozen=True, kw_only=True)
class Words(Channel):
    """Hinted words count more; there is no loss to compute."""

    card: ClassVar[StudentCard] = StudentCard(
        "words", "closed form", "Hinted words count more.", "test", frozenset({"classes", "number"})
    )
    strength: float = 10.0

    def loss(self, reading: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Tally(Student):
    """Naive Bayes over words (or the mean answer of texts that share words); what was asked of it is counted."""

    card: ClassVar[StudentCard] = StudentCard(
        "tally", "closed form", "Counts words.", "test", frozenset({"classes", "number"}), frozenset({"words"})
    )
    smoothing: float = 1.0
    fails_at: int = -1
    asked: ClassVar[list[tuple[int, str]]] = []

    def taught(
        self, pool: Sequence[Lesson], courses: Sequence[Course], exam: Sequence[Example], lab: TaskSetup
    ) -> list[StudentOutcome]:
        Tally.asked.append((len(courses), lab.channel.card.name if lab.channel else ""))
        return [self._one(pool, course, exam, lab) for course in courses]

    def _one(self, pool: Sequence[Lesson], course: Course, exam: Sequence[Example], lab: TaskSetup) -> StudentOutcome:
        if course.seed == self.fails_at and course.weight > 0:
            return StudentOutcome(np.zeros(len(exam)), "its loss was not finite", {})
        sums: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for place, hint in zip(course.lessons.tolist(), course.hints, strict=True):
            lesson = pool[place]
            sign = float(lesson.answer) if lab.task == "number" else 2.0 * int(lesson.answer) - 1  # type: ignore[arg-type]
            for word in words(lesson.example.text):
                told = course.weight * weight_at(hint, word) * getattr(lab.channel, "strength", 0.0)
                sums[word.group()] = sums.get(word.group(), 0.0) + sign * (1 + told)
                counts[word.group()] += 1
        answers = []
        for example in exam:
            found = [sums.get(w.group(), 0.0) / (counts[w.group()] + self.smoothing) for w in words(example.text)]
            total = math.fsum(found)
            answers.append(total if lab.task == "number" else float(total > 0))
        return StudentOutcome(np.array(answers), None, {"lessons": float(len(course.lessons))})


def words(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"\S+", text))


def weight_at(hint: Hint | None, word: re.Match[str]) -> float:
    if hint is None:
        return 0.0
    pairs = zip(hint.spans, hint.weights.tolist(), strict=True)
    return float(sum(weight for span, weight in pairs if span.start == word.start()))


def reviews(count: int, seed: int) -> list[tuple[Example, int, int]]:
    """Texts of fillers with one word that decides; with its number among the words, and the class."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        label = int(rng.integers(2))
        line = rng.choice(FILLERS, size=12).tolist()
        place = int(rng.integers(12))
        line[place] = str(rng.choice(GOOD if label else BAD))
        found.append((Example(" ".join(line), id=f"{seed}-{number}"), label, place))
    return found


def hint_at(example: Example, places: Sequence[int]) -> Hint:
    spans = tuple(Span(*word.span()) for word in words(example.text))
    weights = np.zeros(len(spans))
    weights[list(places)] = 1 / len(places)
    return Hint(spans, weights)


def material(pool: int = 120, exam: int = 150, **changes: object) -> Material:
    """Oracle hints mark the word that decides, random ones any word."""
    taught, asked = reviews(pool, 1), reviews(exam, 2)
    rng = np.random.default_rng(3)
    hints = {
        "oracle": [hint_at(example, [place]) for example, _, place in taught],
        "random": [hint_at(example, [int(rng.integers(12))]) for example, _, _ in taught],
    }
    given = {
        "pool": [Lesson(example, label) for example, label, _ in taught],
        "exam": [Lesson(example, label) for example, label, _ in asked],
        "hints": hints,
        "controls": frozenset({"random"}),
    }
    return Material(**(given | changes))  # type: ignore[arg-type]
