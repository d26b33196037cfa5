"""Which samples share a step of the training, and what each of several processes computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.models.planner import Budget, Ints, batches
from didact.trained.fit_types import FitConfig
from didact.trained.samples import Sample
from didact.trained.shapes.base import Shape


def share(rows: Ints, process: int, processes: int) -> tuple[Ints, float]:
    """The rows of a batch that one of several processes takes, and what the mean of their losses counts.

    Averaging the weighted gradients over the processes gives the gradient of the mean over all rows. A process for
    which none is left computes one that counts nothing, as all have to take part.
    """
    mine = rows[process::processes]
    return (mine, len(mine) * processes / len(rows)) if len(mine) else (rows[:1], 0.0)


def shuffled(shape: Shape, samples: Sequence[Sample], config: FitConfig, seed: int, epoch: int) -> list[Ints]:
    """All rows of an epoch in batches of similar length; which share a batch and the order of batches are random."""
    rng = np.random.default_rng([seed, epoch])
    grouped = by_length(shape, samples, config, rng.permutation(len(samples)))
    return [grouped[number] for number in rng.permutation(len(grouped))]


def by_length(shape: Shape, samples: Sequence[Sample], config: FitConfig, order: Ints | None = None) -> list[Ints]:
    """Rows in batches, longest first; among equal lengths ``order`` decides."""
    lengths = np.array([shape.length(sample.item) for sample in samples], dtype=np.int64)
    order = np.arange(len(samples)) if order is None else order
    order = order[np.argsort(-lengths[order], kind="stable")]
    return list(batches(lengths, order, Budget(config.batch_tokens, config.batch_rows), pads=True))
