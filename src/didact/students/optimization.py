"""How students are trained: the schedule, its optimizer, and what keeps one student from disturbing another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "tf32", "bfloat16"]
"""float32 throughout; float32 with products rounded to 10 bits on GPUs that can; or products in bfloat16 on GPUs."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How students are trained.

    Args:
        learning_rate: at its peak; it falls to 0 in a straight line.
        batch_size: lessons per step.
        epochs: how often each lesson is seen.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: of AdamW; not for biases and normalisations.
        clip: largest norm of a student's gradient; None for no limit.
        precision: of the products.
        dropout: whether modules are in training mode; what they draw then depends on the whole cohort.
    """

    learning_rate: float
    batch_size: int
    epochs: int
    warmup: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = 1.0
    precision: Precision = "float32"
    dropout: bool = False

    def steps(self, lessons: int) -> int:
        """How many there are in all with so many lessons."""
        return -(-lessons // self.batch_size) * self.epochs

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = int(self.warmup * steps)
        share = (step + 1) / (rise + 1) if step < rise else (steps - step) / (steps - rise)
        return self.learning_rate * share


def optimizer(
    modules: Sequence[nn.Module | None], schedule: Schedule
) -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
    """AdamW, which treats each number by itself, so that a stack of students is trained as each of them would be."""
    decayed: dict[nn.Parameter, None] = {}
    spared: dict[nn.Parameter, None] = {}
    for module in (part for whole in modules if whole is not None for part in whole.modules()):
        for name, weight in module.named_parameters(recurse=False):
            if weight.requires_grad:
                spare = "bias" in name or "norm" in type(module).__name__.lower()
                (spared if spare else decayed)[weight] = None
    groups = [
        {"params": list(decayed), "weight_decay": schedule.weight_decay},
        {"params": list(spared), "weight_decay": 0.0},
    ]
    made = torch.optim.AdamW([group for group in groups if group["params"]], lr=schedule.learning_rate, fused=True)
    return made, [*decayed, *spared]


def clipped(grads: Sequence[Tensor], size: int, clip: float | None) -> Tensor:
    """Scale gradients in place so that no student's norm is above ``clip``; their norms before (S,)."""
    flat = [grad.view(size, -1) for grad in grads]
    alone = size == 1  # one call for all its weights
    parts = [torch.stack(torch._foreach_norm(flat))] if alone else [torch.linalg.vector_norm(g, dim=1) for g in flat]
    norm: Tensor = torch.linalg.vector_norm(parts[0][:, None] if alone else torch.stack(parts), dim=0)
    if clip is not None:
        scale = (clip / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(flat, scale[0] if alone else [scale[:, None]] * len(flat))
    return norm


@contextlib.contextmanager
def products(precision: Precision) -> Iterator[None]:
    """How products of float32 are computed on GPUs; what was set comes back."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
