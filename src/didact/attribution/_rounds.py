"""Evaluation in rounds, for methods that choose the next variants by the values computed so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from didact.attribution._partial import is_watched, offer
from didact.attribution.base import Outcome
from didact.ops.coalitions import Bools
from didact.ops.shapley import ShapleyEstimate, exact_fit
from didact.protocols import Model
from didact.types import Floats, Keep, Target, Units

Fit = Callable[[Bools, Floats, float], ShapleyEstimate]


class Job(ABC):
    """The work on one example: which variants to evaluate next, and what follows from their values."""

    @property
    def has_estimate(self) -> bool:
        """Whether there is an outcome already, though more is wanted."""
        return False

    @abstractmethod
    def wanted(self) -> Keep:
        """Keep masks of the next round; no rows when done."""

    @abstractmethod
    def take(self, values: Floats) -> None:
        """Receive the target under each of the wanted masks."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """The result, once nothing more is wanted."""


def in_rounds(
    model: Model, units: Sequence[Units], targets: Sequence[Target], jobs: Sequence[Job], absence: str | None
) -> list[Outcome]:
    """Run the jobs side by side: in each round all unfinished ones share one call of the model."""
    while True:
        keep = [job.wanted() for job in jobs]
        open_ = [number for number, rows in enumerate(keep) if len(rows)]
        if not open_:
            return [job.outcome() for job in jobs]
        values = model.score([units[i] for i in open_], [targets[i] for i in open_], [keep[i] for i in open_], absence)
        for number, own in zip(open_, values, strict=True):
            jobs[number].take(own)
        if is_watched() and all(job.has_estimate for job in jobs):
            offer([job.outcome() for job in jobs])


class Estimation(Job):
    """Shapley values from a list of coalitions, evaluated until the errors are small enough or the list ends.

    Args:
        coalitions: all that may be evaluated (m, n), in order, without the full and the empty one.
        stages: how many of them are known after each round, rising.
        tolerance: the largest standard error to stop at; None to evaluate all, in one round unless somebody watches.
    """

    def __init__(self, coalitions: Bools, stages: Sequence[int], tolerance: float | None) -> None:
        n = coalitions.shape[1]
        self.rows = np.concatenate([np.ones((1, n), dtype=np.bool_), np.zeros((1, n), dtype=np.bool_), coalitions])
        self.stages = [2 + stage for stage in stages] if tolerance is not None or is_watched() else [len(self.rows)]
        self.tolerance = tolerance
        self.values: Floats = np.zeros(0)
        self.latest: ShapleyEstimate | None = None

    @abstractmethod
    def estimate(self, full: float, empty: float, values: Floats) -> ShapleyEstimate:
        """Values and errors from the values of the first coalitions; no errors where they cannot be estimated."""

    def wanted(self) -> Keep:
        """The coalitions up to the next stage."""
        return self.rows[len(self.values) : self.stages[0]] if self.stages else self.rows[:0]

    def take(self, values: Floats) -> None:
        """Estimate again, and stop when the errors are small enough."""
        self.values = np.concatenate([self.values, values])
        self.stages = self.stages[1:]
        if not self.stages or self.tolerance is not None or is_watched():
            full, empty = float(self.values[0]), float(self.values[1])
            self.latest = self.estimate(full, empty, self.values[2:])
            if self.tolerance is not None and len(self.latest.errors) and self.latest.errors.max() <= self.tolerance:
                self.stages = []

    @property
    def has_estimate(self) -> bool:
        """Whether a round was evaluated."""
        return self.latest is not None

    def outcome(self) -> Outcome:
        """Scores that add up to full - empty, and their errors."""
        if self.latest is None:
            raise RuntimeError("there is no outcome before the last round")
        full, empty = float(self.values[0]), float(self.values[1])
        values, errors = self.latest
        details = {"base_value": empty}
        if len(errors):
            details |= {"max_standard_error": float(errors.max()), "mean_standard_error": float(errors.mean())}
        return Outcome(values, full, details, errors, forwards=len(self.values) + 1)


class Pairs(Estimation):
    """Shapley values from pairs of complementary coalitions; exact when all pairs are given."""

    def __init__(self, pairs: Bools, fit: Fit, tolerance: float | None) -> None:
        self.pairs = pairs
        self.fit = fit
        both = np.stack([pairs, ~pairs], axis=1).reshape(-1, pairs.shape[1])  # a pair side by side
        super().__init__(both, [2 * stage for stage in growing(2 * pairs.shape[1], len(pairs))], tolerance)

    def estimate(self, full: float, empty: float, values: Floats) -> ShapleyEstimate:
        """Fit the differences."""
        pairs = self.pairs[: len(values) // 2]
        complete = len(pairs) == (1 << (pairs.shape[1] - 1)) - 1
        return (exact_fit if complete else self.fit)(pairs, values[0::2] - values[1::2], full - empty)


def growing(first: int, last: int) -> list[int]:
    """Stages from ``first`` to ``last``, each half as large again as the one before."""
    stages = [min(first, last)]
    while stages[-1] < last:
        stages.append(min(last, stages[-1] + (stages[-1] + 1) // 2))
    return stages
