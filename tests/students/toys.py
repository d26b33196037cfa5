"""A small but real student for tests of the protocol, and training texts whose best hints are known."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from didact.simulation.simulability import SimulabilityData
from didact.students.base import (
    Channel,
    ChannelCard,
    Hint,
    LabelledExample,
    Student,
    StudentCard,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.types import Example, Span

GOOD, BAD = ("warm", "witty", "bright", "fine"), ("dull", "slow", "cold", "flat")
FILLERS = tuple(f"w{number}" for number in range(60))


@dataclass(frozen=True, kw_only=True)
class Words(Channel):
    """Hinted words count more; there is no loss to compute."""

    card: ClassVar[ChannelCard] = ChannelCard(
        "words", "closed form", "Hinted words count more.", "test", needs=frozenset({"word_counts"})
    )
    strength: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Tally(Student):
    """Naive Bayes over words (or the mean answer of texts that share words); its calls are recorded."""

    card: ClassVar[StudentCard] = StudentCard(
        "tally", "closed form", "Counts words.", "test", offers=frozenset({"word_counts"})
    )
    smoothing: float = 1.0
    fails_at: int = -1
    calls: ClassVar[list[tuple[int, str]]] = []

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        Tally.calls.append((len(runs), setup.channel.card.name if setup.channel else ""))
        return [self._one(pool, run, test, setup) for run in runs]

    def _one(
        self, pool: Sequence[LabelledExample], run: StudentRun, test: Sequence[Example], setup: TaskSetup
    ) -> StudentOutcome:
        if run.seed == self.fails_at and run.weight > 0:
            return StudentOutcome(np.zeros(len(test)), "its loss was not finite", {})
        sums: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for place, hint in zip(run.places.tolist(), run.hints, strict=True):
            labelled = pool[place]
            sign = float(labelled.answer) if setup.kind == "number" else 2.0 * int(labelled.answer) - 1  # type: ignore[arg-type]
            for word in words(labelled.example.text):
                told = run.weight * weight_at(hint, word) * getattr(setup.channel, "strength", 0.0)
                sums[word.group()] = sums.get(word.group(), 0.0) + sign * (1 + told)
                counts[word.group()] += 1
        answers = []
        for example in test:
            found = [sums.get(w.group(), 0.0) / (counts[w.group()] + self.smoothing) for w in words(example.text)]
            total = math.fsum(found)
            answers.append(total if setup.kind == "number" else float(total > 0))
        return StudentOutcome(np.array(answers), None, {"examples": float(len(run.places))})


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


def simulability_data(pool: int = 120, test: int = 150, **changes: object) -> SimulabilityData:
    """Oracle hints mark the word that decides, random ones any word."""
    taught, asked = reviews(pool, 1), reviews(test, 2)
    rng = np.random.default_rng(3)
    hints = {
        "oracle": [hint_at(example, [place]) for example, _, place in taught],
        "random": [hint_at(example, [int(rng.integers(12))]) for example, _, _ in taught],
    }
    given = {
        "pool": [LabelledExample(example, label) for example, label, _ in taught],
        "test": [LabelledExample(example, label) for example, label, _ in asked],
        "hints": hints,
        "controls": frozenset({"random"}),
    }
    return SimulabilityData(**(given | changes))  # type: ignore[arg-type]
