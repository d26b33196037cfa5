"""Students that are solved rather than trained: the derivative of their loss goes through the solution itself.

A ridge student on words whose prior variances come from hints (``didact.students.channels.prior``) has no steps, so
that its meta-gradient has no horizon: it is that of the fully trained student.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from didact.errors import CapabilityError
from didact.students.bag_of_words import Subset, WordView, read
from didact.students.base import Ints, LabelledExample, Student, TaskSetup
from didact.students.kinds.ridge import PENALTIES, Ridge, fit, prior_of, targets_of
from didact.students.matching import check_examples, check_setup
from didact.students.tokenized import WordNumbers, worded
from didact.trained.scaffolding.group import GroupTexts


@dataclass(frozen=True, kw_only=True)
class ClosedFormConfig:
    """Which students are solved.

    Args:
        students: in every window.
        examples: training texts of each, drawn from the pool.
        weight: exponent of the prior.
        seed: decides which texts.
    """

    students: int
    examples: int
    weight: float = 1.0
    seed: int = 0


class ClosedFormStudents:
    """Ridge students, all of them new in every window.

    Args:
        student: the kind, on words.
        texts: pool, outer and validation texts.
        setup: kind of answer, channel and device.
        config: which students.
    """

    def __init__(self, student: Student, texts: GroupTexts, setup: TaskSetup, config: ClosedFormConfig) -> None:
        check_setup(student, setup)
        check_examples(student.card, (item.example for item in texts.all))
        if not isinstance(student, Ridge) or student.features != "lexical":
            raise CapabilityError(
                "meta='closed_form' goes through ridge students on words, whose hints are prior variances; leave out "
                f"student_kind and features, got {student.card.name} with {student.parameters}"
            )
        prior = prior_of(setup)
        if prior is None:
            raise CapabilityError("students in closed form need a channel that gives prior variances, such as 'prior'")
        self.student, self.config, self._prior = student, config, prior
        self.device = torch.device(setup.device)
        self.layout = config.students, 1, config.examples
        self.tokens = worded([item.example for item in texts.all], WordNumbers(()), max_length=1 << 40)
        tested = [*texts.outer, *texts.validation]
        self._bags = read([item.example for item in texts.pool], [item.example for item in tested])
        self._pool, self._outer = len(texts.pool), len(texts.outer)
        self._targets = _scaled(texts.all, setup)
        self._errors = torch.full((len(texts.validation),), torch.nan, dtype=torch.float64)

    def windows(self, epoch: int) -> list[Ints]:
        """Texts of the students of each window, as many windows as the pool has texts for one student."""
        rng = np.random.default_rng([self.config.seed, epoch])
        students, _, examples = self.layout
        count = max(1, self._pool // examples)
        drawn = [rng.choice(self._pool, examples, replace=False) for _ in range(count * students)]
        return list(np.stack(drawn).reshape(count, -1))

    def window(self, places: Ints, hints: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Derivatives (S, 1, n, L) of the students' mean squared errors on the outer texts, and the errors (S,)."""
        solved = [self._solved(own[0], given[0]) for own, given in zip(places, hints, strict=True)]
        gradients, losses, errors = zip(*solved, strict=True)
        self._errors = torch.stack(errors).mean(0)
        return torch.stack(gradients)[:, None].to(hints.dtype), torch.stack(losses)

    def validation_losses(self, numbers: Ints) -> Tensor:
        """Mean squared errors of the last window's students on validation texts."""
        errors: Tensor = self._errors[torch.from_numpy(numbers).to(self._errors.device)]
        return errors

    def outputs(self, places: Ints, hints: Tensor) -> Tensor:
        """A student's outputs for all outer and validation texts (texts, targets), differentiable.

        Args:
            places: of its training texts in the pool (n,).
            hints: weights of their words (n, L).
        """
        subset = Subset(self._bags, places, self.student.least, self.student.weighting)
        words = torch.from_numpy(self.tokens.text[places]).to(hints.device)
        variances = self._prior.variances(*subset.word_shares(hints[words].double()), self.config.weight)
        device = str(self.device)
        view = WordView(subset.train.to(device), subset.test.to(device), variances[:, None])
        targets, kernel = self._targets[places], view.kernel()
        duals, offset = solve(kernel, targets, self._penalty(kernel, targets))
        return view.answers(duals) + offset

    def _solved(self, places: Ints, hints: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Derivative of the outer loss, the loss, and the errors on the validation texts."""
        live = hints.detach().requires_grad_()
        with torch.enable_grad():
            outputs = self.outputs(places, live)
            errors = (outputs - self._targets[self._pool :]).square().mean(1)
            loss = errors[: self._outer].mean()
            (gradient,) = torch.autograd.grad(loss, live)
        return gradient, loss.detach(), errors[self._outer :].detach()

    def _penalty(self, kernel: Tensor, targets: Tensor) -> float:
        """The student's own, or the best by leave-one-out; constant when differentiating."""
        if self.student.penalty is not None:
            return self.student.penalty
        return float(fit(kernel.detach()[None], targets[None], PENALTIES).penalties[0])


def solve(kernel: Tensor, targets: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Duals (n, targets) and offset (targets,) of ridge regression at a given penalty, differentiable.

    Args:
        kernel: products of training texts with training texts (n, n).
        targets: (n, targets).
        penalty: in units of the mean of the centred kernel's diagonal.
    """
    rows = kernel.mean(1, keepdim=True)
    centred = kernel - rows - rows.mT + rows.mean()
    scale = centred.diagonal().mean().clamp(min=1e-300)
    ridge = centred + penalty * scale * torch.eye(len(kernel), dtype=kernel.dtype, device=kernel.device)
    mean = targets.mean(0)
    duals = torch.linalg.solve(ridge, targets - mean)
    return duals, mean - (kernel @ duals).mean(0)


def _scaled(texts: list[LabelledExample], setup: TaskSetup) -> Tensor:
    """Classes as -1 and 1; numbers with mean 0 and spread 1: (texts, targets)."""
    targets = targets_of(texts, setup).to(setup.device)
    if setup.kind != "number":
        return targets
    spread = targets.std(unbiased=False)
    return (targets - targets.mean()) / torch.where(spread > 0, spread, 1.0)
