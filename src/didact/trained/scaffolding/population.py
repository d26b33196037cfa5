"""A population of students that learn from the hints of one explainer, each from texts of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import CapabilityError, InputError, ParameterError
from didact.students.base import Batch, Ints, LossChannel, TaskSetup
from didact.students.batches import TextTensors
from didact.students.losses import task_loss
from didact.students.matching import check_examples, check_setup
from didact.students.network import NetworkStudent
from didact.students.optimization import decayed_names
from didact.students.tokenized import TokenizedTexts
from didact.students.trainer import CohortTrainer, Parameters, autocast
from didact.trained.scaffolding.group import GroupTexts
from didact.trained.scaffolding.inner import FIRST, SECOND, InnerOptimizer
from didact.trained.scaffolding.lives import Lives
from didact.trained.scaffolding.meta_gradients import Difference, Differentiation, MetaGradient, TakenStep
from didact.types import Floats


@dataclass(frozen=True, kw_only=True)
class PopulationConfig:
    """Who the students of a population are, and how the outer loss reaches their hints.

    Learning rate, optimizer, clipping and decay are settings of the kind of student; the rate stays at its peak.

    Args:
        lives: number of students, their texts, ages and replacement.
        beta: weight of the channel's loss.
        outer_batch: texts of the outer loss, drawn anew for every student and step.
        radius: by which parameters are moved for the derivative along a direction.
        difference: "forward", or "central" for a smaller error and one more pass of the students.
        meta: which meta-gradient.
        balanced: whether the meta-gradient of each student is scaled to length 1, so that all ages count the same.
    """

    lives: Lives
    beta: float = 5.0
    outer_batch: int = 32
    radius: float = 0.02
    difference: Difference = "forward"
    meta: MetaGradient = field(default_factory=MetaGradient)
    balanced: bool = False


class Population(nn.Module):
    """Students in training. All that changes in a step is in its state, so that a stored one goes on exactly.

    Args:
        student: kind of the students.
        texts: pool, outer and validation texts.
        setup: kind of answer, channel and device.
        config: how they learn.

    Attributes:
        device: where the students are.
        size: number of students.
        trainer: their losses and parameters.
    """

    done: Tensor

    def __init__(self, student: NetworkStudent, texts: GroupTexts, setup: TaskSetup, config: PopulationConfig) -> None:
        super().__init__()
        check_setup(student, setup)
        check_examples(student.card, (item.example for item in texts.all))
        self.config, self.lives, self.setup = config, config.lives, setup
        self.device, self.size = torch.device(setup.device), config.lives.students
        self._training = student.training(texts.all, (), replace(setup, together=self.size))
        self._starts = len(texts.pool), len(texts.pool) + len(texts.outer)
        self._check(student)
        self._tensors = TextTensors(self._training.data.pool, setup)
        self._answers = torch.from_numpy(_scaled(self._training.data.answers, setup)).to(self.device)
        self.trainer = self._fresh([self.lives.student_seed(number, 0) for number in range(self.size)])
        self.objective = self.trainer.objective
        self._optimizer = _inner_optimizer(self.trainer)
        self.moments = _Moments(self._optimizer.start(self._trained()), self._trained())
        self.register_buffer("done", torch.zeros((), dtype=torch.int64))

    def __deepcopy__(self, memo: dict[int, object]) -> Population:
        """A copy with weights of its own; texts, and what fresh students are made from, are shared."""
        memo |= {id(shared): shared for shared in (self._training, self._tensors, self._answers)}
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return made

    @property
    def layout(self) -> tuple[int, int, int]:
        """Students, steps of a window, and texts per step."""
        return self.size, self.lives.window, self.lives.batch

    @property
    def tokens(self) -> TokenizedTexts:
        """All texts as the students read them: those of the pool first."""
        return self._training.data.pool

    def windows(self, epoch: int) -> list[Ints]:
        """Places of the texts in every window of an epoch, students first: (students * window * batch,) each."""
        lengths = self.tokens.lengths[: self._starts[0]]
        return [window.reshape(-1) for window in self.lives.places(lengths, epoch)]

    def step(self, places: Ints, hints: Tensor) -> TakenStep:
        """One step of all students.

        Args:
            places: of the texts in the pool (S, B).
            hints: weights of positions (S, B, L or more).
        """
        batch = self.batch(places, hints)
        grads, hint_grads = self._differentiation.gradients(batch)
        before = self._trained()
        state = {name: value.detach().clone() for name, value in {**before, **self.moments.named(before)}.items()}
        ages = torch.tensor([self._age(number) for number in range(self.size)], device=self.device)
        with torch.no_grad():
            after = self._optimizer.step(state, grads, ages)
            for name, value in {**before, **self.moments.named(before)}.items():
                value.copy_(after[name])
        self.done += 1
        return TakenStep(batch, state, grads, hint_grads, ages)

    def meta_gradient(self, taken: Sequence[TakenStep], outer: Batch) -> tuple[list[Tensor], Tensor]:
        """Derivatives of the outer losses with respect to the last steps' hints, in order, and the losses (S,)."""
        return self._differentiation.meta_gradient(self.config.meta, taken, outer)

    def window(self, places: Ints, hints: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The steps of a window; then the meta-gradient (S, window, B, L) and the students' outer losses (S,).

        A student whose numbers are not finite counts nothing; its loss is the mean of the others'.

        Args:
            places: of the texts in the pool (S, window, B).
            hints: weights of positions (S, window, B, L).
            generator: draws the outer texts.
        """
        self._renew()
        kept = self.config.meta.steps
        taken: list[TakenStep] = []
        for number in range(places.shape[1]):
            taken = [*taken, self.step(places[:, number], hints[:, number])][-kept:]
        each, losses = self.meta_gradient(taken, self._outer(generator))
        gradient = torch.zeros_like(hints)
        for number, own in enumerate(reversed(each), start=1):
            gradient[:, -number, :, : own.shape[-1]] = own
        alive = losses.isfinite() & gradient.flatten(1).isfinite().all(1)
        if not alive.any():
            raise ParameterError(
                f"the losses of all {self.size} students are not finite: their training diverges; lower inner_rate "
                f"({self._optimizer.rate:g}) or beta ({self.config.beta:g}) of scaffold"
            )
        gradient = torch.where(alive[:, None, None, None], gradient, 0.0)
        if self.config.balanced:
            gradient = gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-30)[:, None, None, None]
        return gradient, torch.where(alive, losses, losses[alive].mean())

    def validation_losses(self, numbers: Ints) -> Tensor:
        """Mean over the students of the task's loss of validation texts, given by number from 0: (texts,)."""
        batch = self.batch(np.tile(numbers + self._starts[1], (self.size, 1)))
        with torch.no_grad(), autocast(self.trainer.schedule, self.device):
            answers = self.trainer.cohort(batch).answers.flatten(0, 1)[:, None].to(self._dtype)  # (S * texts, 1, ...)
        each = task_loss(answers, replace(batch, answers=batch.answers.view(-1, 1)), self.setup.kind)
        losses = each.view(self.size, -1)
        return losses[losses.isfinite().all(1)].mean(0)

    def batch(self, places: Ints, hints: Tensor | None = None) -> Batch:
        """Texts of all students (S, B), by their place among all texts, with the teacher's answers and hints."""
        where = torch.from_numpy(places).to(self.device)
        batch = self._tensors.batch(where, int(self.tokens.lengths[places].max()))
        batch = replace(batch, answers=self._answers[where])
        if self.setup.kind == "number":
            batch = replace(batch, answers=batch.answers.to(self._dtype))
        if hints is None:
            return batch
        return replace(batch, hints=hints[..., : batch.ids.shape[-1]].detach().to(self._dtype))

    @property
    def _differentiation(self) -> Differentiation:
        return Differentiation(self.trainer, self._optimizer, self.config.radius, self.config.difference)

    @property
    def _dtype(self) -> torch.dtype:
        return next(iter(self._trained().values())).dtype

    def _trained(self) -> Parameters:
        return {name: value for name, value in self.objective.named_parameters() if value.requires_grad}

    def _outer(self, generator: torch.Generator) -> Batch:
        first, behind = self._starts
        count = min(self.config.outer_batch, behind - first)
        drawn = torch.rand(self.size, behind - first, generator=generator).argsort(1)[:, :count]
        return self.batch(drawn.numpy() + first)

    @property
    def _epoch(self) -> int:
        return int(self.done) // (self.lives.windows * self.lives.window)

    def _age(self, student: int) -> int:
        """Steps that a student has made."""
        steps = self.lives.windows * self.lives.window
        return self.lives.age(student, self._epoch) * steps + int(self.done) % steps

    def _renew(self) -> None:
        """At the beginning of an epoch, put fresh students into the places of those whose life is over."""
        if int(self.done) % (self.lives.windows * self.lives.window):
            return
        own = self._trained()
        for student in self.lives.born(self._epoch):
            seed = self.lives.student_seed(student, self._epoch)
            fresh = self._fresh([seed] * min(self.size, 2)).parameters()
            with torch.no_grad():
                for name, value in own.items():
                    _row(value, student, self.size).copy_(_row(fresh[name], 0, self.size))
                for value in self.moments.named(own).values():
                    _row(value, student, self.size).zero_()

    def _fresh(self, seeds: Sequence[int]) -> CohortTrainer:
        """Untrained students."""
        weights = [self.config.beta] * len(seeds)
        return CohortTrainer(self._training.make(seeds), self.setup, self._training.schedule, weights, seeds)

    def _check(self, student: NetworkStudent) -> None:
        if not isinstance(self.setup.channel, LossChannel):
            raise CapabilityError("students of a population learn from hints; give a channel that has a loss")
        if self._training.schedule.dropout:
            raise ParameterError(f"students of a population have no dropout; set dropout of {student.card.name} to 0")
        if self.size > 1 and self._training.together(self.size) < self.size:
            raise CapabilityError(
                f"{self.size} students of the kind {student.card.name} cannot train as one cohort with this network; "
                "use students=1, or a network of the usual modules"
            )
        if self._starts[0] < self.lives.examples or self._starts[0] == self._starts[1]:
            raise InputError(
                f"a population needs {self.lives.examples} texts to learn from and at least one for the outer loss, "
                f"got {self._starts[0]} and {self._starts[1] - self._starts[0]}; give more texts, or lower examples"
            )


class _Moments(nn.Module):
    """Moments of the students' optimizer, stored as buffers."""

    def __init__(self, state: Parameters, parameters: Parameters) -> None:
        super().__init__()
        for name, value in state.items():
            if name not in parameters:
                self.register_buffer(_buffer(name), value)

    def named(self, parameters: Parameters) -> Parameters:
        """Moments by their names in a state."""
        names = [prefix + name for prefix in (FIRST, SECOND) for name in parameters]
        buffers = dict(self.named_buffers())
        return {name: buffers[_buffer(name)] for name in names if _buffer(name) in buffers}


def _buffer(name: str) -> str:
    """A name without dots, which buffers cannot have."""
    return name.replace(".", "/")


def _row(value: Tensor, student: int, size: int) -> Tensor:
    """A student's part; that of a cohort of one is all of it."""
    return value if size == 1 else value[student]


def _inner_optimizer(trainer: CohortTrainer) -> InnerOptimizer:
    """The students' own optimizer, clipping and decay, at the peak of their learning rate."""
    own = trainer.schedule
    decay = dict.fromkeys(decayed_names(trainer.objective), own.weight_decay)
    return InnerOptimizer(own.optimizer, own.learning_rate, trainer.cohort.size, own.clip, decay)


def _scaled(answers: Ints | Floats, setup: TaskSetup) -> Ints | NDArray[np.float32]:
    """Classes as they are; numbers with mean 0 and spread 1."""
    if setup.kind != "number":
        return answers.astype(np.int64)
    spread = float(answers.std())
    scaled: NDArray[np.float32] = ((answers - answers.mean()) / (spread if spread > 0 else 1.0)).astype(np.float32)
    return scaled
