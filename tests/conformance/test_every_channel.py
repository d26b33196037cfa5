"""Every registered channel passes every check that applies to it; so do channels and students of third parties."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from didact.students.base import (
    CHANNELS,
    STUDENTS,
    AttentionView,
    Batch,
    Channel,
    ChannelCard,
    Cohort,
    CohortOutput,
    LabelledExample,
    LossChannel,
    Student,
    StudentCard,
    StudentOutcome,
    TaskSetup,
    TrainingRun,
)
from didact.students.batches import cohort_data
from didact.students.cohort_training import train_students
from didact.students.matching import check_setup, reaches, reaching
from didact.students.optimization import Schedule
from didact.students.stacked import StackedEmbedding, StackedLinear
from didact.students.tokenized import WordNumbers, worded
from didact.testing import channels, students
from didact.types import Example

ROWS = [(channel, name) for channel in CHANNELS.names() for name in channels.applicable(CHANNELS.get(channel)())]


@pytest.mark.parametrize(("channel", "name"), ROWS)
def test_conforms(channel: str, name: str) -> None:
    channels.check(name, CHANNELS.get(channel)())


def test_every_check_is_used() -> None:
    assert {name for _, name in ROWS} == set(channels.CHECKS)


@pytest.mark.parametrize("channel", CHANNELS.names())
def test_a_channel_is_a_file_of_its_name(channel: str) -> None:
    assert CHANNELS.get(channel).__module__ == f"didact.students.channels.{channel}"


# Channels and a student of a third party, with nothing of ours but the base classes.


@dataclass(frozen=True, kw_only=True)
class Mass(LossChannel):
    """-log of the attention on hinted positions, weighted by the hint."""

    card: ClassVar[ChannelCard] = ChannelCard(
        "mass", "network", "Asks for attention on hinted words.", "a test", needs=frozenset({"attention_row"})
    )

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        assert output.attention is not None
        total = batch.hints.sum(-1)
        share = (batch.hints * output.attention).sum(-1) / total.clamp_min(1e-9)
        return torch.where(total > 0, -(share + 1e-9).log(), 0.0)


@dataclass(frozen=True, kw_only=True)
class Emphasis(Channel):
    """A feature prior that knows nothing of ours."""

    card: ClassVar[ChannelCard] = ChannelCard(
        "emphasis", "closed form", "Doubles the variance per hint.", "a test", needs=frozenset({"feature_prior"})
    )
    gate: float = 0.5

    def variances(self, given: Tensor, occurrences: Tensor, weight: float) -> Tensor:
        return 2 ** (weight * given / (1 + occurrences))

    def proportions(self, ratios: Tensor, weight: float) -> Tensor:
        return 2 ** (weight * ratios)


@dataclass(frozen=True, kw_only=True)
class Pooled(Student):
    """Word vectors under attention."""

    card: ClassVar[StudentCard] = StudentCard(
        "pooled", "network", "Attention over word vectors.", "a test", offers=frozenset({"attention_row", "states"})
    )
    epochs: int = 10
    learning_rate: float = 3e-2

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[TrainingRun], test: Sequence[Example], setup: TaskSetup
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


@pytest.mark.parametrize(
    ("channel", "name"),
    [(channel, name) for channel in (Mass(), Emphasis()) for name in channels.applicable(channel)],
    ids=lambda value: value if isinstance(value, str) else value.card.name,
)
def test_a_third_partys_channel_conforms(channel: Channel, name: str) -> None:
    channels.check(name, channel)


@pytest.mark.parametrize("name", students.applicable(Pooled.card))
def test_a_third_partys_student_conforms(name: str) -> None:
    students.check(name, Pooled())


def test_it_is_reached_by_our_channels() -> None:
    assert reaching(Pooled.card) == ["attention", "labelling"]


@pytest.mark.parametrize("name", students.WITH_HINTS)
@pytest.mark.parametrize("channel", [*reaching(Pooled.card), "mass"])
def test_channels_train_it(channel: str, name: str) -> None:
    students.check(name, Pooled(), Mass() if channel == "mass" else CHANNELS.get(channel)())


REACHED = [
    (student, channel)
    for student in STUDENTS.names()
    for channel in (Mass(), Emphasis())
    if reaches(channel.card, STUDENTS.card(student))
]


def test_its_channels_reach_every_one_of_ours_that_offers_what_they_need() -> None:
    assert [(student, channel.card.name) for student, channel in REACHED] == [
        ("bilstm_attention", "mass"),
        ("ridge", "emphasis"),
        ("transformer", "mass"),
    ]


@pytest.mark.parametrize("name", students.WITH_HINTS)
@pytest.mark.parametrize(("student", "channel"), REACHED, ids=lambda v: v if isinstance(v, str) else v.card.name)
def test_its_channels_train_our_students(student: str, channel: Channel, name: str) -> None:
    students.check(name, students.small(STUDENTS.get(student)), channel)


# The checks themselves, on planted faults.


class Everywhere(Mass):
    """Has a loss for empty hints."""

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        return super().loss(output, batch, head) + output.states.square().mean((-1, -2))


class Away(Mass):
    """Pushes attention away."""

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        share = (batch.hints * output.attention).sum(-1)  # type: ignore[operator]
        return torch.where(batch.hints.sum(-1) > 0, share + 1, 0.0)


class Mixed(Mass):
    """Mixes students."""

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        return super().loss(output, batch, head).mean(0, keepdim=True).expand(len(batch.hints), -1)


class Detached(Mass):
    """Hints are constants to it."""

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        return super().loss(output, replace(batch, hints=batch.hints.detach()), head)


@pytest.mark.parametrize(
    ("channel", "name"),
    [
        (Everywhere(), "one_finite_loss_per_example"),
        (Everywhere(), "gradients_are_finite"),
        (Away(), "the_gradient_pulls_towards_the_hint"),
        (Mixed(), "students_do_not_affect_each_other"),
        (Detached(), "hints_may_be_live"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_planted_faults_are_found(channel: Channel, name: str) -> None:
    with pytest.raises(AssertionError):
        channels.check(name, channel)


class Moody(Pooled):
    """Its answers depend on who else is trained."""

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[TrainingRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        outcomes = super().train_and_predict(pool, runs, test, replace(setup, channel=None))
        return [replace(outcome, answers=outcome.answers + len(runs), failure=None) for outcome in outcomes]


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("others_change_nothing", None),
        ("learns_a_separable_corpus", None),
        ("refuses_channels_that_do_not_reach_it", None),
        ("hints_make_a_difference", Mass()),
        ("hints_that_are_not_finite_are_reported", Mass()),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_faulty_student_is_found(name: str, channel: Channel | None) -> None:
    with pytest.raises(AssertionError):
        students.check(name, Moody(), channel)
