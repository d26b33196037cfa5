"""Ridge regression on words or on frozen features: a student that is solved in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from didact.errors import CapabilityError, InputError, ParameterError
from didact.settings import at_least
from didact.students.bag_of_words import BagOfWords, Weighting
from didact.students.base import (
    STUDENTS,
    FeaturePrior,
    Ints,
    LabelledExample,
    Student,
    StudentCard,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.frozen_features import FrozenFeatures
from didact.students.matching import check_setup
from didact.types import Example, Floats

PENALTIES: Floats = 10.0 ** np.arange(-3.0, 3.01, 0.25)
"""The penalties that are tried where none is given."""

CELLS = {"cpu": 1_000_000, "cuda": 64_000_000}
"""Numbers in the kernels of students that are solved together: on the CPU what fits its caches."""


class FeatureView(Protocol):
    """Features of a run's training texts and of the test texts."""

    def kernel(self) -> Tensor:
        """Products of training texts with training texts (n, n)."""

    def answers(self, duals: Tensor) -> Tensor:
        """Products of test texts with training texts, summed up with these duals (n, targets) -> (items, targets)."""


class FeatureSource(Protocol):
    """Where views come from."""

    def view(self, run: StudentRun, prior: FeaturePrior | None) -> FeatureView:
        """The features of this run, weighed by its hints."""


