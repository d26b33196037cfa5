"""The vocabulary of this package: labelled examples and hints, training runs and their outcomes, cohorts and channels.

Students of one kind are trained many at a time as one tensor program, a *cohort*: the first axis of every tensor is the
student (S), then come the examples of its batch (B), the positions of a text (L) and the width of a state (D). One
student alone is a cohort of one.

A *channel* turns hints into something a student learns from. It states what it needs and a student states what it
offers; a channel reaches every student with ``needs <= offers`` (``didact.students.matching``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import InputError
from didact.registry import Registry
from didact.settings import Configured
from didact.types import Answer, AnswerKind, Example, Floats, Region, Span

Ints = NDArray[np.int64]

Capability = str
"""What a channel needs of a student. Those of the built-in ones:

    attention_row       a distribution over the positions of a text, such as the attention of the first token
    attention_matrix    attention from each position to each
    head_scores         logits of every attention head: its mean query times the key of each position
    states              a hidden state for each position
    feature_prior       prior variances of features, for students that are solved in closed form
"""


Reads = Literal["text", "image"]
"""What a student is given."""


@dataclass(frozen=True)
class LabelledExample:
    """An example and the teacher's answer; the gold answer only where people are the teacher."""

    example: Example
    answer: Answer


@dataclass(frozen=True, eq=False)
class Hint:
    """What a student may see of an explanation while it is trained, as regions of the source.

    Attributes:
        spans: the explained pieces of the text, or parts of the image.
        weights: their importance, none negative; all zero is an empty hint. Sets have equal weights on their members.
        links: phrases that mean the same, of the question (field 0) and of the passage (field 1); for answer spans.
    """

    spans: tuple[Region, ...]
    weights: Floats
    links: tuple[tuple[Span, Span], ...] = ()


def spans_of(regions: Sequence[Region]) -> list[Span]:
    """Regions of a text; refused where one is a part of an image."""
    spans = [region for region in regions if isinstance(region, Span)]
    if len(spans) != len(regions):
        raise InputError("a hint points at a part of an image, and the student reads texts; give hints of texts")
    return spans


@dataclass(frozen=True, eq=False)
class StudentRun:
    """What one student is trained on.

    Attributes:
        places: places of its training examples in the pool.
        hints: one per training example; None where it has none.
        weight: of the channel's loss beside the task's; 0 trains without hints.
        seed: of the student's first weights and of the order of its training examples.
    """

    places: Ints
    hints: Sequence[Hint | None]
    weight: float
    seed: int

    @property
    def uses_hints(self) -> bool:
        """Whether there are hints that count."""
        return self.weight != 0 and any(hint is not None for hint in self.hints)

    @property
    def has_finite_hints(self) -> bool:
        """Whether no weight of a hint that counts is infinite or NaN."""
        return self.weight == 0 or all(np.isfinite(hint.weights).all() for hint in self.hints if hint is not None)


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """A student's answers to the test examples at one time of its training.

    Attributes:
        epoch: epochs that it was trained for.
        steps: steps of the optimizer until then.
        answers: as those of the outcome.
    """

    epoch: int
    steps: int
    answers: Ints | Floats


@dataclass(frozen=True, eq=False)
class StudentOutcome:
    """A trained student's answers to the test examples.

    Attributes:
        answers: class numbers (items,), numbers (items,), or first and last character of answer spans (items, 2).
        failure: why its answers do not count (its loss was not finite, or it predicts a single class after a loss that
            never fell); None where training went well.
        details: numbers about the training, such as the last losses.
        curve: answers during the training, where the setup has a curve and the student has epochs; the last point has
            the outcome's own answers.
    """

    answers: Ints | Floats
    failure: str | None
    details: Mapping[str, float]
    curve: tuple[CurvePoint, ...] = ()

    @classmethod
    def stored(
        cls,
        answers: NDArray[np.generic],
        failure: str | None,
        details: Mapping[str, float],
        curve: Sequence[tuple[int, int, NDArray[np.generic]]],
    ) -> StudentOutcome:
        """An outcome from what a store kept of it."""
        points = tuple(CurvePoint(epoch, steps, cast("Ints | Floats", own)) for epoch, steps, own in curve)
        return cls(cast("Ints | Floats", answers), failure, details, points)


@dataclass(frozen=True)
class StudentCard:
    """What a registered kind of student is.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: "network" or "closed form".
        summary: one sentence.
        reference: where it was published, or what it follows.
        answers: kinds of answers it can imitate.
        offers: what channels can use of it.
        reads: "text" for texts and pairs of texts, or "image".
    """

    name: str
    family: str
    summary: str
    reference: str
    answers: frozenset[AnswerKind] = frozenset({"class", "number"})
    offers: frozenset[Capability] = frozenset()
    reads: Reads = "text"


@dataclass(frozen=True)
class ChannelCard:
    """What a registered channel is.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: "network" or "closed form": which students it is made for.
        summary: one sentence.
        reference: where it was published, or what it follows.
        answers: kinds of answers that a student may imitate while it uses the channel.
        needs: what a student must offer.
    """

    name: str
    family: str
    summary: str
    reference: str
    answers: frozenset[AnswerKind] = frozenset({"class", "number"})
    needs: frozenset[Capability] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Student(Configured, ABC):
    """A kind of student; a subclass's dataclass fields are its settings."""

    card: ClassVar[StudentCard]

    @abstractmethod
    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        """Train one student per run and let it answer the test examples, for which it gets no hints.

        Args:
            pool: examples that runs refer to by their places.
            runs: one per student.
            test: examples to be answered.
            setup: kind of answer, channel and device.

        Returns:
            One outcome per run, in order, each as if it were the only one.
        """


