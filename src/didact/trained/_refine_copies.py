"""A shape with weights of its own for every row of a batch, all computed together."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from didact.errors import ParameterError
from didact.models.planner import is_out_of_memory
from didact.students.attention_tap import use_attention_tap
from didact.trained._refine_low_rank import add_low_rank
from didact.trained.shapes.base import Shape, ShapeBatch

RowWeights = Mapping[str, Tensor]
"""Trained weights by name, one copy per row: (rows, ...)."""

_HELD = 4
"""Tensors of the size of the weights that a step of AdamW holds: weights, gradients and two moments."""


class RowCopies:
    """Independent copies of the weights that ``Shape.refined`` names; all others are shared by the rows.

    The shape itself is not touched; a copy in evaluation mode is used.

    Args:
        shape: the trained network that every row starts from.
        rank: of the changes to the matrices of linear layers; None for a copy of each matrix.
        seed: of the first values of these changes.
    """

    def __init__(self, shape: Shape, rank: int | None = None, seed: int = 0) -> None:
        self.shape = copy.deepcopy(shape).eval()
        kept = {id(weight) for weight in self.shape.refined()}
        for weight in self.shape.parameters():
            weight.requires_grad_(id(weight) in kept)
        for module in self.shape.modules():
            _avoid_branches(module)
        if rank is not None:
            add_low_rank(self.shape, rank, seed)
        self.first = {name: own.detach() for name, own in self.shape.named_parameters() if own.requires_grad}
        if not self.first:
            raise ParameterError(
                f"the {shape.card.name} has no trained weights besides tables of embeddings, so none to refine"
            )
        self.together = True

    @property
    def size(self) -> int:
        """Numbers that are learned per row."""
        return sum(weight.numel() for weight in self.first.values())

    @property
    def every(self) -> int:
        """Numbers that a pass multiplies a token by: all weights besides tables of embeddings."""
        tables = sum(table.weight.numel() for table in self.shape.modules() if isinstance(table, nn.Embedding))
        return sum(weight.numel() for weight in self.shape.parameters()) - tables

    @property
    def row_bytes(self) -> int:
        """Bytes that the weights of one row take while they are learned, activations apart."""
        return _HELD * sum(weight.numel() * weight.element_size() for weight in self.first.values())

    def weights(self, rows: int) -> dict[str, Tensor]:
        """The first weights of so many rows, as leaves of a graph, each in the order of its dimensions in memory."""
        return {
            name: weight.expand(rows, *weight.shape).clone(memory_format=torch.contiguous_format).requires_grad_()
            for name, weight in self.first.items()
        }

    def outputs(self, weights: RowWeights, inputs: ShapeBatch) -> Tensor:
        """What the shape gives for each row of a batch with the row's own weights: (rows, units, outputs).

        All rows together, or one after the other where a network decides by the values it reads what to compute.
        """
        # The fused kernel for CPUs has no form for many rows with weights of their own.
        with sdpa_kernel(SDPBackend.MATH):
            if self.together:
                try:
                    return vmap(self._row)(dict(weights), dict(inputs))
                except RuntimeError as problem:
                    if is_out_of_memory(problem) or "vmap" not in str(problem):
                        raise
                    self.together = False
            rows = range(len(next(iter(inputs.values()))))
            return torch.stack([self._row(_picked(weights, row), _picked(inputs, row)) for row in rows])

    def _row(self, weights: RowWeights, inputs: ShapeBatch) -> Tensor:
        batch = {name: column[None] for name, column in inputs.items()}
        outputs: Tensor = functional_call(self.shape, dict(weights), (batch,))
        return outputs[0]


def _picked(columns: Mapping[str, Tensor], row: int) -> dict[str, Tensor]:
    return {name: column[row] for name, column in columns.items()}


def _avoid_branches(module: nn.Module) -> None:
    """Let a Transformers network make its masks without looking whether there is padding, which rows may differ in."""
    from transformers import PreTrainedModel

    if isinstance(module, PreTrainedModel):
        use_attention_tap(module)
