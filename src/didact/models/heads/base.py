"""What the engine needs to know about a network's outputs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import torch
from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.models.batch import EncodedBatch, placed
from didact.protocols import Reads, TargetLike
from didact.registry import Registry
from didact.types import AnswerKind, Example, Prediction, Scale, Target

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from didact.models.readers.base import AnyReader

Predict = Callable[[Sequence[Example]], list[Prediction]]
"""A model's plain predictions."""


@dataclass(frozen=True)
class HeadCard:
    """What a registered head is.

    Attributes:
        name: registered name; also its file and its test id.
        family: heading in lists.
        summary: one sentence.
        answers: the kind of answer that it predicts.
        architecture: what the names of the Transformers classes that it serves contain; "" where it serves none.
        auto_class: the Transformers class that loads such a network from a directory or the Hub.
        further: other such classes and what loads them, where a head serves several kinds of input.
    """

    name: str
    family: str
    summary: str
    answers: AnswerKind
    architecture: str = ""
    auto_class: str = ""
    further: tuple[tuple[str, str], ...] = ()

    @property
    def served(self) -> tuple[tuple[str, str], ...]:
        """All architectures with the class that loads each."""
        return ((self.architecture, self.auto_class), *self.further) if self.architecture else ()

    def loader(self, architectures: Sequence[str]) -> tuple[str, str]:
        """Which of the architectures served a network is of, and what loads it; the first where none is known."""
        fitting = (pair for name in architectures for pair in self.served if pair[0] in name)
        return next(fitting, self.served[0])


class Head(ABC):
    """Turns what a network returns into predictions and into the explained number; holds no weights.

    The engine hands over outputs with rows first, in any further shape, and the batch that they were computed from: a
    head whose outputs belong to positions, (rows, columns, ...), finds there which position of which encoded example a
    column shows, and which place a user wants to know about.

    Attributes:
        labels: names of the outputs.
        scales: scales of the explained number, the default first.
        reads: which position the outputs come from, for methods that follow attention to it; None where that is for
            the network to show.
    """

    card: ClassVar[HeadCard]
    labels: tuple[str, ...]
    scales: tuple[Scale, ...]
    reads: Reads | None = None

    @classmethod
    def serves(cls, architecture: str, config: PreTrainedConfig) -> bool:
        """Whether networks of this class and configuration return what the head expects."""
        return any(kind in architecture for kind, _ in cls.card.served)

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Self:
        """The head of a network that it serves."""
        raise CapabilityError(f"the {cls.card.name} head cannot be made from a configuration; make it yourself")

    @classmethod
    def beside(cls, reader: AnyReader, config: PreTrainedConfig) -> Self:
        """The head of a network that it serves and that this reader feeds."""
        return cls.of(config)

    def fitted(self, predict: Predict) -> Self:
        """The same head after it has seen predictions of examples of its own choice; itself where it needs none."""
        return self

    def named(self, labels: Sequence[str] | None) -> Self:
        """The same head with other names for its outputs; itself when none are given."""
        if labels is None:
            return self
        if len(labels) != len(self.labels):
            raise ParameterError(
                f"{len(labels)} labels were given, but the model has {len(self.labels)} outputs "
                f"({', '.join(self.labels)}); give a name for each"
            )
        made = copy.copy(self)
        made.labels = tuple(labels)
        return made

    def outputs(self, result: object) -> Tensor:
        """What matters of a network's result, rows first: the logits, as Transformers' networks return them."""
        return cast("HasLogits", result).logits

    def feeding(self, network: nn.Module, batch: EncodedBatch) -> dict[str, Any]:
        """What the network is called with: the batch's inputs, and what the head has it read or return besides."""
        return dict(batch.inputs)

    def answers(self, result: object, batch: EncodedBatch) -> Tensor:
        """``outputs`` of a result that ``feeding`` led to."""
        return self.outputs(result)

    def evaluate(self, network: nn.Module, batch: EncodedBatch) -> Tensor:
        """The network's outputs for a batch, rows first."""
        return self.answers(network(**self.feeding(network, batch)), batch)

    @abstractmethod
    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        """One prediction per row."""

    @abstractmethod
    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        """The number of each row's target, which is not contrastive, differentiable: (rows, ...) -> (rows,)."""

    def explained(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        """``values``; of a contrastive target, the first label's less the second's."""
        if all(target.contrast is None for target in targets):
            return self.values(outputs, targets, batch)
        first = self.values(outputs, [target.first for target in targets], batch)
        second = self.values(outputs, [target.second or target for target in targets], batch)
        contrastive = placed([target.contrast is not None for target in targets], first.device)
        return torch.where(contrastive, first - second, first)

    def readout(self, outputs: Tensor, batch: EncodedBatch) -> Tensor:
        """All that is predicted of the whole input, for a loss: log-probabilities of labels, or numbers.

        (rows, ...) -> (rows, labels), differentiable, in single precision at least.
        """
        raise CapabilityError(
            f"a model with a {self.card.name} head predicts neither one class nor a number of the whole input, so no "
            "explainer can be trained on what masks preserve of its prediction"
        )

    @abstractmethod
    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """The target that a user means, on this scale; nothing means what is predicted."""

    def loss(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Distance from another model's predictions, for fine-tuning; ``wanted`` is what ``imitated`` gives."""
        raise CapabilityError(f"a network with a {self.card.name} head cannot be fine-tuned on predictions here")

    def imitated(self, prediction: Prediction) -> tuple[float, ...]:
        """What ``loss`` compares outputs with when the network is trained to predict the same."""
        return prediction.probabilities or prediction.outputs


class HasLogits(Protocol):
    """What Transformers' classifiers and regressors return."""

    @property
    def logits(self) -> Tensor:
        """Outputs, (rows, labels)."""
        ...


HEADS: Registry[Head, HeadCard] = Registry("head", "didact.models.heads", [str(Path(__file__).parent)], "didact.heads")