@dataclass(frozen=True)
class TaskSetup:
    """What students imitate, how hints reach them, and where they are trained.

    Attributes:
        kind: of the teacher's answers.
        outputs: number of classes; 1 for a number.
        channel: how hints reach the student; None where no student has any.
        device: "cpu" or "cuda".
        together: students trained at once; None leaves it to the student, which knows what is faster on the device.
        curve: the test examples are answered after every so many epochs, and after the last; 0 only after the last.
    """

    kind: AnswerKind = "class"
    outputs: int = 2
    channel: Channel | None = None
    device: str = "cpu"
    together: int | None = None
    curve: int = 0


# What networks and channels exchange.

AttentionView = Literal["row", "matrix", "heads"]
"""Attention as a channel needs it.

    row       a distribution over positions (S, B, L)
    matrix    a distribution for each position (S, B, L, L)
    heads     logits of every head of every layer, layer by layer (S, B, H, L): scaling * (mean query over the positions
              of the text) . key
"""

VIEWS: Mapping[Capability, AttentionView] = {
    "attention_row": "row",
    "attention_matrix": "matrix",
    "head_scores": "heads",
}
"""The view of attention by what a channel needs."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Training examples of a cohort's students, padded.

    ``hints`` may be computed by a network and require a gradient: losses are differentiable with respect to them. Use
    ``dataclasses.replace(batch, hints=...)``.

    Attributes:
        ids: token numbers (S, B, L).
        types: segment numbers (S, B, L); zeros where the network has none.
        mask: whether a position holds a token (S, B, L), bool.
        text: whether it stands for characters of the source, not for a special token (S, B, L), bool.
        answers: (S, B) classes or numbers; (S, B, 2) first and last position of the answer's tokens.
        hints: weights (S, B, L), zero outside ``text``; all zero where an example has no hint.
        links: (S, B, K, 2, L) float membership of positions in the two phrases of each link, zeros beyond the last
            link; None where there are no links.
        passage: positions that an answer span may cover (S, B, L), bool; None where answers are no spans.
        places: places of the examples in the pool (S, B); None for batches of other origin.
        pixels: of images (S, B, channels, height, width); None for texts.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    text: Tensor
    answers: Tensor
    hints: Tensor
    links: Tensor | None = None
    passage: Tensor | None = None
    places: Tensor | None = None
    pixels: Tensor | None = None


@dataclass(frozen=True, eq=False)
class CohortOutput:
    """What a cohort computes for a batch.

    Attributes:
        answers: logits (S, B, C), numbers (S, B), or logits of first and last position (S, B, L, 2).
        states: last hidden states (S, B, L, D).
        attention: in the requested view; None where none was requested.
    """

    answers: Tensor
    states: Tensor
    attention: Tensor | None = None


class Cohort(nn.Module, ABC):
    """Several networks of one kind as one module.

    In a cohort of two or more, every trained parameter has the student as its first axis.

    Attributes:
        size: number of students.
        width: of a hidden state.
        heads: attention heads of all layers, for those that have the view "heads"; else 0.
        twice_differentiable: whether its gradients can be differentiated, as learning hints through a step needs.
    """

    size: int
    width: int
    heads: int = 0
    twice_differentiable: bool = True

    @abstractmethod
    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        """Answers, states and, where a view is requested, attention."""


@dataclass(frozen=True, kw_only=True)
class Channel(Configured):
    """How hints reach a student; a subclass's dataclass fields are its settings.

    Subclasses of ``LossChannel`` reach networks. A channel whose card needs "feature_prior" has the methods of
    ``FeaturePrior`` and reaches students in closed form.
    """

    card: ClassVar[ChannelCard]


@dataclass(frozen=True, kw_only=True)
class LossChannel(Channel, ABC):
    """A channel that is a loss beside the task's."""

    @property
    def view(self) -> AttentionView | None:
        """The view of attention that the card's needs ask for."""
        return next((view for need, view in VIEWS.items() if need in self.card.needs), None)

    def head(self, width: int, seeds: Sequence[int]) -> nn.Module | None:
        """The channel's own parameters, student first, each student's drawn from its seed; None where it has none.

        Args:
            width: of a hidden state; for channels with the view "heads", the number of heads.
            seeds: one per student.
        """
        return None

    @abstractmethod
    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """Loss of each example (S, B), zero where its hint is empty; not yet weighted."""


@runtime_checkable
class FeaturePrior(Protocol):
    """A channel for closed-form students: hints decide how much each feature may count before answers are seen."""

    @property
    def gate(self) -> float:
        """Penalty of the regression that predicts an occurrence's ratio from its hidden state."""

    def variances(self, given: Tensor, occurrences: Tensor, weight: float) -> Tensor:
        """Prior variances (V,) from what hints gave to each word (V,), and its occurrences in hinted texts (V,)."""

    def proportions(self, ratios: Tensor, weight: float) -> Tensor:
        """How much occurrences count in the mean of a text's states, from their predicted ratios; the same shape."""


_HERE = Path(__file__).parent
STUDENTS: Registry[Student, StudentCard] = Registry(
    "student", "didact.students.kinds", [str(_HERE / "kinds")], "didact.students"
)
CHANNELS: Registry[Channel, ChannelCard] = Registry(
    "channel", "didact.students.channels", [str(_HERE / "channels")], "didact.channels"
)
