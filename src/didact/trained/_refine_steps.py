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

_TICKS = 100
"""Steps of the progress bar."""


@dataclass(frozen=True, eq=False)
class Objective:
    """What refinement follows.

    Attributes:
        loss: of each row: (rows, units, outputs) -> (rows,).
        scores: what a shape gives for units -> a score per unit: (rows, units, outputs) -> (rows, units).
        chooses: whether maps are chosen by their losses; the last map's is computed only then.
    """

    loss: Callable[[Tensor, TrainingBatch], Tensor]
    scores: Callable[[Tensor], Tensor]
    chooses: bool = True


@dataclass(frozen=True, eq=False)
class RefinedMaps:
    """The scores of a group of texts before the first update and after each one.

    Attributes:
        scores: (updates + 1, rows, units).
        losses: of these scores, (updates + 1, rows); without the last where maps are not chosen by them.
    """

    scores: Tensor
    losses: Tensor


def refine_rows(copies: RowCopies, batch: TrainingBatch, objective: Objective, config: RefineConfig) -> RefinedMaps:
    """Update each row's copy of the weights by the gradient of its own loss.

    AdamW computes number by number, so that the rows do not influence each other.
    """
    rows = len(batch.present)
    weights = copies.weights(rows)
    rate, decay = config.rate, config.weight_decay
    optimizer = torch.optim.AdamW(weights.values(), lr=rate, weight_decay=decay, fused=True)
    scores: list[Tensor] = []
    losses: list[Tensor] = []
    start, done = time.perf_counter(), 0.0
    with working("updating", _TICKS):
        while done < 1:
            with metered() as meter:
                outputs = copies.outputs(weights, batch.inputs).float()
                each = objective.loss(outputs, batch)
            count(backwards=meter.forwards)
            losses.append(each.detach())
            scores.append(objective.scores(outputs.detach()))
            _update(optimizer, weights, each.sum(), rate * (1 - done))
            before, done = done, config.done(len(scores), _seconds(start, each) / rows)
            advance(round(_TICKS * done) - round(_TICKS * before))
        with torch.no_grad():
            outputs = copies.outputs(weights, batch.inputs).float()
            scores.append(objective.scores(outputs))
            losses += [objective.loss(outputs, batch)] if objective.chooses else []
    return RefinedMaps(torch.stack(scores).cpu(), torch.stack(losses).cpu())


def _seconds(start: float, computed: Tensor) -> float:
    """Time since the start, what the device still computes included."""
    if computed.device.type == "cuda":
        torch.cuda.synchronize(computed.device)
    return time.perf_counter() - start


def _update(optimizer: torch.optim.Optimizer, weights: dict[str, Tensor], total: Tensor, rate: float) -> None:
    """One step; what the loss does not depend on stays as it is."""
    every = list(weights.values())
    gradients: list[Tensor | None] = list(torch.autograd.grad(total, every, allow_unused=True))
    while gradients:  # each is let go when it is copied
        gradient, weight = gradients.pop(), every.pop()
        # The fused optimizer goes through memory in order, whatever the strides.
        weight.grad = None if gradient is None else gradient.contiguous()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