@STUDENTS.register(
    StudentCard(
        name="ridge",
        family="closed form",
        summary="Ridge regression on words or on frozen features; the penalty is chosen by exact leave-one-out.",
        reference="Hoerl and Kennard 1970; leave-one-out: Allen 1974",
        offers=frozenset({"feature_prior"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Ridge(Student):
    """Least squares with a penalty: min over w and b of |y - b - Xw|^2 + penalty * sum of w_j^2 / variance_j.

    The variances are 1, or come from hints through a channel such as ``prior``. Classes are as many targets of -1 and
    1, and the class with the largest is predicted. The problem is solved in the kernel of the training texts, where one
    eigendecomposition gives the leave-one-out errors of all penalties. That takes some hundredths of a second and has
    nothing random in it, so the seed of a run does not matter.

    Args:
        features: "lexical", the words of a text; or "frozen", the mean of an encoder's last hidden states.
        weighting: of words: "tfidf", over the training texts, or "binary".
        least: training texts that a word must occur in.
        penalty: in units of the mean squared length of the centred features; None chooses it by leave-one-out.
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

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        """One outcome per run, each as if it were the only one."""
        check_setup(self, setup)
        source = self._features([labelled.example for labelled in pool], test, setup.device)
        targets, prior = targets_of(pool, setup), prior_of(setup)
        penalties = PENALTIES if self.penalty is None else np.array([self.penalty])
        outcomes: dict[int, StudentOutcome] = {}
        for chunk in _chunks(runs, setup):
            chosen = [runs[number] for number in chunk]
            views = [source.view(run, prior) for run in chosen]
            wanted = torch.stack([targets[torch.from_numpy(run.places)] for run in chosen]).to(setup.device)
            finite = torch.tensor([run.has_finite_hints for run in chosen], device=setup.device)
            outcomes.update(zip(chunk, _solved(views, wanted, finite, penalties, setup), strict=True))
        return [outcomes[number] for number in range(len(runs))]

    def _features(self, pool: Sequence[Example], test: Sequence[Example], device: str) -> FeatureSource:
        if self.features == "lexical":
            return BagOfWords(pool, test, least=self.least, weighting=self.weighting, device=device)
        return FrozenFeatures(pool, test, model=self.model, max_length=self.max_length, device=device)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Solutions of several students.

    Attributes:
        duals: weight of each training text (S, n, targets).
        offsets: what is added to the products (S, targets).
        penalties: chosen (S,).
        errors: mean squared leave-one-out error (S,).
    """

    duals: Tensor
    offsets: Tensor
    penalties: Tensor
    errors: Tensor


def fit(kernels: Tensor, targets: Tensor, penalties: Floats) -> RidgeFit:
    """Ridge regression with a free offset, at the penalty with the smallest leave-one-out error.

    Leaving training text i out changes its residual to residual_i / (1 - H_ii), where H = 11'/n + K (K + p)^-1 and K is
    the centred kernel; residual = p (K + p)^-1 y. With K = Q e Q', all penalties p share Q.

    Args:
        kernels: products of training texts with training texts (S, n, n).
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
    return RidgeFit(chosen, offsets, tried[best], errors)


def targets_of(pool: Sequence[LabelledExample], setup: TaskSetup) -> Tensor:
    """Numbers as they are, classes as -1 and 1 (pool, targets); of two classes the second is enough."""
    answers = np.array([labelled.answer for labelled in pool], dtype=np.float64)
    if setup.kind == "number":
        return torch.from_numpy(answers)[:, None]
    classes = np.arange(setup.outputs)
    if not np.isin(answers, classes).all():
        wrong = answers[~np.isin(answers, classes)][0]
        raise InputError(f"answers must be class numbers from 0 to {setup.outputs - 1}, got {wrong:g}")
    columns = classes[1:] if setup.outputs == 2 else classes
    return torch.from_numpy(np.where(answers[:, None] == columns, 1.0, -1.0))


def prior_of(setup: TaskSetup) -> FeaturePrior | None:
    """The setup's channel as a prior; None without a channel."""
    if setup.channel is None or isinstance(setup.channel, FeaturePrior):
        return setup.channel
    raise CapabilityError(
        f"channel {setup.channel.card.name!r} needs 'feature_prior' and must have what the protocol FeaturePrior has: "
        "gate, variances and proportions"
    )


def _chunks(runs: Sequence[StudentRun], setup: TaskSetup) -> Iterator[list[int]]:
    """Numbers of runs of equal length that are solved together, those on the same texts beside each other."""
    empty = [number for number, run in enumerate(runs) if not len(run.places)]
    if empty:
        raise InputError(f"run {empty[0]} (from 0) has no training examples; give at least one")
    order = sorted(range(len(runs)), key=lambda k: (len(runs[k].places), runs[k].places.tobytes()))
    start = 0
    while start < len(order):
        size = len(runs[order[start]].places)
        most = setup.together or max(1, CELLS[setup.device.partition(":")[0]] // size**2)
        chunk = [number for number in order[start : start + most] if len(runs[number].places) == size]
        yield chunk
        start += len(chunk)


def _solved(
    views: Sequence[FeatureView], targets: Tensor, finite: Tensor, penalties: Floats, setup: TaskSetup
) -> list[StudentOutcome]:
    """Outcomes of students with equally many training texts; those with infinite numbers leave the others as they are.

    Args:
        views: features, one per student.
        targets: (S, n, targets).
        finite: whether a student's hints are finite (S,).
        penalties: tried.
        setup: kind of answer.
    """
    kernels = torch.stack([view.kernel() for view in views])
    finite = finite & kernels.isfinite().all(2).all(1) & targets.isfinite().all(2).all(1)
    kernels, targets = (torch.where(finite[:, None, None], values, 0.0) for values in (kernels, targets))
    solution = fit(kernels, targets, penalties)
    outcomes = []
    for number, view in enumerate(views):
        outputs = (view.answers(solution.duals[number]) + solution.offsets[number]).cpu().numpy()
        details = {"penalty": float(solution.penalties[number]), "leave_one_out_error": float(solution.errors[number])}
        failure = None if finite[number] else "weights of its hints, features made of them, or answers are not finite"
        outcomes.append(StudentOutcome(_answers(outputs, setup), failure, details))
    return outcomes


def _answers(outputs: Floats, setup: TaskSetup) -> Ints | Floats:
    """Classes or numbers (items,)."""
    if setup.kind == "number":
        return outputs[:, 0]
    return (outputs[:, 0] > 0).astype(np.int64) if setup.outputs == 2 else outputs.argmax(axis=1)
