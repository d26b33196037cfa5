"""A copy of an encoder in which every student of a cohort has weights of its own.

Inputs are folded, (S * B, ...), student by student. The few kinds of modules that hold weights are replaced by ones
that unfold S, use each student's own weights, and fold again; all other code of the encoder (attention, masks,
activations) treats each row by itself and runs unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.errors import CapabilityError


def stacked(model: nn.Module, size: int, shared: Collection[nn.Module] = ()) -> nn.Module:
    """A copy of an encoder for ``size`` students, all with its weights to begin with.

    Args:
        model: the encoder; left as it is.
        size: number of students.
        shared: modules of it that are frozen, so that one copy serves all.

    Raises:
        CapabilityError: some module holds weights and is of a kind that is not known here; it is named.
    """
    kept = {name for name, module in model.named_modules(remove_duplicate=False) if module in set(shared)}
    stack = copy.deepcopy(model)
    rows = _RowCount(size)
    done: dict[nn.Module, nn.Module] = {}
    for name, module in list(stack.named_modules(remove_duplicate=False)):
        if name in kept:
            module.requires_grad_(False)
        elif any(True for _ in module.parameters(recurse=False)):
            done[module] = done.get(module) or _replaced(model, name, module, rows)
            parent, _, last = name.rpartition(".")
            setattr(stack.get_submodule(parent), last, done[module])
    stack.register_forward_pre_hook(rows.count, with_kwargs=True)
    return stack


def check_stackable(model: nn.Module, inputs: dict[str, Tensor], shared: Collection[nn.Module] = ()) -> None:
    """Compare a stack of two different students with the same students by themselves.

    Args:
        model: the encoder.
        inputs: keyword arguments of a forward pass with an even number of rows, half of them for each student.
        shared: as in ``stacked``.

    Raises:
        CapabilityError: it cannot be stacked, or the stack's states differ from the students'.
    """
    pair = stacked(model, 2, shared)
    other = copy.deepcopy(model)
    frozen = {id(weight) for module in shared for weight in module.parameters()}
    own = [id(weight) not in frozen for weight in model.parameters()]
    with torch.no_grad():
        for weight, changes in zip(other.parameters(), own, strict=True):
            weight.mul_(1.1 if changes else 1.0)
        for weight in pair.parameters():
            if weight.requires_grad:
                weight[1].mul_(1.1)
    half = len(next(iter(inputs.values()))) // 2
    parts = [{name: value[part] for name, value in inputs.items()} for part in (slice(0, half), slice(half, None))]
    with torch.inference_mode():
        alone = torch.cat([net(**part).last_hidden_state for net, part in zip((model, other), parts, strict=True)])
        try:
            together = pair(**inputs).last_hidden_state
        except (RuntimeError, ValueError, IndexError, AttributeError, TypeError) as problem:
            raise CapabilityError(f"{type(model).__name__} cannot be stacked: {problem}") from problem
    if together.shape != alone.shape or not torch.allclose(together, alone, rtol=1e-3, atol=1e-3):
        raise CapabilityError(f"{type(model).__name__} cannot be stacked: the states of stacked students are different")


class StackedLinear(nn.Module):
    """A linear map of each student: (S * B, ..., inputs) -> (S * B, ..., outputs).

    Args:
        weight: (S, inputs, outputs).
        bias: (S, outputs), or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)

    @classmethod
    def drawn(cls, seeds: Sequence[int], inputs: int, outputs: int, spread: float) -> StackedLinear:
        """Weights from N(0, spread^2), each student's from its own seed, and no bias to begin with."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        weight = torch.stack([torch.randn(inputs, outputs, generator=generator) * spread for generator in generators])
        return cls(weight, torch.zeros(len(seeds), outputs))

    def forward(self, values: Tensor) -> Tensor:
        """All students' maps as one batched product."""
        flat = values.reshape(len(self.weight), -1, values.shape[-1])
        if self.bias is None:
            mapped = torch.bmm(flat, self.weight)
        else:
            mapped = torch.baddbmm(self.bias[:, None], flat, self.weight)
        return mapped.view(*values.shape[:-1], -1)


