"""Gradients of many examples at many points of their embedding spaces, in batches of one token budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from didact.meter import count
from didact.models.planner import Budget, run
from didact.protocols import Points
from didact.types import Floats

Ints = NDArray[np.int64]

Value = Callable[[Ints, Tensor], Tensor]
"""The explained numbers (rows,) of these examples (rows,) at these padded embeddings (rows, width, dim)."""

# A graph holds the activations of all layers, a plain pass those of one: fewer tokens may go through at once. In a
# BERT-base 1024 tokens of a graph take half a gigabyte, so the 4096 left of a small GPU's budget take about two.
CPU_SHARE, GPU_SHARE = 2, 16
SMALL_GPU = 16 << 30
"""Bytes of a GPU that gets ``GPU_SHARE``; a larger one gets more in proportion."""


@dataclass(frozen=True, eq=False)
class Blends:
    """Points between an example and the same without its units: a weight per position, 1 for what is present.

    Attributes:
        vectors: embeddings of the example, (tokens, dim).
        absent: embeddings in place of absent positions, (dim,) or (tokens, dim).
        weights: shares of the example's own embeddings, (points, tokens); gradients flow to them.
    """

    vectors: Tensor
    absent: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, indices: slice) -> Tensor:
        share = self.weights[indices, :, None].to(self.vectors.dtype)
        return share * self.vectors + (1 - share) * self.absent


class PointRows:
    """The points of all examples as numbered rows, made when their batch is due.

    Args:
        points: the points of each example.
        sizes: the tokens of each example.
    """

    def __init__(self, points: Sequence[Points], sizes: Sequence[int]) -> None:
        self.points = points
        self.sizes = sizes
        counts = [len(own) for own in points]
        self.starts: Ints = np.cumsum([0, *counts])
        self.owner: Ints = np.repeat(np.arange(len(points)), counts)
        self.step: Ints = np.arange(len(self.owner)) - self.starts[self.owner]
        self.lengths: Ints = np.array(sizes, dtype=np.int64)[self.owner]

    def parts(self, rows: Ints) -> Iterator[tuple[int, slice, slice]]:
        """The examples in a batch of the planner's: number, its rows in the batch, and the points these are."""
        owners = self.owner[rows]
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(rows)]
        for begin, end in itertools.pairwise(cuts):
            first = int(self.step[rows[begin]])
            yield int(owners[begin]), slice(begin, end), slice(first, first + end - begin)

    def vectors(self, rows: Ints) -> Tensor:
        """Embeddings of a batch, padded to its first row: (rows, width, dim)."""
        width = int(self.lengths[rows[0]])
        made = [self.points[i][steps] for i, _, steps in self.parts(rows)]
        return torch.cat([functional.pad(own, (0, 0, 0, width - own.shape[1])) for own in made])

    def split(self, values: Floats) -> list[Floats]:
        """Values per row -> values per example."""
        return [values[start:end] for start, end in itertools.pairwise(self.starts)]


def weighted_gradients(
    rows: PointRows, weights: Sequence[Floats | Points], value: Value, budget: Budget, pads: bool
) -> list[tuple[Floats, Tensor]]:
    """Values at all points, and the sum over the weighted ones of weight times gradient (tokens, dim).

    Weights are numbers, or tensors made when needed that multiply the gradients (k, tokens, dim) of a run of points.
    They belong to an example's first points; what comes after them is evaluated and not differentiated, before all
    others, so that a whole text among them settles its target.
    """
    values = np.zeros(len(rows.owner))
    sums: list[Tensor | None] = [None] * len(weights)

    def differentiate(batch: Ints) -> None:
        at = rows.vectors(batch).detach().requires_grad_(True)
        reached = value(rows.owner[batch], at)
        (gradient,) = torch.autograd.grad(reached.sum(), at)
        parts = [(i, _weigh(weights[i], steps, gradient[own, : rows.sizes[i]])) for i, own, steps in rows.parts(batch)]
        values[batch] = reached.detach().double().cpu().numpy()
        for i, part in parts:
            known = sums[i]
            sums[i] = part if known is None else known + part

    def evaluate(batch: Ints) -> None:
        with torch.no_grad():
            values[batch] = value(rows.owner[batch], rows.vectors(batch)).double().cpu().numpy()

    weighted = rows.step < np.array([len(own) for own in weights], dtype=np.int64)[rows.owner]
    works = (("evaluating", ~weighted, evaluate), ("differentiating", weighted, differentiate))
    for what, chosen, work in works:
        numbers = np.flatnonzero(chosen)
        if len(numbers):
            run(what, rows.lengths[numbers], budget, pads, _renumbered(work, numbers))
    count(forwards=len(weighted), backwards=int(weighted.sum()), evaluated=len(weighted))
    return [(own, total) for own, total in zip(rows.split(values), sums, strict=True) if total is not None]


def graph_budget(budget: Budget, device: torch.device, memory: int | None = None) -> Budget:
    """What may go through at once when gradients are taken; ``memory`` of a GPU is looked up where it is not given."""
    share = CPU_SHARE
    if device.type == "cuda":
        memory = memory or torch.cuda.get_device_properties(device).total_memory
        share = max(CPU_SHARE, round(GPU_SHARE * min(1.0, SMALL_GPU / memory)))
    return Budget(max(1, budget.tokens // share), budget.rows, budget.fixed)


def _weigh(weights: Floats | Points, steps: slice, gradient: Tensor) -> Tensor:
    """Sum over points of weight times gradient: (k, tokens, dim) -> (tokens, dim)."""
    if isinstance(weights, np.ndarray):
        if len(gradient) == 1:
            return gradient[0] * float(weights[steps][0])
        return torch.einsum("k,ktd->td", gradient.new_tensor(weights[steps]), gradient)
    return (weights[steps] * gradient).sum(0)


def _renumbered(work: Callable[[Ints], None], numbers: Ints) -> Callable[[Ints], None]:
    return lambda batch: work(numbers[batch])
