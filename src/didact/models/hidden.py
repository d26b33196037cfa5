"""Sees one hidden layer of a model: its states at many inputs, and the gradient there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from didact.meter import count
from didact.models.gradients import Ints, PointRows, Value
from didact.models.planner import Budget, run
from didact.protocols import Visit
from didact.types import Floats

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def hidden_layers(model: PreTrainedModel) -> nn.ModuleList | None:
    """The stack of layers, known by its length; None where layers share weights or are not kept in one list."""
    wanted = getattr(model.config, "num_hidden_layers", None)
    stacks = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    return next((stack for stack in stacks if len(stack) == wanted), None)


def hidden_gradients(
    rows: PointRows, layer: nn.Module, value: Value, visit: Visit, budget: Budget, pads: bool
) -> list[Floats]:
    """Values at all points; ``visit`` gets the layer's output and the gradient there, each example's points in order.

    Nothing below the layer is differentiated. When memory runs out in ``visit``, its batch is done again in smaller
    ones, and what was visited is left out; ``visit`` itself must not keep anything before its last allocation.
    """
    values = np.zeros(len(rows.owner))
    visited = [0] * len(rows.points)

    def evaluate(batch: Ints) -> None:
        with tapped(layer) as seen:
            found = value(rows.owner[batch], rows.vectors(batch))
        (states,) = seen
        (gradient,) = torch.autograd.grad(found.sum(), states)
        values[batch] = found.detach().double().cpu().numpy()
        states = states.detach()
        for i, own, steps in rows.parts(batch):
            if steps.stop > visited[i]:
                first = max(steps.start, visited[i])
                new = slice(own.start + first - steps.start, own.stop)
                visit(i, first, states[new, : rows.sizes[i]], gradient[new, : rows.sizes[i]])
                visited[i] = steps.stop

    run("differentiating", rows.lengths, budget, pads, evaluate)
    count(forwards=len(values), backwards=len(values), evaluated=len(values))
    return rows.split(values)


@contextlib.contextmanager
def tapped(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the layer's output inside the block, as a leaf that the rest of the model is differentiated to."""
    seen: list[Tensor] = []

    def tap(module: nn.Module, given: Any, output: Any) -> Any:
        states = output[0] if isinstance(output, tuple) else output
        seen.append(states.detach().requires_grad_(True))
        return (seen[-1], *output[1:]) if isinstance(output, tuple) else seen[-1]

    handle = layer.register_forward_hook(tap)
    try:
        yield seen
    finally:
        handle.remove()
