"""Network and explainer as one module, which is called, exported by ``torch.export``, and written as ONNX."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from didact import disk
from didact.errors import ModelError, ParameterError
from didact.models.batch import Inputs
from didact.models.eval_mode import evaluating, frozen
from didact.models.heads.base import Head
from didact.models.hidden import watched
from didact.trained import onnx
from didact.trained.shapes._located import Located
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal

OWNER = "owner"
"""The input with the number of each position's unit."""
OUTPUTS = ("logits", "scores")
SUFFIXES = (".pt2", ".onnx")


class OneGraph(nn.Module):
    """One pass of a network from which an explainer's scores come, too.

    Args:
        network: the explained one.
        head: what of its result matters.
        shape: reads its states.
        signal: makes scores of what the shape computes.
    """

    def __init__(self, network: nn.Module, head: Head, shape: Shape, signal: Signal) -> None:
        super().__init__()
        self.network, self.shape = network, shape
        self.head, self.signal = head, signal
        self.names: tuple[str, ...] = ()

    def forward(self, *columns: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs in the order of ``names`` -> logits (rows, labels) and scores (rows, positions, labels)."""
        inputs = dict(zip(self.names, columns, strict=True))
        logits, states = self.passed(inputs)
        return logits, self.scored(states, self.shape.located(inputs[OWNER], inputs[OWNER].shape[1]))

    def passed(self, inputs: Inputs) -> tuple[Tensor, list[Tensor]]:
        """The network's part: logits, and the states that the shape reads."""
        fed = {name: value for name, value in inputs.items() if name != OWNER}
        with watched(self.network, self.shape.layers) as states:
            return self.head.outputs(self.network(**fed)), states()

    def scored(self, states: Sequence[Tensor], where: Located) -> Tensor:
        """The explainer's part: scores (rows, units, labels)."""
        return self.signal.scores(self.shape.of_located(states, where))


def written(graph: OneGraph, inputs: Inputs, file: Path) -> Path:
    """Write the graph for any number of rows and positions, in the format that the file's name ends in.

    Args:
        graph: what is traced.
        inputs: of several rows, to trace it with.
        file: what to write; nothing is left of it where that fails.
    """
    if file.suffix not in SUFFIXES:
        raise ParameterError(f"a graph is written to a file that ends in {' or '.join(SUFFIXES)}, got {file.name!r}")
    program = _traced(OneGraph(graph.network, graph.head, _in_order(graph.shape), graph.signal), inputs)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / file.name
        if file.suffix == ".onnx":
            onnx.write_program(program, made, list(inputs), OUTPUTS)
        else:
            torch.export.save(program, made)
        disk.write_bytes(file, made.read_bytes())
    return file


def _in_order(shape: Shape) -> Shape:
    """A copy whose weights lie in memory in the order of their dimensions, as files have them."""
    made = copy.deepcopy(shape)
    for weight in made.parameters():
        weight.data = weight.data.contiguous()
    return made


def _traced(graph: OneGraph, inputs: Inputs) -> torch.export.ExportedProgram:
    graph.names = tuple(inputs)
    anything = torch.export.Dim.DYNAMIC
    textual = "input_ids" in inputs  # images have one size
    free = {0: anything, 1: anything} if textual else {0: anything}
    sizes = tuple(free for _ in inputs)
    with evaluating(graph), frozen(graph), onnx.quietly(), torch.no_grad():
        try:
            return torch.export.export(graph, tuple(inputs.values()), dynamic_shapes=(sizes,))
        except Exception as problem:  # torch raises errors of many classes for what it cannot trace
            reason = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise ModelError(
                f"torch.export cannot trace {type(graph.network).__name__}: {reason:.200}; serve it with "
                "didact.attach(model, explainer) instead"
            ) from problem
