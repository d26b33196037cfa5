"""The trainer of a cohort: losses per student, a step in place, and a step as a function that can be differentiated.

Each student has its own weights, its own training examples in its own order, and its own gradient norm; nothing is
summed over students but the loss, whose gradient with respect to one student's weights the others do not enter. So a
student's result does not depend on which others are trained beside it, and a student whose loss becomes infinite
leaves them as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from didact.errors import CapabilityError
from didact.progress import advance
from didact.students.base import Batch, Cohort, Ints, LossChannel, TaskSetup
from didact.students.batches import TrainingBatches
from didact.students.losses import CohortLosses, Losses
from didact.students.optimization import Schedule, clip_factor, clipped, decayed_names, optimizer

Parameters = dict[str, Tensor]
"""Trained parameters by name, student first; those of a cohort of one have no axis for the student."""

AfterEpoch = Callable[[int, int], None]
"""Called with the numbers of epochs and of steps so far."""


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """What happened in training.

    Attributes:
        task: the task's loss (steps, S).
        channel: the channel's loss (steps, S); zeros without a channel.
        diverged: the first step, from 0, at which a student's loss or gradient was not finite (S,); -1 for none.
    """

    task: NDArray[np.float32]
    channel: NDArray[np.float32]
    diverged: Ints


class CohortTrainer:
    """Trains the students of one cohort.

    The ordinary way is ``train``: the schedule's optimizer in place, over given batches. For training *through* a
    student's step, as when hints themselves are learned, ``functional_step`` takes parameters and returns updated ones,
    leaving the cohort as it is. With hints that require a gradient, so do the updated parameters:

        parameters = trainer.parameters()
        batch = dataclasses.replace(batch, hints=explainer(batch))
        updated = trainer.functional_step(parameters, batch, learning_rate)
        trainer.losses(held_out, updated).task.sum().backward()  # reaches the explainer

    Args:
        cohort: untrained students; moved to the setup's device.
        setup: kind of answer, channel and device.
        schedule: learning rates, clipping, weight decay, precision.
        weights: of the channel's loss, one per student.
        seeds: of the channel's parameters and of dropout, one per student.

    Attributes:
        cohort: the students, in training mode only where the schedule has dropout.
        objective: the cohort with the channel's parameters, from a batch to losses.
        weights: as a tensor (S,).
    """

    def __init__(
        self, cohort: Cohort, setup: TaskSetup, schedule: Schedule, weights: Sequence[float], seeds: Sequence[int]
    ) -> None:
        self.device, self.schedule, self.seeds = torch.device(setup.device), schedule, seeds
        self.cohort = cohort.to(self.device).train(schedule.dropout)
        channel = _loss_channel(setup)
        head = None if channel is None else channel.head(_seen_width(channel, cohort), seeds)
        if head is not None:
            head.to(self.device)
        self.objective = CohortLosses(self.cohort, setup.kind, channel, head)
        self.weights = torch.tensor(weights, device=self.device, dtype=torch.float32)
        self._optimizer, self._trained = optimizer([self.cohort, head], schedule)

    def parameters(self) -> Parameters:
        """A copy of all trained parameters, to start functional steps from."""
        named = self.objective.named_parameters()
        return {name: value.detach().clone().requires_grad_() for name, value in named if value.requires_grad}

    def load_parameters(self, parameters: Mapping[str, Tensor]) -> None:
        """Copy parameters into the cohort and the channel's head."""
        with torch.no_grad():
            for name, value in parameters.items():
                self.objective.get_parameter(name).copy_(value)

    def losses(self, batch: Batch, parameters: Mapping[str, Tensor] | None = None) -> Losses:
        """Losses of every student on a batch.

        Args:
            batch: examples of every student; its hints may require a gradient.
            parameters: used instead of the cohort's own.
        """
        with autocast(self.schedule, self.device):
            if parameters is None:
                return cast("Losses", self.objective(batch))
            return cast("Losses", functional_call(self.objective, dict(parameters), (batch,)))

    def functional_step(
        self, parameters: Mapping[str, Tensor], batch: Batch, learning_rate: float, *, differentiable: bool = True
    ) -> Parameters:
        """Parameters after one step of gradient descent; nothing is changed in place.

        Each student's gradient is clipped to the schedule's norm and its weights decay as the schedule says:
        p - learning_rate * (clipped gradient + weight_decay * p).

        Args:
            parameters: all trained ones, from ``parameters`` or from an earlier step.
            batch: examples of every student; its hints may require a gradient.
            learning_rate: of this step.
            differentiable: whether the result can be differentiated, with respect to hints and given parameters. Fused
                attention has no second derivative, so plain attention is computed then.

        Raises:
            CapabilityError: the result is to be differentiable, and the cohort has no second derivative.
        """
        if differentiable and not self.cohort.twice_differentiable:
            raise CapabilityError(
                f"{type(self.cohort).__name__} has no second derivative here, so its steps cannot be differentiated; "
                "give differentiable=False, or use transformers, or LSTMs one at a time on the CPU"
            )
        given = {name: p if p.requires_grad else p.detach().requires_grad_() for name, p in parameters.items()}
        with sdpa_kernel(SDPBackend.MATH) if differentiable else contextlib.nullcontext():
            total = self.losses(batch, given).total(self.weights).sum()
            grads = torch.autograd.grad(
                total, list(given.values()), create_graph=differentiable, materialize_grads=True
            )
        scale = clip_factor(grads, self.cohort.size, self.schedule.clip)
        decay = dict.fromkeys(decayed_names(self.objective), self.schedule.weight_decay)
        return {
            name: p - learning_rate * ((grad.reshape(len(scale), -1) * scale).view_as(p) + decay.get(name, 0.0) * p)
            for (name, p), grad in zip(given.items(), grads, strict=True)
        }

    def step(self, batch: Batch, learning_rate: float) -> tuple[Losses, Tensor]:
        """One step of the optimizer in place: the losses before it, and the norms of the students' gradients (S,)."""
        losses = self.losses(batch)
        self._optimizer.zero_grad()
        torch.autograd.backward(losses.total(self.weights).sum())
        grads = [parameter.grad for parameter in self._trained if parameter.grad is not None]
        norm = clipped(grads, self.cohort.size, self.schedule.clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        return losses, norm

    def train(self, batches: TrainingBatches, after_epoch: AfterEpoch | None = None) -> TrainingLog:
        """Train over all batches, with the schedule's learning rates.

        Args:
            batches: of all epochs.
            after_epoch: called after every epoch with the numbers of epochs and of steps so far.
        """
        tasks: list[Tensor] = []
        channels: list[Tensor] = []
        diverged = torch.full((self.cohort.size,), -1, device=self.device)
        with _seeded(self.seeds, self.device, self.schedule.dropout):
            for epoch in range(self.schedule.epochs):
                for batch in batches.epoch(epoch):
                    losses, norm = self.step(batch, self.schedule.rate(len(tasks), batches.steps))
                    finite = losses.task.isfinite() & norm.isfinite()
                    diverged = torch.where((diverged < 0) & ~finite, len(tasks), diverged)
                    tasks.append(losses.task.detach())
                    channels.append(torch.zeros_like(tasks[-1]) if losses.channel is None else losses.channel.detach())
                    advance(self.cohort.size)
                if after_epoch is not None:
                    after_epoch(epoch + 1, len(tasks))
        return TrainingLog(_stacked(tasks), _stacked(channels), diverged.cpu().numpy())

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[Cohort]:
        """The cohort without dropout inside the block."""
        try:
            yield self.cohort.eval()
        finally:
            self.cohort.train(self.schedule.dropout)


def autocast(schedule: Schedule, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Products in bfloat16 where the schedule has them and the device is a GPU."""
    if schedule.precision == "bfloat16" and device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _loss_channel(setup: TaskSetup) -> LossChannel | None:
    if setup.channel is None or isinstance(setup.channel, LossChannel):
        return setup.channel
    raise CapabilityError(f"channel {setup.channel.card.name!r} has no loss, so it does not reach networks")


def _seen_width(channel: LossChannel, cohort: Cohort) -> int:
    return cohort.heads if channel.view == "heads" else cohort.width


def _stacked(values: Sequence[Tensor]) -> NDArray[np.float32]:
    stacked: NDArray[np.float32] = torch.stack(list(values)).cpu().numpy()
    return stacked


@contextlib.contextmanager
def _seeded(seeds: Sequence[int], device: torch.device, needed: bool) -> Iterator[None]:
    """Draw dropout from the students' seeds; the caller's generator is left as it was."""
    if not needed:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(np.random.SeedSequence(list(seeds)).generate_state(1)[0]))
        yield
