"""How the loss of students after training steps changes with the hints of these steps: the meta-gradient.

A student's gradient depends on the hints h only through its loss L(theta, h), so with w = d outer / d gradient,

    d outer / d h = d/dh <grad_theta L, w> = d/dh [derivative of L along w]

which needs no second derivative of the network: dL/dh, for which only the channel's loss is differentiated, is computed
at theta + r w and at theta or theta - r w, and nothing is approximated but the derivative along w, by a difference. At
theta, dL/dh is known from the student's step, so that a forward difference takes one more forward pass and a central
one two. Fused attention has no second derivative and stays on. For a loss weight * KL(h || e) and steps of gradient
descent, this is rate * weight * (derivative of log e along the outer gradient).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, cast, get_args

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from didact.errors import CapabilityError, ParameterError
from didact.students.base import Batch
from didact.students.losses import CohortLosses, Losses
from didact.students.optimization import products
from didact.students.trainer import CohortTrainer, Parameters, autocast
from didact.trained.scaffolding.inner import InnerOptimizer

Difference = Literal["forward", "central"]
MetaKind = Literal["linear", "exact", "unrolled", "look_ahead", "closed_form"]
LONG = ("exact", "unrolled", "look_ahead")
"""Kinds that can look over several steps."""


@dataclass(frozen=True)
class MetaGradient:
    """Which meta-gradient, and over how many steps of the students.

    * linear: through one step, by one or two forward passes; exact but for the difference.
    * exact: through one step or more by differentiating twice, with plain attention.
    * unrolled: through several steps, going back over them with products of the Hessian and a vector, each the
      difference of two gradients.
    * look_ahead: as unrolled with the Hessian left out: the outer gradient after the last step stands for all of them.
    * closed_form: through the solution of ridge students, which have no steps.
    """

    kind: MetaKind = "linear"
    steps: int = 1

    @classmethod
    def parsed(cls, text: str) -> Self:
        """From "linear", "exact", "closed_form", "unrolled:4" or "look_ahead:16"."""
        match = re.fullmatch(r"(\w+?)(?::([1-9]\d*))?", text)
        kind = match.group(1) if match else text
        long = match is not None and match.group(2) is not None
        if kind not in get_args(MetaKind) or (long and kind not in LONG):
            raise ParameterError(
                f"meta of scaffold must be linear, exact, closed_form, unrolled:K or look_ahead:K with K the number of "
                f"steps, such as unrolled:4; got {text!r}"
            )
        return cls(cast("MetaKind", kind), int(match.group(2)) if match is not None and long else 1)


@dataclass(frozen=True, eq=False)
class TakenStep:
    """A step that students made.

    Attributes:
        batch: with the hints.
        state: of parameters and optimizer before.
        grads: of the loss, before clipping.
        hint_grads: derivative of the loss with respect to the hints.
        ages: steps that each student had made before (S,).
    """

    batch: Batch
    state: Parameters
    grads: Parameters
    hint_grads: Tensor
    ages: Tensor


@dataclass(frozen=True, eq=False)
class Differentiation:
    """What meta-gradients are computed with.

    Args:
        trainer: losses of the students; its own parameters are those after the last step.
        optimizer: of the students.
        radius: length of r w, by which a student's parameters are moved.
        difference: "forward", or "central" for a smaller error and one more pass. Where students learn with products in
            bfloat16 it is always central, since both passes of a difference have to be computed alike.
    """

    trainer: CohortTrainer
    optimizer: InnerOptimizer
    radius: float = 0.02
    difference: Difference = "forward"

    def gradients(self, batch: Batch) -> tuple[Parameters, Tensor]:
        """Gradients of the students' losses with respect to their own parameters, and to the hints (S, B, L)."""
        hints = batch.hints.detach().requires_grad_()
        named, losses = self._trained(), self.trainer.losses(replace(batch, hints=hints))
        total = losses.total(self.trainer.weights).sum()
        made: Sequence[Tensor | None] = torch.autograd.grad(total, [*named.values(), hints], allow_unused=True)
        *grads, of_hints = made
        if of_hints is None:
            raise CapabilityError(
                "the channel's loss does not change with the weights of hints in a way that can be differentiated (it "
                "takes them as marked or not marked); use a channel such as head_mix or attention"
            )
        pairs = zip(named.items(), grads, strict=True)
        return {name: torch.zeros_like(p) if grad is None else grad for (name, p), grad in pairs}, of_hints

    def outer(self, batch: Batch) -> tuple[Parameters, Tensor]:
        """Gradients of the task's loss alone, for which attention is not looked at, and the losses (S,)."""
        task = CohortLosses(self.trainer.cohort, self.trainer.objective.kind)
        with autocast(self.trainer.schedule, self.trainer.device):
            losses: Tensor = task(batch).task
        named = self._trained()
        grads = torch.autograd.grad(losses.sum(), list(named.values()), materialize_grads=True)
        return dict(zip(named, grads, strict=True)), losses.detach()

    def meta_gradient(
        self, meta: MetaGradient, taken: Sequence[TakenStep], outer: Batch
    ) -> tuple[list[Tensor], Tensor]:
        """Derivatives of the outer losses with respect to the hints of the last steps, in order, and the losses (S,).

        Args:
            meta: which; as many steps as it has are differentiated.
            taken: at least so many steps, up to the present parameters.
            outer: examples whose task loss counts.
        """
        last = taken[-meta.steps :]
        if meta.kind == "exact":
            return self._exact(last, outer)
        cotangent, losses = self.outer(outer)
        hints: list[Tensor] = []
        for number, step in enumerate(reversed(last)):
            before, direction = self.optimizer.pulled(step.state, step.grads, step.ages, cotangent)
            needs_hessian = meta.kind == "unrolled" and number + 1 < len(last)
            gradient, curved = self._along(step, direction, hessian=needs_hessian)
            hints.insert(0, gradient)
            if needs_hessian:
                cotangent = {n: value + curved[n] if n in curved else value for n, value in before.items()}
        return hints, losses

    def _along(self, step: TakenStep, direction: Parameters, *, hessian: bool) -> tuple[Tensor, Parameters]:
        """Derivatives of the loss along a direction, with respect to hints and, where needed, to parameters."""
        norm = _norms(direction, self.optimizer.size)  # (S, 1)
        # Nothing moves along a direction of length 0, and the derivative is 0.
        move = torch.where(norm > 0, self.radius / norm, 0.0)
        central = hessian or self.difference == "central" or self.trainer.schedule.precision == "bfloat16"
        first = self._gradients_at(step, direction, move, hessian=hessian)
        second = self._gradients_at(step, direction, -move, hessian=hessian) if central else [step.hint_grads]
        per = torch.where(norm > 0, norm / (self.radius * (2 if central else 1)), 0.0)
        hints, *parameters = (_per_student(a - b, per) for a, b in zip(first, second, strict=True))
        return hints, dict(zip(direction, parameters, strict=False))

    def _gradients_at(self, step: TakenStep, direction: Parameters, move: Tensor, *, hessian: bool) -> list[Tensor]:
        """Gradients of the loss at moved parameters; nothing of the network is recorded where hints alone count."""
        moved = {name: step.state[name] + _per_student(value, move) for name, value in direction.items()}
        hints = step.batch.hints.detach().requires_grad_()
        wanted = [hints]
        if hessian:
            moved = {name: value.requires_grad_() for name, value in moved.items()}
            wanted += moved.values()
        total = self._losses_at(replace(step.batch, hints=hints), moved).total(self.trainer.weights).sum()
        return list(torch.autograd.grad(total, wanted, materialize_grads=True))

    def _losses_at(self, batch: Batch, parameters: Parameters) -> Losses:
        """Losses without products in bfloat16, whose rounding is as large as the differences that count here."""
        precision = self.trainer.schedule.precision
        with products("tf32" if precision == "bfloat16" else precision):
            return cast("Losses", functional_call(self.trainer.objective, parameters, (batch,)))

    def _trained(self) -> Parameters:
        return {name: value for name, value in self.trainer.objective.named_parameters() if value.requires_grad}

    def _exact(self, taken: Sequence[TakenStep], outer: Batch) -> tuple[list[Tensor], Tensor]:
        """The steps are made once more, this time recorded so that their gradients can be differentiated."""
        if not self.trainer.cohort.twice_differentiable:
            raise CapabilityError(
                f"{type(self.trainer.cohort).__name__} has no second derivative here, which meta='exact' needs; "
                "meta='linear' needs none and gives the same gradient"
            )
        state = {name: value.detach().requires_grad_() for name, value in taken[0].state.items()}
        hints = [step.batch.hints.detach().requires_grad_() for step in taken]
        with sdpa_kernel(SDPBackend.MATH):
            for step, live in zip(taken, hints, strict=True):
                own = {name: state[name] for name in step.grads}
                total = self.trainer.losses(replace(step.batch, hints=live), own).total(self.trainer.weights).sum()
                grads = torch.autograd.grad(total, list(own.values()), create_graph=True, materialize_grads=True)
                state = self.optimizer.step(state, dict(zip(own, grads, strict=True)), step.ages)
            after = {name: state[name] for name in taken[0].grads}
            losses = self.trainer.losses(outer, after).task
            return list(torch.autograd.grad(losses.sum(), hints)), losses.detach()


def _norms(values: Parameters, size: int) -> Tensor:
    """Norm of each student's part (S, 1)."""
    squares = [value.reshape(size, -1).square().sum(1) for value in values.values()]
    return torch.stack(squares).sum(0).sqrt()[:, None]


def _per_student(values: Tensor, factors: Tensor) -> Tensor:
    """Each student's part times its factor (S, 1)."""
    return (values.reshape(len(factors), -1) * factors).view_as(values)
