"""What every shape does: read explained texts with the model at hand, and compute numbers for their units."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.models.planner import Budget
from didact.protocols import Model
from didact.registry import Registry
from didact.trained.shapes._located import Located
from didact.types import Example, Explanation, Floats, Prediction, Units

Item = Mapping[str, NDArray[np.generic]]
"""One example as a shape reads it: plain arrays, computed once and kept."""

ShapeBatch = Mapping[str, Tensor]
"""Items padded together. ``present`` (rows, units) is True where a row has a unit."""


@dataclass(frozen=True)
class ShapeCard:
    """What a registered shape is and needs.

    Attributes:
        name: registered name; also its file, its name in saved explainers and its test id.
        family: "own network", "pretrained encoder", "explained model", ...
        summary: one sentence.
        reference: where it was published.
        needs: capabilities of the explained model that reading uses, such as its attention or hidden states; empty
            where a shape reads texts by itself and the model is run for its prediction alone.
        outputs: numbers per unit that it can give, as signals write it; "any" where that is a setting.
    """

    name: str
    family: str
    summary: str
    reference: str
    needs: frozenset[str] = frozenset()
    outputs: str = "any"


class Together(NamedTuple):
    """Predictions and what a shape computed in the same passes.

    Attributes:
        predictions: the model's, per example.
        numbers: for every label, (labels, units, outputs) per example.
    """

    predictions: Sequence[Prediction]
    numbers: Sequence[Floats]


class Shape(nn.Module, ABC):
    """What computes the scores.

    Reading is apart from computing, so that texts are read once and not in every epoch, and so that a trained shape
    can be exported without the code that reads.
    """

    card: ClassVar[ShapeCard]
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Columns of a batch that have the same sizes in every one, rows aside."""

    @classmethod
    def check_examples(cls, examples: Sequence[Example]) -> None:
        """Refuse examples of a kind that this shape cannot read, before anything is computed for them."""

    @classmethod
    @abstractmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """An untrained shape for a model and texts like these.

        Args:
            model: the explained model.
            units: of the training texts.
            outputs: numbers per unit, as the signal asks.
            settings: the shape's own; ``seed`` decides its first weights, ``references`` is the number of references
                that it has to tell apart, where there are several.
        """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers per unit."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What ``from_settings`` needs to build the same shape without its weights, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """Build the shape, untrained; ``folder`` holds what ``save_reading`` wrote."""

    @abstractmethod
    def save_reading(self, folder: Path) -> None:
        """Write what reading needs besides the weights (a vocabulary, a tokenizer)."""

    @abstractmethod
    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """Examples as arrays, in training and when explaining.

        Args:
            model: the explained model, offering what the card needs; may be None where it needs nothing.
            units: of the examples.
            targets: per example the number of the output that is explained.
            predictions: the model's, per example.
        """

    @property
    def passes(self) -> int:
        """Passes of the explained model that an explanation takes besides that of the prediction."""
        return len(self.card.needs)

    @property
    def rides(self) -> bool:
        """Whether ``of_located`` computes its numbers from states of ``layers`` in the pass that predicts."""
        return False

    @property
    def layers(self) -> tuple[int, ...]:
        """The explained model's layers whose states ``of_located`` takes, -1 the last."""
        return ()

    def located(self, owners: Tensor, most: int) -> Located:
        """What can be computed of where ``most`` units stand before the states are there.

        Args:
            owners: (rows, positions), the number of each position's unit, -1 for none.
            most: units per row of what ``of_located`` returns.
        """
        raise ParameterError(self._reads_apart)

    def of_located(self, states: Sequence[Tensor], where: Located) -> Tensor:
        """Numbers of all labels from states of the pass that predicts: (rows, most, labels, outputs)."""
        raise ParameterError(self._reads_apart)

    @property
    def _reads_apart(self) -> str:
        return f"the {self.card.name} does not read the pass that predicts; use the shape 'probe'"

    def with_prediction(self, model: Model, units: Sequence[Units]) -> Together | None:
        """The model's predictions and the numbers of all labels from the same passes; None where reading is apart."""
        return None

    def for_target(self, item: Item, target: int) -> Item:
        """The item for another output of the explained model, where the same reading serves all of them."""
        raise ParameterError(f"the {self.card.name} reads a text for one output; learn the predicted class alone")

    def read_explained(self, model: Model | None, explanations: Sequence[Explanation]) -> list[Item]:
        """The texts of explanations, for the outputs that those explain."""
        return self.read(
            model,
            [explanation.units for explanation in explanations],
            [explanation.target.index for explanation in explanations],
            [explanation.prediction for explanation in explanations],
        )

    def for_reference(self, item: Item, reference: int) -> Item:
        """The item as reference number ``reference`` explains it, for shapes that tell references apart."""
        raise ParameterError(f"the {self.card.name} cannot distinguish several references; learn their average")

    def unread(self, item: Item) -> NDArray[np.int64]:
        """Numbers of the units that it does not read; they get the mean over the others, and explanations say so."""
        return np.empty(0, dtype=np.int64)

    def restarted(self, number: int) -> Shape:
        """A copy with other first weights, drawn from the seed + ``number``, except for those that are not trained."""
        settings = self.settings
        seed = settings.get("seed")
        if not isinstance(seed, int):
            raise ParameterError(f"the {self.card.name} has no seed for its first weights; use initialisations=1")
        with tempfile.TemporaryDirectory() as name:
            self.save_reading(Path(name))
            other = type(self).from_settings({**settings, "seed": seed + number}, Path(name))
        kept = {name: weight for name, weight in self.named_parameters() if not weight.requires_grad}
        other.load_state_dict(kept, strict=False)
        for name in kept:
            other.get_parameter(name).requires_grad_(False)
        return other.to(next(self.parameters()).device)

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad items into a batch."""

    @abstractmethod
    def forward(self, batch: ShapeBatch) -> Tensor:
        """Numbers for the units: (rows, units, outputs)."""

    def refined(self) -> list[nn.Parameter]:
        """Weights that refinement for a single text trains: those that training does, tables of embeddings apart.

        One text says nothing about words and labels that it does not have.
        """
        tables = {id(own.weight) for own in self.modules() if isinstance(own, nn.Embedding)}
        return [weight for weight in self.parameters() if weight.requires_grad and id(weight) not in tables]

    def finished(self) -> Shape:
        """The trained shape as it is kept and saved; without what only training needs."""
        return self

    def summary(self) -> str:
        """What it learned, in Markdown for the README of a saved explainer; empty where weights say nothing by eye."""
        return ""

    def vocabulary(self) -> Sequence[str]:
        """Words it has a number for, frequent ones first, for generated texts; empty where it keeps no list."""
        return ()

    def budget(self, device: torch.device) -> Budget:
        """What one pass takes when explaining; the defaults suit small networks, for which a batch costs most."""
        return Budget(tokens=1 << (17 if device.type == "cuda" else 14), fixed=512)

    def check_export(self) -> None:
        """Refuse to be exported where it cannot compute without torch, or not without the explained model."""
        if self.card.needs:
            raise ParameterError(f"the {self.card.name} reads the explained model, so it is not exported alone")

    @property
    def traced_units(self) -> int:
        """How many units a text needs for its pass to be the general one, which is exported."""
        return 8

    def length(self, item: Item) -> int:
        """Size of an item: batches are filled by it."""
        return max((len(column) for column in item.values() if np.ndim(column)), default=1)


SHAPES: Registry[Shape, ShapeCard] = Registry(
    "shape", "didact.trained.shapes", [str(Path(__file__).parent)], "didact.shapes"
)
register = SHAPES.register


def check_shape(card: ShapeCard, model: Model) -> None:
    """Refuse a model that does not offer what reading needs, naming shapes that would work."""
    missing = card.needs - model.capabilities
    if missing:
        works = [other.name for other in SHAPES.cards() if other.needs <= model.capabilities]
        raise CapabilityError(
            f"the {card.name} needs a model that is {' and '.join(sorted(missing))}, which {model.name} is not; shapes "
            f"that work with it: {', '.join(works)}"
        )
