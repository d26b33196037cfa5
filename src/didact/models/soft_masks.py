"""Masks with weights between 0 and 1 as live tensors, for many examples at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.meter import count
from didact.models.batch import Ints
from didact.models.gradients import PointRows, Value
from didact.models.planner import Budget, run
from didact.ops.masking import unit_of_position
from didact.types import Units


def position_weights(units: Units, masks: Tensor, length: int) -> Tensor:
    """Spread masks over positions: (rows, units) -> (rows, positions); what no unit covers has weight 1."""
    if masks.ndim != 2 or masks.shape[1] != len(units):
        raise ParameterError(f"soft masks must have shape (rows, {len(units)}), got {tuple(masks.shape)}")
    owner = torch.from_numpy(unit_of_position(units, length)).to(masks.device)
    padded = torch.cat([masks, masks.new_ones(len(masks), 1)], 1)
    return padded[:, owner]  # owner -1 picks the added column of ones


def soft_values(rows: PointRows, value: Value, budget: Budget, pads: bool) -> list[Tensor]:
    """Values at all points, (points,) per example, with the graph of all batches behind them.

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
