"""What the pieces of this room say to each other: lessons and hints, courses and what comes of them, readings, cohorts.

Students of one kind are trained many at a time as one tensor program, a *cohort*: the first axis of every tensor is the
student (S), then come the examples of its batch (B), the positions of a text (L) and the width of a state (D). One
student alone is a cohort of one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.registry import Registry
from didact.settings import Configured
from didact.types import Example, Floats, Span

Task = Literal["classes", "number", "span"]
"""What is imitated: a class, a number, or an answer's span in the passage (field 1 of a question and its passage)."""

Answer = int | float | Span
"""What the teacher says of one example, by task."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Lesson:
    """An example and the teacher's answer, never the gold label unless people are the teacher."""

    example: Example
    answer: Answer


@dataclass(frozen=True, eq=False)
class Hint:
    """What a student may be told of one example while it learns, in places of the source text.

    Attributes:
        spans: the explained pieces of the text.
        weights: their importance, none negative; all zero says nothing. Sets have equal weights on their members.
        links: phrases that mean the same, of the question (field 0) and of the passage (field 1); for answers.
    """

    spans: tuple[Span, ...]
    weights: Floats
    links: tuple[tuple[Span, Span], ...] = ()


@dataclass(frozen=True, eq=False)
class Course:
    """What one student is taught.

    Attributes:
        lessons: places in the pool of lessons.
        hints: one per lesson; None where the student is told nothing.
        weight: of the channel's loss beside the task's; 0 teaches without hints.
        seed: of the student's first weights and of the order of its lessons.
    """

    lessons: Ints
    hints: Sequence[Hint | None]
    weight: float
    seed: int


@dataclass(frozen=True, eq=False)
class StudentOutcome:
    """What a student answers to the exam.

    Attributes:
        answers: class numbers (exam,), numbers (exam,), or first and last character of the answers (exam, 2).
        trouble: why its answers do not count (its loss was not finite, or it answers one class only after a loss that
            never fell); None where all is well.
        details: numbers about the training, such as the last losses.
    """

    answers: NDArray[Any]
    trouble: str | None
    details: Mapping[str, float]


@dataclass(frozen=True)
class StudentCard:
    """What a registered student or channel is.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: "network" or "closed form".
        summary: one sentence.
        reference: where it was published, or what it follows.
        tasks: what it can imitate, or what the channel can accompany.
        channels: for students, the channels that reach it; for channels empty.
    """

    name: str
    family: str
    summary: str
    reference: str
    tasks: frozenset[Task] = frozenset({"classes", "number"})
    channels: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Student(Configured, ABC):
    """A kind of student; a subclass's dataclass fields are its settings."""

    card: ClassVar[StudentCard]

    @abstractmethod
    def taught(
        self, pool: Sequence[Lesson], courses: Sequence[Course], exam: Sequence[Example], lab: TaskSetup
    ) -> list[StudentOutcome]:
        """One outcome per course, each as if it were the only one; the exam is read without hints."""


@dataclass(frozen=True)
class TaskSetup:
    """Where and how students are taught.

    Attributes:
        task: what is imitated.
        outputs: number of classes; 1 for a number.
        channel: how hints reach the student; None where nobody is told anything.
        device: "cpu" or "cuda".
        together: students trained at once; None leaves it to the student, which knows what is faster on the device.
    """

    task: Task = "classes"
    outputs: int = 2
    channel: Channel | None = None
    device: str = "cpu"
    together: int | None = None


# What networks and channels exchange.

AttentionView = Literal["row", "matrix"]
"""Attention as a channel wants it: a distribution over positions (S, B, L), or from each to each (S, B, L, L)."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Lessons of a cohort's students, padded.

    Attributes:
        ids: token numbers (S, B, L).
        types: segment numbers (S, B, L); zeros where the network has none.
        mask: whether a position holds a token (S, B, L), bool.
        text: whether it stands for characters of the source, not for a special token (S, B, L), bool.
        answers: (S, B) classes or numbers; (S, B, 2) first and last position of the answer's tokens.
        hints: weights (S, B, L), zero outside ``text``; all zero where a student is told nothing.
        links: (S, B, K, 2, L) float membership of positions in the two phrases of each link, zeros beyond the last one;
            None where there are no links.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    text: Tensor
    answers: Tensor
    hints: Tensor
    links: Tensor | None = None


@dataclass(frozen=True, eq=False)
class CohortOutput:
    """What a cohort makes of a batch.

    Attributes:
        answers: logits (S, B, C), numbers (S, B), or logits of first and last position (S, B, L, 2).
        states: last hidden states (S, B, L, D).
        attention: probabilities as asked for; None where nobody asked.
    """

    answers: Tensor
    states: Tensor
    attention: Tensor | None = None


class Cohort(nn.Module, ABC):
    """Several networks of one kind as one; every parameter that is trained has the student as its first axis."""

    size: int
    width: int

    @abstractmethod
    def read(self, batch: Batch, look: AttentionView | None = None) -> CohortOutput:
        """Answers, states and, where asked, attention."""


@dataclass(frozen=True, kw_only=True)
class Channel(Configured, ABC):
    """How hints become a loss; a subclass's dataclass fields are its settings."""

    card: ClassVar[StudentCard]
    look: ClassVar[AttentionView | None] = None

    def head(self, width: int, seeds: Sequence[int]) -> nn.Module | None:
        """Its own parameters, student first, each student's drawn from its seed; None where it has none."""
        return None

    @abstractmethod
    def loss(self, reading: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """Loss of each example (S, B), zero where its hint says nothing; not yet weighted."""


_HERE = Path(__file__).parent
STUDENTS: Registry[Student, StudentCard] = Registry(
    "student", "didact.students.kinds", [str(_HERE / "kinds")], "didact.students"
)
CHANNELS: Registry[Channel, StudentCard] = Registry(
    "channel", "didact.students.channels", [str(_HERE / "channels")], "didact.channels"
)
