"""A computation on a GPU, recorded for each shape of its inputs and replayed instead of launched kernel by kernel."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.models.batch import Inputs

Computed = Callable[[Inputs], tuple[Tensor, ...]]


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A graph of kernels with the tensors that it reads and writes, and the weights it was recorded with."""

    graph: torch.cuda.CUDAGraph
    given: Inputs
    made: tuple[Tensor, ...]
    weights: list[Tensor]

    def replay(self, inputs: Inputs) -> tuple[Tensor, ...]:
        for name, own in inputs.items():
            self.given[name].copy_(own, non_blocking=True)
        self.graph.replay()
        return tuple(own.clone() for own in self.made)


class Replay:
    """A function of tensors that a GPU repeats as one recorded graph.

    A small network on a GPU waits for its kernels to be launched one after the other, not for their work. A shape is
    recorded when it comes for the second time; what cannot be recorded, because a step waits for the GPU or depends on
    values, is computed plainly each time, and so is everything on a CPU.

    Args:
        function: from inputs by name to tensors, without gradients.
        weights: that it reads; where they move, to another precision or device, it is recorded again.
        most: graphs that are kept, the latest used.
    """

    def __init__(self, function: Computed, weights: Sequence[Tensor], most: int = 16) -> None:
        self.function = function
        self.weights = list(weights)
        self.most = most
        self._known: OrderedDict[object, _Recorded | None] = OrderedDict()
        self._refused: set[object] = set()
        self._lock = threading.Lock()  # a graph has its tensors once

    def __call__(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """What the function returns for these inputs, in tensors of its own."""
        with torch.inference_mode():
            if any(own.device.type != "cuda" for own in inputs.values()):
                return self.function(inputs)
            with self._lock:
                recorded = self._graph_of(inputs)
                if recorded is not None:
                    return recorded.replay(inputs)
            return self.function(inputs)

    @property
    def recorded(self) -> int:
        """Graphs that are kept now."""
        return sum(own is not None for own in self._known.values())

    def _graph_of(self, inputs: Inputs) -> _Recorded | None:
        """The graph of inputs of this shape; None where it comes for the first time, or cannot be recorded."""
        key = self._key(inputs)
        if key in self._refused:
            return None
        if key not in self._known:
            self._keep(key, None)
            return None
        recorded = self._known[key] or self._record(inputs)
        self._keep(key, recorded)
        if recorded is None:
            self._refused.add(key)
        return recorded

    def _key(self, inputs: Inputs) -> object:
        shapes = tuple((name, own.shape, own.dtype, own.device) for name, own in inputs.items())
        return shapes, tuple(map(Tensor.data_ptr, self.weights)), torch.backends.cuda.matmul.fp32_precision

    def _keep(self, key: object, recorded: _Recorded | None) -> None:
        self._known[key] = recorded
        self._known.move_to_end(key)
        while len(self._known) > self.most:
            self._known.popitem(last=False)

    def _record(self, inputs: Inputs) -> _Recorded | None:
        given = {name: own.clone() for name, own in inputs.items()}
        device = next(iter(given.values())).device
        now, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        aside.wait_stream(now)
        with torch.cuda.stream(aside):
            self.function(given)  # what libraries set up at a first call is not recorded
        now.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                made = self.function(given)
        except RuntimeError:
            return None
        return _Recorded(graph, given, made, [own.data for own in self.weights])
