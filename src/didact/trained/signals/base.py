"""What every signal does: prepare samples from a model and texts, turn outputs and a batch into a loss, and score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from torch import Tensor

from didact.protocols import Model
from didact.registry import Registry
from didact.settings import Configured
from didact.trained.labels import ReferenceLabels
from didact.trained.samples import TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Shape
from didact.types import Example, Floats, Level, Scale, Target, Units

REFERENCE = "reference"
"""What a signal needs that learns another explainer's scores."""


@dataclass(frozen=True)
class SignalCard:
    """What a registered signal is and needs.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: "distillation", "masking", "teaching", ...
        summary: one sentence.
        reference: where it was published.
        outputs: numbers per unit that it asks of a shape, in words; ``Signal.outputs`` is the number.
        needs: "reference" where it learns another explainer's scores, and capabilities of the explained model.
    """

    name: str
    family: str
    summary: str
    reference: str
    outputs: str
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class SignalTask:
    """What a signal prepares its samples from.

    Attributes:
        model: the explained model.
        train: training texts.
        validation: texts that epochs are compared by.
        labels: explanations to learn from, for signals that need a reference.
        level: of the units of signals that need none; the model's first where not given.
        scale: of the number that such signals explain; the model's first where not given.
    """

    model: Model
    train: Sequence[Example]
    validation: Sequence[Example] = ()
    labels: ReferenceLabels | None = None
    level: Level | None = None
    scale: Scale | None = None


class Signal(Configured, ABC):
    """What a shape learns from; a subclass's dataclass fields are its settings.

    ``prepare`` is called once. What the loss needs later and cannot be padded into targets goes into ``Sample.extra``
    (of a text) or ``TrainingSamples.shared`` (of all: the frozen model, students), also as live tensors and modules:
    ``loss`` finds both in its batch and may run them.
    """

    card: ClassVar[SignalCard]

    @classmethod
    def suited(cls, *, signed: bool, **settings: object) -> Self:
        """With defaults for references whose scores have a sign or not; settings that are given are kept."""
        return cls.configured(**settings)

    def fitted(self, samples: TrainingSamples) -> Self:
        """With the settings that it takes from the samples it prepared; itself where that is none."""
        return self

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers per unit that the shape must give."""

    @property
    @abstractmethod
    def signed(self) -> bool:
        """Whether a negative score means evidence against the target."""

    @property
    def absolute(self) -> bool:
        """Whether scores follow the size of a reference's weights, whatever their sign."""
        return False

    @abstractmethod
    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """Samples of the training and validation texts, read by the shape that is going to be trained."""

    @abstractmethod
    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """Loss per document, as the papers define it: (rows, units, outputs) -> (rows,).

        ``fit`` averages over the documents of a batch. A loss of the whole batch repeats its value in every row.
        """

    @property
    def follows_target(self) -> bool:
        """Whether scores are for the given target; otherwise they are for what is predicted, whatever is given."""
        return REFERENCE in self.card.needs

    @property
    def evaluations(self) -> int:
        """Evaluations of the model that ``finished`` takes for an explanation."""
        return 0

    def finished(
        self,
        model: Model,
        units: Sequence[Units],
        targets: Sequence[Target],
        values: Sequence[float],
        scores: list[Floats],
    ) -> list[Floats]:
        """Scores as an explanation shows them; as they are where they need nothing more of the model.

        Args:
            model: the explained model.
            units: of the examples.
            targets: what is explained.
            values: the targets' numbers, as predicted.
            scores: of each example's units.
        """
        return scores

    @abstractmethod
    def scores(self, outputs: Tensor) -> Tensor:
        """A score per unit, larger for stronger evidence: (..., outputs) -> (...)."""


SIGNALS: Registry[Signal, SignalCard] = Registry(
    "signal", "didact.trained.signals", [str(Path(__file__).parent)], "didact.signals"
)
register = SIGNALS.register
