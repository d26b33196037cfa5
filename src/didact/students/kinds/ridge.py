"""Ridge regression on words or on frozen features: a student that is taught in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import InputError, ParameterError
from didact.settings import at_least
from didact.students.bag_of_words import BagOfWords, Weighting
from didact.students.base import STUDENTS, Course, Lesson, Student, StudentCard, StudentOutcome, TaskSetup
from didact.students.channels.prior import PriorChannel
from didact.students.cohort_training import check_setup
from didact.students.frozen_features import FrozenFeatures
from didact.types import Example, Floats

PENALTIES: Floats = 10.0 ** np.arange(-3.0, 3.01, 0.25)
"""What is tried where no penalty is given."""

CELLS = {"cpu": 1_000_000, "cuda": 64_000_000}
"""Numbers in the kernels of students that are solved together: on the CPU what fits its caches."""


class View(Protocol):
    """What a student sees of its lessons and of the exam."""

    def kernel(self) -> Tensor:
        """Products of lessons with lessons (n, n)."""

    def answers(self, duals: Tensor) -> Tensor:
        """Products of the exam with lessons, summed up with these duals (n, targets) -> (items, targets)."""


class Features(Protocol):
    """Where views come from."""

    def view(self, course: Course, prior: PriorChannel | None) -> View:
        """What the student of this course sees."""


@STUDENTS.register(
    StudentCard(
        name="ridge",
        family="closed form",
        summary="Ridge regression on words or on frozen features; the penalty is chosen by exact leave-one-out.",
        reference="Hoerl and Kennard 1970; leave-one-out: Allen 1974",
        channels=frozenset({"prior"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Ridge(Student):
    """Least squares with a penalty: min over w and b of |y - b - Xw|^2 + penalty * sum of w_j^2 / variance_j.

    The variances are 1, or come from hints through the channel ``prior``. Classes are as many targets of -1 and 1, and
    the largest one answers. The solution is found in the kernel of the lessons, where one eigendecomposition gives the
    leave-one-out errors of all penalties. Teaching takes some hundredths of a second and has nothing random in it, so
    the seed of a course does not matter.

    Args:
        features: "lexical", the words of a text; or "frozen", the mean of an encoder's last hidden states.
        weighting: of words: "tfidf", over the lessons, or "binary".
        least: lessons that a word must stand in.
        penalty: in units of the mean squared length of the centred lessons; None chooses it by leave-one-out.
        model: encoder of frozen features: a Hub id or a directory; None for that of the embedded sentiment model.
        max_length: tokens that the encoder reads.
    """

    features: Literal["lexical", "frozen"] = "lexical"
    weighting: Weighting = "tfidf"
    least: int = 2
    penalty: float | None = None
    model: str | None = None
    max_length: int = 256

    def __post_init__(self) -> None:
        at_least(self, least=1, max_length=4)
        if self.penalty is not None and not self.penalty > 0:
            raise ParameterError(f"penalty of ridge must be above 0, or None to choose it; got {self.penalty!r}")

    def taught(
        self, pool: Sequence[Lesson], courses: Sequence[Course], exam: Sequence[Example], lab: TaskSetup
    ) -> list[StudentOutcome]:
        """One outcome per course, each as if it were the only one."""
        check_setup(self, lab)
        features = self._features([lesson.example for lesson in pool], exam, lab.device)
        targets = _targets(pool, lab)
        penalties = PENALTIES if self.penalty is None else np.array([self.penalty])
        outcomes: dict[int, StudentOutcome] = {}
        for chunk in _chunks(courses, lab):
            taken = [courses[place] for place in chunk]
            views = [features.view(course, _prior(lab)) for course in taken]
            wanted = torch.stack([targets[torch.from_numpy(course.lessons)] for course in taken]).to(lab.device)
            sound = torch.tensor([_has_sound_hints(course) for course in taken], device=lab.device)
            outcomes.update(zip(chunk, _solved(views, wanted, sound, penalties, lab), strict=True))
        return [outcomes[place] for place in range(len(courses))]

    def _features(self, pool: Sequence[Example], exam: Sequence[Example], device: str) -> Features:
        if self.features == "lexical":
            return BagOfWords(pool, exam, least=self.least, weighting=self.weighting, device=device)
        return FrozenFeatures(pool, exam, model=self.model, max_length=self.max_length, device=device)


@dataclass(frozen=True, eq=False)
class Fit:
    """Solutions of several students.

    Attributes:
        duals: what each lesson counts (S, n, targets).
        offsets: what is added to the products (S, targets).
        penalties: chosen (S,).
        errors: mean squared leave-one-out error (S,).
    """

    duals: Tensor
    offsets: Tensor
    penalties: Tensor
    errors: Tensor


def fit(kernels: Tensor, targets: Tensor, penalties: Floats) -> Fit:
    """Ridge regression with a free offset, at the penalty with the smallest leave-one-out error.

    Leaving lesson i out changes its residual to residual_i / (1 - H_ii), where H = 11'/n + K (K + p)^-1 and K is the
    centred kernel; residual = p (K + p)^-1 y. With K = Q e Q', all penalties p share Q.

    Args:
        kernels: products of lessons with lessons (S, n, n).
        targets: (S, n, targets).
        penalties: tried, in units of the mean of the centred kernel's diagonal.
    """
    students, n, width = targets.shape
    rows = kernels.mean(2, keepdim=True)
    centred = kernels - rows - rows.mT + rows.mean(1, keepdim=True)
    scale = centred.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-300)[:, None]  # (S, 1)
    values, vectors = torch.linalg.eigh(centred / scale[..., None])
    tried = torch.as_tensor(penalties, dtype=targets.dtype, device=targets.device)
    shrunk = 1 / (values.clamp(min=0)[..., None] + tried)  # (S, n, P)

    means = targets.mean(1)
    turned = vectors.mT @ (targets - means[:, None])  # (S, n, targets)
    duals = vectors @ (shrunk[..., None] * turned[:, :, None]).flatten(2)
    duals = duals.view(students, n, len(tried), width)
    left = tried * (vectors**2 @ shrunk) - 1 / n  # 1 - H_ii (S, n, P)
    loo = tried[:, None] * duals / left.clamp(min=1e-9)[..., None]
    errors, best = (loo**2).mean((1, 3)).min(1)

    chosen = duals[torch.arange(students, device=duals.device), :, best] / scale[..., None]
    offsets = means - (kernels @ chosen).mean(1)
    return Fit(chosen, offsets, tried[best], errors)


def _targets(pool: Sequence[Lesson], lab: TaskSetup) -> Tensor:
    """Numbers as they are, classes as -1 and 1 (pool, targets); of two classes the second is enough."""
    answers = np.array([lesson.answer for lesson in pool], dtype=np.float64)
    if lab.task == "number":
        return torch.from_numpy(answers)[:, None]
    classes = np.arange(lab.outputs)
    if not np.isin(answers, classes).all():
        wrong = answers[~np.isin(answers, classes)][0]
        raise InputError(f"answers must be class numbers from 0 to {lab.outputs - 1}, got {wrong:g}")
    asked = classes[1:] if lab.outputs == 2 else classes
    return torch.from_numpy(np.where(answers[:, None] == asked, 1.0, -1.0))


def _prior(lab: TaskSetup) -> PriorChannel | None:
    return lab.channel if isinstance(lab.channel, PriorChannel) else None


def _chunks(courses: Sequence[Course], lab: TaskSetup) -> Iterator[list[int]]:
    """Courses of equal length that are solved together, those on the same lessons beside each other."""
    empty = [place for place, course in enumerate(courses) if not len(course.lessons)]
    if empty:
        raise InputError(f"course {empty[0]} has no lessons; give at least one")
    order = sorted(range(len(courses)), key=lambda k: (len(courses[k].lessons), courses[k].lessons.tobytes()))
    start = 0
    while start < len(order):
        size = len(courses[order[start]].lessons)
        most = lab.together or max(1, CELLS[lab.device.partition(":")[0]] // size**2)
        chunk = [place for place in order[start : start + most] if len(courses[place].lessons) == size]
        yield chunk
        start += len(chunk)


def _has_sound_hints(course: Course) -> bool:
    if course.weight == 0:
        return True
    return all(bool(np.isfinite(hint.weights).all()) for hint in course.hints if hint is not None)


def _solved(
    views: Sequence[View], targets: Tensor, sound: Tensor, penalties: Floats, lab: TaskSetup
) -> list[StudentOutcome]:
    """Outcomes of students with equally many lessons; those whose numbers are not finite do not spoil the others."""
    kernels = torch.stack([view.kernel() for view in views])
    sound = sound & kernels.isfinite().all(2).all(1) & targets.isfinite().all(2).all(1)
    kernels, targets = (torch.where(sound[:, None, None], given, 0.0) for given in (kernels, targets))
    found = fit(kernels, targets, penalties)
    outcomes = []
    for place, view in enumerate(views):
        answers = (view.answers(found.duals[place]) + found.offsets[place]).cpu().numpy()
        details = {"penalty": float(found.penalties[place]), "leave_one_out_error": float(found.errors[place])}
        trouble = (
            None
            if sound[place]
            else "weights of its hints, or what became of them, or the teacher's numbers are not finite"
        )
        outcomes.append(StudentOutcome(_said(answers, lab), trouble, details))
    return outcomes


def _said(answers: Floats, lab: TaskSetup) -> NDArray[Any]:
    """Classes or numbers (items,)."""
    if lab.task == "number":
        return answers[:, 0]
    return (answers[:, 0] > 0).astype(np.int64) if lab.outputs == 2 else answers.argmax(axis=1)
