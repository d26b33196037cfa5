"""Hidden layers of a network: their states for many examples, and the gradient there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.meter import count
from didact.models.batch import Encoded, Ints
from didact.models.eval_mode import evaluating, named_modules
from didact.models.exclusive import exclusive
from didact.models.gradients import PointRows, Value
from didact.models.planner import Budget, run
from didact.models.readers.base import AnyReader
from didact.protocols import Visit
from didact.types import Floats

Reduce = Callable[[Tensor], Tensor]
"""What is kept of one example's states (layers, positions, dim)."""


def hidden_layers(network: nn.Module) -> nn.ModuleList | None:
    """The stack of layers, known by its length; None where layers share weights or are not kept in one list."""
    wanted = getattr(getattr(network, "config", None), "num_hidden_layers", None)
    stacks = (module for _, module in named_modules(network, twice=False) if isinstance(module, nn.ModuleList))
    return next((stack for stack in stacks if len(stack) == wanted), None)


def layer_of(network: nn.Module, number: int) -> nn.Module:
    """The layer of this number; negative ones count from the last."""
    return _layer_in(hidden_layers(network), number, network)


def _layer_in(stack: nn.ModuleList | None, number: int, network: nn.Module) -> nn.Module:
    if stack is None:
        raise CapabilityError(f"{type(network).__name__} does not keep its layers in one list")
    if not -len(stack) <= number < len(stack):
        raise ParameterError(f"layer {number} does not exist; the model has {len(stack)} layers")
    return stack[number]


def hidden_states(
    reader: AnyReader,
    codes: Sequence[Encoded],
    budget: Budget,
    layers: Sequence[int] = (-1,),
    reduce: Reduce | None = None,
) -> list[Tensor]:
    """States of chosen layers per example, (layers, positions, dim), or what ``reduce`` makes of them.

    Args:
        reader: of the network, with or without a head.
        codes: the encoded examples.
        budget: tokens per batch.
        layers: numbers of the layers; -1 is what the head gets, a final norm included, and the only one that a network
            needs no list of layers for.
        reduce: applied to each example as soon as its batch is done, so that not all states are kept in memory.
    """
    network = reader.network
    base = cast("Callable[..., object]", getattr(network, "base_model", network))
    lengths = np.array([len(code) for code in codes], dtype=np.int64)
    kept: dict[int, Tensor] = {}

    def evaluate(rows: Ints) -> None:
        base(**reader.whole([codes[row] for row in rows]))
        states = torch.stack(latest())
        made = [states[:, i, : lengths[row]] for i, row in enumerate(rows)]
        made = made if reduce is None else [reduce(own) for own in made]
        kept.update(zip(rows.tolist(), made, strict=True))

    with evaluating(network), torch.no_grad(), watched(network, layers) as latest:
        run("reading states", lengths, budget, True, evaluate)
    return [kept[number] for number in range(len(codes))]


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
            reached = value(rows.owner[batch], rows.vectors(batch).detach())
        (states,) = seen
        (gradient,) = torch.autograd.grad(reached.sum(), states)
        values[batch] = reached.detach().double().cpu().numpy()
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

    def tap(module: nn.Module, given: object, output: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        seen.append(_first(output).detach().requires_grad_(torch.is_grad_enabled()))
        return (seen[-1], *output[1:]) if isinstance(output, tuple) else seen[-1]

    with exclusive(layer):
        handle = layer.register_forward_hook(tap)
        try:
            yield seen
        finally:
            handle.remove()


@contextlib.contextmanager
def watched(network: nn.Module, layers: Sequence[int]) -> Iterator[Callable[[], list[Tensor]]]:
    """A function that returns the states of the last pass inside the block, (rows, positions, dim) per layer.

    Whoever runs the network, for its prediction or for its states alone, the pass is left as it is.
    """
    stack = hidden_layers(network)
    last = -1 if stack is None else len(stack) - 1
    base = cast("nn.Module", getattr(network, "base_model", network))
    seen: dict[int, Tensor] = {}

    def states() -> list[Tensor]:
        if any(number not in seen for number in layers):
            raise CapabilityError(f"{type(network).__name__} does not show its hidden states")
        return [seen[number] for number in layers]

    with exclusive(network), contextlib.ExitStack() as hooks:
        for number in layers:
            module = base if number in (-1, last) else _layer_in(stack, number, network)
            hooks.callback(module.register_forward_hook(_keeping(seen, number)).remove)
        yield states


def _keeping(seen: dict[int, Tensor], number: int) -> Callable[[nn.Module, object, object], None]:
    """A hook that keeps a module's states, by what its output calls them or as its first part."""

    def keep(module: nn.Module, given: object, output: object) -> None:
        made = getattr(output, "last_hidden_state", output)
        made = made[0] if isinstance(made, tuple) else made
        if isinstance(made, Tensor):
            seen[number] = made

    return keep


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
