"""A signal: the squared distance to a reference's scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from didact.trained.samples import Sample, TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import SIGNALS, Signal, SignalCard, SignalTask
from didact.types import Example


@SIGNALS.register(SignalCard("toy_signal", "test", "Follow a reference.", "none", "1", frozenset({"reference"})))
@dataclass(frozen=True, kw_only=True)
class Follow(Signal):
    """Computes its loss from what ``prepare`` attached to texts and batch.

    Args:
        weight: of the distance.
    """

    weight: float = 1.0

    @property
    def outputs(self) -> int:
        return 1

    @property
    def signed(self) -> bool:
        return True

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        train, validation = (self._samples(task, shape, some) for some in (task.train, task.validation))
        return TrainingSamples(train, validation, {"size": torch.tensor(self.weight)})

    def _samples(self, task: SignalTask, shape: Shape, examples: Sequence[Example]) -> list[Sample]:
        assert task.labels is not None
        explained = task.labels.of(examples)[0]
        items = shape.read_explained(task.model, explained)
        live = [{"scores": torch.from_numpy(one.array).float()} for one in explained]
        pairs = zip(items, explained, live, strict=True)
        return [Sample(item, np.zeros(len(one.units)), extra) for item, one, extra in pairs]

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        size = cast("Tensor", batch.shared["size"])
        rows = zip(outputs[..., 0], batch.present, batch.extra, strict=True)
        return torch.stack([size * ((row[there] - cast("Tensor", e["scores"])) ** 2).sum() for row, there, e in rows])

    def scores(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]
