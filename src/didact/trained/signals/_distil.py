"""What the signals share that learn another explainer's scores.

In these files w are the reference's weights of the words of one document and v what the network gives.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from torch import Tensor

from didact.errors import ParameterError
from didact.protocols import Model
from didact.trained.labels import Labels, ReferenceLabels
from didact.trained.samples import Sample, Source, TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal, SignalTask
from didact.types import Explanation, Floats

Reduce = Literal["sum", "mean"]


@dataclass(frozen=True, kw_only=True)
class Distil(Signal):
    """Learns from a reference's explanations.

    Args:
        reduce: "sum" over the words or pairs of a document, as the paper has it; with "mean" a long document counts no
            more than a short one.
    """

    reduce: Reduce = "sum"

    def __post_init__(self) -> None:
        self._choose(reduce=Reduce)

    @abstractmethod
    def targets(self, explanation: Explanation) -> Floats:
        """What the units of one explained text should be given: (units,)."""

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """Texts as the shape reads them, with targets from the reference's explanations."""
        labels = task.labels
        if labels is None:
            raise ParameterError(f"{self.card.name} learns another explainer's scores; give a reference")
        source: Source
        if labels.fresh is None:
            source = self.samples(task.model, shape, labels, labels.of(task.train))
        else:
            draw = labels.fresh(task.train)
            source = lru_cache(maxsize=1)(lambda epoch: self.samples(task.model, shape, labels, draw(epoch)))
        validation = self.samples(task.model, shape, labels, labels.of(task.validation))
        return TrainingSamples(source, validation)

    def samples(self, model: Model, shape: Shape, labels: ReferenceLabels, explained: Labels) -> list[Sample]:
        """Samples of explained texts, by reference where these are distinguished; empty texts are left out."""
        many = explained if labels.apart else [labels.compared(explained)]
        made: list[Sample] = []
        for number, explanations in enumerate(many):
            scored = [explanation for explanation in explanations if len(explanation.units)]
            items = shape.read_explained(model, scored)
            if labels.apart:
                items = [shape.for_reference(item, number) for item in items]
            made += [Sample(item, self.targets(one)) for item, one in zip(items, scored, strict=True)]
        return made

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """Loss per document: (rows,)."""
        terms, count = self._terms(outputs, batch)
        return terms / count.clamp(min=1) if self.reduce == "mean" else terms

    @abstractmethod
    def _terms(self, outputs: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Sum of a document's terms and how many they are: both (rows,)."""

    def _choose(self, **choices: object) -> None:
        for name, allowed in choices.items():
            if getattr(self, name) not in get_args(allowed):
                raise ParameterError(
                    f"{name} of {self.card.name} must be one of {get_args(allowed)}, got {getattr(self, name)!r}"
                )
