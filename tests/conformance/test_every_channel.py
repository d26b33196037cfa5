"""Every registered channel passes every check that applies to it; planted faults do not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from didact.students.base import (
    CHANNELS,
    STUDENTS,
    Batch,
    Channel,
    ChannelCard,
    CohortOutput,
    LabelledExample,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.matching import reaches
from didact.testing import channels, students
from didact.types import Example
from tests.third_party.installed import installed

with installed():
    from toybox.toy_channel import Mass
    from toybox.toy_student import Pooled

ROWS = [(channel, name) for channel in CHANNELS.names() for name in channels.applicable(CHANNELS.get(channel)())]


@pytest.mark.parametrize(("channel", "name"), ROWS)
def test_conforms(channel: str, name: str) -> None:
    channels.check(name, CHANNELS.get(channel)())


def test_every_check_is_used() -> None:
    assert {name for _, name in ROWS} == set(channels.CHECKS)


@pytest.mark.parametrize("channel", CHANNELS.names())
def test_a_channel_is_a_file_of_its_name(channel: str) -> None:
    assert CHANNELS.get(channel).__module__ == f"didact.students.channels.{channel}"


# A feature prior of a third party; its channel with a loss and its student are in the toybox.


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


@pytest.mark.parametrize("name", channels.applicable(Emphasis()))
def test_a_third_partys_feature_prior_conforms(name: str) -> None:
    channels.check(name, Emphasis())


@pytest.mark.parametrize("name", students.WITH_HINTS)
def test_it_trains_our_student_that_takes_priors(name: str) -> None:
    assert [student for student in STUDENTS.names() if reaches(Emphasis.card, STUDENTS.card(student))] == ["ridge"]
    students.check(name, students.small(STUDENTS.get("ridge")), Emphasis())


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
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
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
