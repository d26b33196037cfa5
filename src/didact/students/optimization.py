"""The schedule of training, its optimizer, and gradient clipping for each student by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "tf32", "bfloat16"]
"""float32 throughout; float32 with products rounded to 10 bits on GPUs that can; or products in bfloat16 on GPUs."""

OptimizerName = Literal["adamw", "sgd"]
"""Both treat each number by itself, so that a stack of students is trained as each of them would be."""

ScheduleShape = Literal["linear", "constant"]
"""Learning rates after the peak: falling to 0 in a straight line, or staying there."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How students are trained.

    Args:
        learning_rate: at its peak.
        batch_size: training examples per step.
        epochs: how often each training example is seen.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: not for biases and normalisations.
        clip: largest norm of a student's gradient; None for no limit.
        optimizer: "adamw", or "sgd" without momentum: p - rate * (clipped gradient + weight_decay * p).
        schedule: of the learning rate after its peak.
        precision: of the products.
        dropout: whether modules are in training mode; the random numbers they draw then depend on the whole cohort.
        least_steps: where few training examples give fewer steps than this, epochs are multiplied until they do not.
    """

    learning_rate: float
    batch_size: int
    epochs: int
    warmup: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = 1.0
    optimizer: OptimizerName = "adamw"
    schedule: ScheduleShape = "linear"
    precision: Precision = "float32"
    dropout: bool = False
    least_steps: int = 0

    def steps(self, examples: int) -> int:
        """Number of steps for so many training examples."""
        return -(-examples // self.batch_size) * self.epochs

    def stretch(self, examples: int) -> int:
        """How many times the epochs are needed so that so many training examples give the least number of steps."""
        return max(1, -(-self.least_steps // self.steps(examples)))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = int(self.warmup * steps)
        if step < rise:
            share = (step + 1) / (rise + 1)
        else:
            share = 1.0 if self.schedule == "constant" else (steps - step) / (steps - rise)
        return self.learning_rate * share


def optimizer(
    modules: Sequence[nn.Module | None], schedule: Schedule
) -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
    """The schedule's optimizer for all trained parameters of some modules.

    Returns:
        The optimizer and the parameters that it trains.
    """
    decayed: dict[nn.Parameter, None] = {}
    spared: dict[nn.Parameter, None] = {}
    for whole in modules:
        for _, parameter, decays in _trained(whole):
            (decayed if decays else spared)[parameter] = None
    groups = [
        {"params": list(decayed), "weight_decay": schedule.weight_decay},
        {"params": list(spared), "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if schedule.optimizer == "adamw" else torch.optim.SGD
    filled = [group for group in groups if group["params"]]
    return kind(filled, lr=schedule.learning_rate, fused=True), [*decayed, *spared]


def decayed_names(module: nn.Module) -> list[str]:
    """Names of the trained parameters to which weight decay applies: all but biases and normalisations."""
    return [name for name, _, decays in _trained(module) if decays]


def _trained(whole: nn.Module | None) -> Iterator[tuple[str, nn.Parameter, bool]]:
    """Trained parameters of a module: name, parameter, and whether weight decay applies to it."""
    for path, module in () if whole is None else whole.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                spared = "bias" in name or "norm" in type(module).__name__.lower()
                yield f"{path}.{name}" if path else name, parameter, not spared


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


def clip_factor(grads: Sequence[Tensor], size: int, clip: float | None) -> Tensor:
    """What each student's gradient is multiplied with so that its norm is at most ``clip`` (S, 1), differentiable."""
    flat = torch.cat([grad.reshape(size, -1) for grad in grads], 1)
    if clip is None:
        return flat.new_ones(size, 1)
    norm: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return (clip / (norm + 1e-6)).clamp(max=1.0)


@contextlib.contextmanager
def products(precision: Precision) -> Iterator[None]:
    """Set how products of float32 are computed on GPUs; the earlier settings are restored."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
