"""The student's optimizer as a function: the state after a step from the state before it and a gradient.

Being plain tensor operations, a step can be differentiated with respect to both, with clipping, weight decay and
preconditioning as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from didact.students.optimization import OptimizerName, clip_factor
from didact.students.trainer import Parameters

FIRST, SECOND = "first moment of ", "second moment of "
"""Prefixes of a parameter's moments in a state."""

BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True, eq=False)
class InnerOptimizer:
    """Gradient descent or AdamW of the students of a cohort, each clipped by its own norm.

        p - rate * (u + decay * p),    u = clipped gradient ("sgd") or Adam's direction from it ("adamw")

    Args:
        kind: "sgd" or "adamw".
        rate: learning rate, the same in every step.
        size: number of students.
        clip: largest norm of a student's gradient; None for no limit.
        decay: weight decay by name of the parameter; 0 for those that are not named.
    """

    kind: OptimizerName
    rate: float
    size: int
    clip: float | None = None
    decay: Mapping[str, float] = field(default_factory=dict)

    def start(self, parameters: Parameters) -> Parameters:
        """The state before the first step: the parameters and, for AdamW, their moments."""
        if self.kind == "sgd":
            return dict(parameters)
        zeros = {name: torch.zeros_like(value) for name, value in parameters.items()}
        moments = {prefix + name: zero.clone() for prefix in (FIRST, SECOND) for name, zero in zeros.items()}
        return {**parameters, **moments}

    def step(self, state: Parameters, grads: Parameters, ages: Tensor) -> Parameters:
        """The state after a step.

        Args:
            state: from ``start`` or an earlier step.
            grads: of the parameters, by name.
            ages: steps that each student has made before (S,).
        """
        scale = clip_factor(list(grads.values()), self.size, self.clip)
        stepped: Parameters = {}
        for name, grad in grads.items():
            direction = (grad.reshape(self.size, -1) * scale).view_as(grad)
            if self.kind == "adamw":
                direction = self._preconditioned(name, direction, state, stepped, ages)
            stepped[name] = state[name] - self.rate * (direction + self.decay.get(name, 0.0) * state[name])
        return stepped

    def pulled(
        self, state: Parameters, grads: Parameters, ages: Tensor, cotangent: Parameters
    ) -> tuple[Parameters, Parameters]:
        """From d loss / d (state after) to d loss / d (state before) and d loss / d gradient."""
        before = {name: value.detach().requires_grad_() for name, value in state.items()}
        live = {name: value.detach().requires_grad_() for name, value in grads.items()}
        with torch.enable_grad():
            after = self.step(before, live, ages)
        names = [name for name in after if name in cotangent]
        pulled = torch.autograd.grad(
            [after[name] for name in names],
            [*before.values(), *live.values()],
            [cotangent[name] for name in names],
            materialize_grads=True,
        )
        return (
            dict(zip(before, pulled[: len(before)], strict=True)),
            dict(zip(live, pulled[len(before) :], strict=True)),
        )

    def _preconditioned(self, name: str, grad: Tensor, state: Parameters, stepped: Parameters, ages: Tensor) -> Tensor:
        """Adam's direction; the new moments are put into ``stepped``."""
        first = BETAS[0] * state[FIRST + name] + (1 - BETAS[0]) * grad
        second = BETAS[1] * state[SECOND + name] + (1 - BETAS[1]) * grad**2
        stepped[FIRST + name], stepped[SECOND + name] = first, second
        done = (ages.to(grad.dtype) + 1)[:, None]
        mean = first.reshape(self.size, -1) / (1 - BETAS[0] ** done)
        square = second.reshape(self.size, -1) / (1 - BETAS[1] ** done)
        # The square root has no finite derivative at 0, where the mean is 0 too.
        root = torch.where(square > 0, square, 1.0).sqrt()
        return torch.where(square > 0, mean / (root + EPSILON), 0.0).view_as(grad)
