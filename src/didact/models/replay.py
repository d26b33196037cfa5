"""A computation on a GPU, recorded for each shape of its inputs and replayed instead of launched kernel by kernel."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from didact.models.batch import Inputs

Computed = Callable[[Inputs], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Padding:
    """How rows are made as long as rows that were recorded.

    Args:
        step: lengths are multiples of it.
        longest: positions at most; any number when not given.
        values: what further positions of an input hold, where that is not 0.
        needs: the input that marks padding, without which there is none.
    """

    step: int
    longest: int | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    needs: str | None = None

    def further(self, inputs: Inputs) -> int:
        """Positions that are added to each row; none where inputs are not all (rows, positions)."""
        shapes = {own.shape for own in inputs.values()}
        if self.step == 1 or self.needs not in {None, *inputs} or len(shapes) > 1:
            return 0
        width = shapes.pop()[-1]
        return max(0, min(width + -width % self.step, self.longest or width + self.step) - width)

    def padded(self, inputs: Inputs, further: int) -> Inputs:
        """The inputs with so many further positions."""
        if not further:
            return inputs
        return {name: functional.pad(own, (0, further), value=self.values.get(name, 0)) for name, own in inputs.items()}


NO_PADDING = Padding(1)


@contextmanager
def recorded_beside(device: torch.device) -> Iterator[Callable[[], None]]:
    """What is recorded inside is replayed beside what follows it, until the function that this returns is called.

    Nothing changes where nothing is recorded. What is computed inside must not depend on what follows.
    """
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        yield _nothing_to_join
        return
    now, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(now)
    with torch.cuda.stream(aside):
        yield lambda: now.wait_stream(aside)


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A graph of kernels with the tensors that it reads and writes, and the weights it was recorded with.

    Inputs of one shape and type lie in ``together``, (inputs, ...), and ``blank`` is what that holds of padding alone;
    results of one type lie in ``joined``, one after the other. Every call of the GPU has to be launched, so that all
    inputs are copied by one, and all results by another.
    """

    graph: torch.cuda.CUDAGraph
    given: Inputs
    made: tuple[Tensor, ...]
    joined: Tensor | None
    weights: list[Tensor]
    together: Tensor | None
    blank: Tensor | None

    def replay(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """What is computed of these inputs, which may have fewer positions where they lie together."""
        if self.together is None:
            for name, own in inputs.items():
                self.given[name].copy_(own, non_blocking=True)
        else:
            width = next(iter(inputs.values())).shape[-1]
            if self.blank is not None and width < self.together.shape[-1]:
                self.together.copy_(self.blank)
            torch.stack(list(inputs.values()), out=self.together[..., :width])
        self.graph.replay()
        if self.joined is None:
            return tuple(own.clone() for own in self.made)
        whole = self.joined.clone()
        return tuple(whole.as_strided(*where) for where in self.places)

    @cached_property
    def places(self) -> list[tuple[torch.Size, tuple[int, ...], int]]:
        """Shape, strides and offset of each result in ``joined``."""
        offsets = accumulate((own.numel() for own in self.made), initial=0)
        strides = (own.contiguous().stride() for own in self.made)
        return [(own.shape, steps, offset) for own, steps, offset in zip(self.made, strides, offsets, strict=False)]


class Replay:
    """A function of tensors that a GPU repeats as one recorded graph.

    A small network on a GPU waits for its kernels to be launched one after the other, not for their work. A shape is
    recorded when it comes for the second time; what cannot be recorded, because a step waits for the GPU or depends on
    values, is computed plainly each time, and so is everything on a CPU.

    Args:
        function: from inputs by name to tensors, without gradients.
        weights: that it reads; where they move, to another precision or device, it is recorded again.
        most: graphs that are kept, the latest used.
        padding: of rows, so that shapes come again; the function then returns as much for longer rows.
    """

    def __init__(
        self, function: Computed, weights: Sequence[Tensor], most: int = 16, padding: Padding = NO_PADDING
    ) -> None:
        self.function = function
        self.weights = list(weights)
        self.most = most
        self.padding = padding
        self._known: OrderedDict[object, _Recorded | None] = OrderedDict()
        self._refused: set[object] = set()
        self._lock = threading.Lock()  # a graph has its tensors once

    def __call__(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """What the function returns for these inputs, in tensors of its own, which may share one storage."""
        further = self.padding.further(inputs)
        with torch.inference_mode():
            if all(own.device.type == "cuda" for own in inputs.values()):
                with self._lock:
                    recorded = self._graph_of(inputs, further)
                    if recorded is not None:
                        alike = recorded.together is not None
                        return recorded.replay(inputs if alike else self.padding.padded(inputs, further))
            return self.function(self.padding.padded(inputs, further))

    @property
    def recorded(self) -> int:
        """Graphs that are kept now."""
        return sum(own is not None for own in self._known.values())

    def _graph_of(self, inputs: Inputs, further: int) -> _Recorded | None:
        """The graph of inputs of this shape; None where it comes for the first time, or cannot be recorded."""
        key = self._key(inputs, further)
        if key in self._refused:
            return None
        if key not in self._known:
            self._keep(key, None)
            return None
        recorded = self._known[key] or self._record(self.padding.padded(inputs, further))
        self._keep(key, recorded)
        if recorded is None:
            self._refused.add(key)
        return recorded

    def _key(self, inputs: Inputs, further: int) -> object:
        shapes = tuple(
            (name, own.shape[:-1], own.shape[-1] + further, own.dtype, own.device) for name, own in inputs.items()
        )
        return shapes, tuple(map(Tensor.data_ptr, self.weights)), torch.backends.cuda.matmul.fp32_precision

    def _keep(self, key: object, recorded: _Recorded | None) -> None:
        self._known[key] = recorded
        self._known.move_to_end(key)
        while len(self._known) > self.most:
            self._known.popitem(last=False)

    def _record(self, inputs: Inputs) -> _Recorded | None:
        together, blank = self._together(inputs), None
        if together is None:
            given = {name: own.clone() for name, own in inputs.items()}
        else:
            given = dict(zip(inputs, together, strict=True))
            values = [self.padding.values.get(name, 0) for name in inputs]
            blank = torch.stack([torch.full_like(own, value) for own, value in zip(together, values, strict=True)])
        device = next(iter(given.values())).device
        now, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        aside.wait_stream(now)
        with torch.cuda.stream(aside):
            _joined(self.function(given))  # what libraries set up at a first call is not recorded
        now.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                made = self.function(given)
                joined = _joined(made)
        except RuntimeError:
            return None
        return _Recorded(graph, given, made, joined, [own.data for own in self.weights], together, blank)

    def _together(self, inputs: Inputs) -> Tensor | None:
        """Inputs of one shape and type as one tensor, if they are."""
        alike = {(own.shape, own.dtype) for own in inputs.values()}
        return torch.stack(list(inputs.values())) if len(alike) == 1 else None


def _nothing_to_join() -> None:
    """There is no other stream."""


def _joined(made: Sequence[Tensor]) -> Tensor | None:
    """Several results one after the other, if they are of one type."""
    alike = len(made) > 1 and len({own.dtype for own in made}) == 1
    return torch.cat([own.flatten() for own in made]) if alike else None
