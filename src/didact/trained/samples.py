"""What a signal prepares for training, and the batch that its loss sees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import InputError
from didact.trained.shapes.base import Item, Shape, ShapeBatch
from didact.types import Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """One training text.

    Attributes:
        item: the text as the shape reads it.
        targets: what the signal wants for its units: (units,).
        extra: anything else of this text that the signal's loss needs, such as its ``Units`` or the model's prediction.
    """

    item: Item
    targets: Floats
    extra: Mapping[str, object] = field(default_factory=dict)


Source = Sequence[Sample] | Callable[[int], Sequence[Sample]]
"""Training samples; as a function, those of an epoch, counted from 0."""


@dataclass(frozen=True, eq=False)
class TrainingSamples:
    """What a signal prepared from a model and texts.

    Attributes:
        train: samples, or a function from an epoch to its samples, where labels are cheap, noisy and drawn afresh. The
            function must return the same samples for the same epoch.
        validation: samples that epochs are compared by.
        shared: what every batch needs, such as the frozen model or a cohort of students.
        trained: names of modules in ``shared`` that are trained along with the shape; ``fit`` trains copies of them,
            which are not kept.
        marks: what else decides the training, by what it is, as names or hashes: a checkpoint with others is refused.
        carried: names of modules in ``shared`` that change with the training by themselves, such as students that learn
            along: ``fit`` gives copies of them to the loss and stores their state in checkpoints, but does not optimise
            them. They stay on their own device.
        batches: the signal's own batches of an epoch, as rows of its samples, where which texts share a step is part of
            the signal; the batch sizes of ``fit`` then do not count in training. It must return the same batches for
            the same epoch.
    """

    train: Source
    validation: Sequence[Sample] = ()
    shared: Mapping[str, object] = field(default_factory=dict)
    trained: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    batches: Callable[[int], Sequence[NDArray[np.int64]]] | None = None

    def of_epoch(self, epoch: int) -> Sequence[Sample]:
        """The training samples of an epoch, counted from 0."""
        return self.train(epoch) if callable(self.train) else self.train


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """What a loss sees of a batch besides the shape's outputs; tensors are on the device of the training.

    Attributes:
        targets: (rows, units), 0 where a row has no unit.
        present: (rows, units), True where a row has a unit.
        generator: draws what the loss samples; None in validation, so that a loss is the same each time.
        inputs: what the shape computed its outputs from.
        extra: what ``prepare`` attached to the samples, one mapping per row.
        shared: what ``prepare`` gave for all batches.
    """

    targets: Tensor
    present: Tensor
    generator: torch.Generator | None = None
    inputs: ShapeBatch = field(default_factory=dict)
    extra: Sequence[Mapping[str, object]] = ()
    shared: Mapping[str, object] = field(default_factory=dict)


def batch_of(
    shape: Shape,
    samples: Sequence[Sample],
    rows: NDArray[np.int64],
    device: torch.device,
    shared: Mapping[str, object],
) -> TrainingBatch:
    """Some rows of the samples as a batch without a generator, its tensors on a device."""
    chosen = [samples[row] for row in rows]
    columns = shape.collate([sample.item for sample in chosen])
    targets = _padded_targets(columns["present"], samples, rows).to(device)
    inputs = {name: column.to(device) for name, column in columns.items()}
    return TrainingBatch(targets, inputs["present"], None, inputs, [sample.extra for sample in chosen], shared)


def samples_hash(samples: Sequence[Sample]) -> str:
    """Short hash of every array of the samples."""
    digest = hashlib.sha256()
    for sample in samples:
        for name, column in sorted({**sample.item, "": sample.targets}.items()):
            array = np.ascontiguousarray(column)
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _padded_targets(present: Tensor, samples: Sequence[Sample], rows: NDArray[np.int64]) -> Tensor:
    """Targets where units are, 0 elsewhere: (rows, units)."""
    counts = present.sum(1).tolist()
    for row, count in zip(rows, counts, strict=True):
        if len(samples[row].targets) != count:
            raise InputError(
                f"sample {row} (from 0) has {count} units but {len(samples[row].targets)} targets; give one each"
            )
    padded = torch.zeros(present.shape)
    padded[present] = torch.from_numpy(np.concatenate([samples[row].targets for row in rows])).float()
    return padded
