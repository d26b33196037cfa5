"""All samples of a training padded once and kept on its device, where every batch is picked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from didact.models.planner import Ints
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples, batch_of
from didact.trained.shapes.base import Shape

CPU_BYTES = 1 << 30
GPU_SHARE = 0.25
"""The most that is kept: so many bytes, or this share of what a GPU has free."""


class Collated:
    """Samples as one padded batch, of which rows are picked.

    Args:
        shape: pads them.
        samples: all of them.
        device: of the training.
    """

    def __init__(self, shape: Shape, samples: Sequence[Sample], device: torch.device) -> None:
        self._samples = samples
        self._whole = batch_of(shape, samples, np.arange(len(samples)), device, {})

    def batch(self, rows: Ints, shared: Mapping[str, object]) -> TrainingBatch:
        """Some rows as a batch without a generator, padded as the longest of all samples."""
        whole = self._whole
        at = torch.from_numpy(rows).to(whole.present.device)
        inputs = {name: column[at] for name, column in whole.inputs.items()}
        extra = [self._samples[row].extra for row in rows]
        return TrainingBatch(whole.targets[at], inputs["present"], None, inputs, extra, shared)


def collated(shape: Shape, samples: TrainingSamples, device: torch.device) -> Collated | None:
    """The training samples, where the signal's own batches come back to the same ones and there is room for all."""
    if samples.batches is None or callable(samples.train):
        return None
    largest = max((sum(np.asarray(column).nbytes for column in one.item.values()) for one in samples.train), default=0)
    free = GPU_SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else CPU_BYTES
    return Collated(shape, samples.train, device) if 0 < largest * len(samples.train) < free else None