class StackedLayerNorm(nn.Module):
    """Layer normalisation with each student's scale and shift: (S * B, ..., D) -> the same."""

    def __init__(self, norm: nn.LayerNorm, size: int) -> None:
        super().__init__()
        self.eps = norm.eps
        self.weight = nn.Parameter(_repeated(norm.weight, size))
        bias: Tensor | None = norm.bias  # which may be left out
        self.bias = None if bias is None else nn.Parameter(_repeated(bias, size))

    def forward(self, values: Tensor) -> Tensor:
        """Normalise over the last axis."""
        size, width = self.weight.shape
        flat = F.layer_norm(values, (width,), eps=self.eps).reshape(size, -1, width)
        if self.bias is None:
            scaled = flat * self.weight[:, None]
        else:
            scaled = torch.addcmul(self.bias[:, None], flat, self.weight[:, None])
        return scaled.view(values.shape)


class StackedEmbedding(nn.Module):
    """Each student's vectors of its numbers: (S * B, ...) -> (S * B, ..., D).

    Numbers that are the same for all rows, as of positions, may come as one row.
    """

    offset: Tensor

    def __init__(self, weight: Tensor, batch: _RowCount | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # (S, V, D)
        self.batch = batch
        self.register_buffer("offset", torch.arange(len(weight)) * weight.shape[1], persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Look the numbers up."""
        size, _, width = self.weight.shape
        rows = len(ids) if self.batch is None else self.batch.rows
        if len(ids) == 1 and rows != 1:
            vectors = self.weight[:, ids[0]]  # (S, ..., D)
            return vectors[:, None].expand(-1, rows // size, *vectors.shape[1:]).flatten(0, 1)
        unfolded = ids.reshape(size, -1) + self.offset[:, None]
        return F.embedding(unfolded, self.weight.flatten(0, 1)).view(*ids.shape, width)


class _RowCount:
    """How many rows the current forward pass has, for modules whose input is one row for all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = size

    def count(self, _: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        named = (kwargs[name] for name in ("input_ids", "pixel_values") if name in kwargs)
        self.rows = len(next(named, args[0] if args else ()))


def _replaced(model: nn.Module, name: str, module: nn.Module, rows: _RowCount) -> nn.Module:
    build = _KINDS.get(f"{type(module).__module__}.{type(module).__name__}")
    if build is None:
        kind = type(module).__name__
        raise CapabilityError(
            f"{type(model).__name__} cannot be stacked: {name or 'it'} is a {kind}; modules with weights may be "
            f"{', '.join(path.rpartition('.')[2] for path in _KINDS)}"
        )
    return build(module, rows)


def _linear(module: nn.Module, rows: _RowCount) -> nn.Module:
    weight, bias = _weights(module)
    return StackedLinear(_repeated(weight.t(), rows.size), None if bias is None else _repeated(bias, rows.size))


def _conv1d(module: nn.Module, rows: _RowCount) -> nn.Module:
    weight, bias = _weights(module)
    return StackedLinear(_repeated(weight, rows.size), None if bias is None else _repeated(bias, rows.size))


def _norm(module: nn.Module, rows: _RowCount) -> nn.Module:
    return StackedLayerNorm(cast("nn.LayerNorm", module), rows.size)


def _embedding(module: nn.Module, rows: _RowCount) -> nn.Module:
    return StackedEmbedding(_repeated(_weights(module)[0], rows.size), rows)


_KINDS: dict[str, Callable[[nn.Module, _RowCount], nn.Module]] = {
    "torch.nn.modules.linear.Linear": _linear,
    "torch.nn.modules.normalization.LayerNorm": _norm,
    "torch.nn.modules.sparse.Embedding": _embedding,
    "transformers.pytorch_utils.Conv1D": _conv1d,
}


def _weights(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a module, where it has one."""
    parameters = dict(module.named_parameters(recurse=False))
    return parameters["weight"], parameters.get("bias")


def _repeated(weight: Tensor, size: int) -> Tensor:
    return weight.detach().expand(size, *weight.shape).clone(memory_format=torch.contiguous_format)
