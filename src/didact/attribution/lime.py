"""LIME: a weighted linear surrogate fitted around the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.ops.coalitions import lime_samples
from didact.ops.regression import weighted_ridge
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Keep, Target, Units

DRAWING = 1500.0
"""Multiplications in the time that one entry of a mask takes to be drawn, sorted, centred and weighted."""


@register(
    Card(
        name="lime",
        family="perturbation",
        summary="Coefficients of a ridge regression on random variants of the text, near ones weighing more.",
        reference="Ribeiro, Singh and Guestrin 2016",
        cost="samples + 1 forwards",
        seeded=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class Lime(Attribution):
    """Each variant lacks a random number of units; its weight is sqrt(exp(-d^2 / width^2)), d = 100 x cosine distance.

    Units are positions, not word types: a word that occurs twice gets two scores. The defaults are those of the lime
    package for text, which L2E uses too; Pruthi et al. set ``samples="2n"`` and keep 2k features to show k % of them.

    Args:
        samples: variants evaluated, the full text among them; "2n" for twice the number of units.
        features: how many units get a score: the strongest of a first fit with a penalty of 0.01 are fitted again, the
            others get 0. All of them when not given.
        kernel_width: width of the kernel in hundredths of cosine distance.
        ridge: penalty on the squared coefficients.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides the variants.

    Example:
        >>> import didact
        >>> didact.explain("Good, good and bad.", method="lime", samples=500)  # doctest: +SKIP
    """

    samples: int | Literal["2n"] = 1000
    features: int | None = None
    kernel_width: float = 25.0
    ridge: float = 1.0
    absence: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, kernel_width=1e-6, ridge=0)
        if self.samples != "2n":
            at_least(self, samples=2)
        if self.features is not None:
            at_least(self, features=1)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate the neighbourhood of each text and fit its surrogate."""
        keep = [lime_samples(len(unit), self._count(unit), generator(self.seed, unit.example)) for unit in units]
        values = model.score(units, targets, keep, self.absence)
        return [self._fit(rows, value) for rows, value in zip(keep, values, strict=True)]

    def cost(self, units: Units) -> Cost:
        """The plain prediction and the samples."""
        return Cost(forwards=self._count(units) + 1)

    def fitting(self, units: Units) -> float:
        """Drawing variants, and solving a system as large as there are variants or units, whichever are fewer."""
        rows, columns = self._count(units), len(units)
        few, many = min(rows, columns), max(rows, columns)
        return DRAWING * rows * columns + few**2 * many + few**3

    def _count(self, units: Units) -> int:
        return 2 * len(units) if self.samples == "2n" else self.samples

    def _fit(self, rows: Keep, values: Floats) -> Outcome:
        weights = self._weights(rows)
        chosen = np.arange(rows.shape[1])
        if self.features is not None and self.features < len(chosen):
            first, _, _ = weighted_ridge(rows, values, weights, 0.01)
            chosen = np.argsort(-np.abs(first), kind="stable")[: self.features]
        coefficients, intercept, fit = weighted_ridge(rows[:, chosen], values, weights, self.ridge)
        scores = np.zeros(rows.shape[1])
        scores[chosen] = coefficients
        return Outcome(scores, float(values[0]), {"intercept": intercept, "r_squared": fit})

    def _weights(self, rows: Keep) -> Floats:
        distance = 100 * (1 - np.sqrt(rows.mean(axis=1)))  # cosine distance of a 0/1 row to the row of ones
        weights: Floats = np.sqrt(np.exp(-((distance / self.kernel_width) ** 2)))
        return weights
