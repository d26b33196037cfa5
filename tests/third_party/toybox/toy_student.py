"""A student: word vectors under attention, many trained at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from didact.students.base import (
    STUDENTS,
    AttentionView,
    Batch,
    Cohort,
    CohortOutput,
    LabelledExample,
    Student,
    StudentCard,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.batches import cohort_data
from didact.students.cohort_training import train_students
from didact.students.matching import check_setup
from didact.students.optimization import Schedule
from didact.students.stacked import StackedEmbedding, StackedLinear
from didact.students.tokenized import WordNumbers, worded
from didact.types import Example


@STUDENTS.register(
    StudentCard(
        "toy_student",
        "network",
        "Attention over word vectors.",
        "a test",
        offers=frozenset({"attention_row", "states"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Pooled(Student):
    """Averages word vectors by attention, and answers from the average."""

    epochs: int = 10
    learning_rate: float = 3e-2

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        check_setup(self, setup)
        texts = [labelled.example for labelled in pool]
        words = WordNumbers.of(texts, min_count=1, largest=1000)
        data = cohort_data(pool, worded(texts, words, 32), worded(test, words, 32), setup)
        schedule = Schedule(learning_rate=self.learning_rate, batch_size=8, epochs=self.epochs)
        return train_students(
            lambda seeds: PooledCohort(seeds, len(words), setup), data, runs, setup, schedule, setup.together or 4
        )


class PooledCohort(Cohort):
    """The networks of several students side by side."""

    def __init__(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> None:
        super().__init__()
        self.size, self.width, self.kind = len(seeds), 8, setup.kind
        drawn = [torch.randn(words, 8, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        self.vectors = StackedEmbedding(torch.stack(drawn))
        self.scorer = StackedLinear.drawn(seeds, 8, 1, 0.1)
        self.output = StackedLinear.drawn(seeds, 8, setup.outputs, 0.1)

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        states = self.vectors(batch.ids.flatten(0, 1)).unflatten(0, batch.ids.shape[:2])
        scores = self.scorer(states)[..., 0].masked_fill(~batch.mask, -1e9)
        attention = scores.softmax(-1)
        answers = self.output((attention[..., None] * states).sum(2))
        return CohortOutput(answers[..., 0] if self.kind == "number" else answers, states, attention if view else None)
