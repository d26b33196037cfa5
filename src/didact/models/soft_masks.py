"""Masks with weights between 0 and 1 as live tensors, for many examples at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.meter import count
from didact.models.batch import Encoded, Ints
from didact.models.gradients import Blends, PointRows, Value
from didact.models.planner import Budget, run
from didact.models.readers.base import AnyReader
from didact.ops.masking import unit_of_position
from didact.protocols import Absent
from didact.types import Units


def position_weights(units: Units, masks: Tensor, length: int) -> Tensor:
    """Spread masks over positions: (rows, units) -> (rows, positions); what no unit covers has weight 1."""
    if masks.ndim != 2 or masks.shape[1] != len(units):
        raise ParameterError(f"soft masks must have shape (rows, {len(units)}), got {tuple(masks.shape)}")
    owner = torch.from_numpy(unit_of_position(units, length)).to(masks.device)
    padded = torch.cat([masks, masks.new_ones(len(masks), 1)], 1)
    return padded[:, owner]  # owner -1 picks the added column of ones


def tensors_of(absent: Absent) -> Sequence[Tensor]:
    """The vectors given for absent units; none where these are named."""
    if isinstance(absent, str):
        return ()
    return (absent,) if isinstance(absent, Tensor) else absent


def absent_vectors(absent: Absent, vectors: Sequence[Tensor], named: Callable[[str, Tensor], Tensor]) -> list[Tensor]:
    """What stands for absent positions of each example, (dim,) or (positions, dim).

    Args:
        absent: a name, a vector for all examples, or a tensor for each.
        vectors: the examples' embeddings, (positions, dim).
        named: the reader's tensor of a name.
    """
    if isinstance(absent, str):
        return [named(absent, own) for own in vectors]
    given = [absent] * len(vectors) if isinstance(absent, Tensor) else list(absent)
    if len(given) != len(vectors):
        raise ParameterError(f"absent has {len(given)} tensors for {len(vectors)} examples; give one for each")
    for tensor, own in zip(given, vectors, strict=True):
        if tensor.shape not in (own.shape, own.shape[1:]):
            raise ParameterError(
                f"an absent unit is shown as a vector of {own.shape[1]} numbers, or of one vector for each of the "
                f"{len(own)} positions; got a tensor of shape {tuple(tensor.shape)}"
            )
    return [tensor.to(own) for tensor, own in zip(given, vectors, strict=True)]


def mixtures(
    reader: AnyReader, codes: Sequence[Encoded], units: Sequence[Units], masks: Sequence[Tensor], absent: Absent
) -> list[Blends]:
    """Embeddings of each example blended with those of its absence, by weights (rows, units)."""
    vectors = reader.vectors(codes)
    absences = absent_vectors(absent, vectors, reader.absent_vector)
    return [
        Blends(own, vector, position_weights(unit, mask.to(own.device), len(own)))
        for unit, own, vector, mask in zip(units, vectors, absences, masks, strict=True)
    ]


def replaced(units: Units, vectors: Tensor, absent: Tensor) -> Tensor:
    """Embeddings (positions, dim) with those of all units replaced."""
    covered = torch.from_numpy(unit_of_position(units, len(vectors)) >= 0).to(vectors.device)
    return torch.where(covered[:, None], absent, vectors)


def soft_values(rows: PointRows, value: Value, budget: Budget, pads: bool) -> list[Tensor]:
    """Values at all points, (points, ...) per example, with the graph of all batches behind them.

    Batches save padding, not memory: the graph of every row lives until the caller has differentiated or dropped it.
    """
    parts: dict[int, tuple[Ints, Tensor]] = {}

    def evaluate(batch: Ints) -> None:
        parts[int(batch[0])] = (batch, value(rows.owner[batch], rows.vectors(batch)))

    run("evaluating soft masks", rows.lengths, budget, pads, evaluate)
    order = np.concatenate([batch for batch, _ in parts.values()])
    values = torch.cat([part for _, part in parts.values()])
    count(forwards=len(order), evaluated=len(order))
    back = torch.from_numpy(np.argsort(order)).to(values.device)
    return list(torch.split(values[back], np.diff(rows.starts).tolist()))
