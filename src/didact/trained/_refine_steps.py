"""The updates of a group of texts, each with weights of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.meter import count, metered
from didact.progress import advance, working
from didact.trained._refine_config import RefineConfig
from didact.trained._refine_copies import RowCopies
from didact.trained.samples import TrainingBatch

Reading = Callable[[Tensor], Tensor]
"""What a shape gives for units -> a score per unit: (rows, units, outputs) -> (rows, units)."""

Loss = Callable[[Tensor, TrainingBatch], Tensor]
"""Loss of each row: (rows, units, outputs) -> (rows,)."""

_TICKS = 100
"""Steps of the progress bar."""


@dataclass(frozen=True, eq=False)
class RefinedMaps:
    """The scores of a group of texts before the first update and after each one.

    Attributes:
        scores: (updates + 1, rows, units).
        losses: of these scores: (updates + 1, rows).
    """

    scores: Tensor
    losses: Tensor


def refine_rows(
    copies: RowCopies, batch: TrainingBatch, loss: Loss, reading: Reading, config: RefineConfig
) -> RefinedMaps:
    """Update each row's copy of the weights by the gradient of its own loss.

    AdamW computes number by number, so that the rows do not influence each other. The last map is scored too: its loss
    is computed, without a gradient.
    """
    rows = len(batch.present)
    weights = copies.weights(rows)
    settings = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    optimizer = torch.optim.AdamW(weights.values(), **settings, fused=True)
    maps: list[Tensor] = []
    losses: list[Tensor] = []
    start, done = time.perf_counter(), 0.0
    with working("updating", _TICKS):
        while True:
            with torch.set_grad_enabled(done < 1), metered() as meter:
                outputs = copies.outputs(weights, batch.inputs).float()
                each = loss(outputs, batch)
            maps.append(reading(outputs.detach()).cpu())  # waits for the device, so that the time is right
            losses.append(each.detach().cpu())
            if done >= 1:
                return RefinedMaps(torch.stack(maps), torch.stack(losses))
            count(backwards=meter.forwards)
            _update(optimizer, weights, each.sum(), config.learning_rate * (1 - done))
            before, done = done, config.done(len(maps), (time.perf_counter() - start) / rows)
            advance(round(_TICKS * done) - round(_TICKS * before))


def _update(optimizer: torch.optim.Optimizer, weights: dict[str, Tensor], total: Tensor, rate: float) -> None:
    """One step; what the loss does not depend on stays as it is."""
    gradients = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
    for weight, gradient in zip(weights.values(), gradients, strict=True):
        # The fused optimizer goes through memory in order, whatever the strides.
        weight.grad = None if gradient is None else gradient.contiguous()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
