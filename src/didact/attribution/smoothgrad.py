"""SmoothGrad: the gradient averaged over noisy copies of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.ops.paths import Followed, Noisy, covered
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="smoothgrad",
        family="gradient",
        summary="Gradient averaged over noisy copies of the token embeddings, times the embedding.",
        reference="Smilkov et al. 2017 (50 samples, noise of 10 to 20 % of the input's range)",
        cost="samples + 1 forwards, samples backwards",
        needs=frozenset({DIFFERENTIABLE}),
        seeded=True,
        aliases=("smooth_grad",),
    )
)
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(Attribution):
    """Averages away what changes in the gradient from one point to the next.

    The noise falls on the units' tokens; special tokens stay as they are. With ``noise=0`` this is
    ``gradient_x_input`` (or, with ``aggregate="norm"``, ``gradient_norm``).

    Args:
        samples: noisy copies.
        noise: standard deviation, as a share of the range (largest - smallest entry) of the text's embeddings.
        aggregate: "sum" for the dot product of mean gradient and embedding, "norm" for the mean gradient's l2 norm.
        seed: decides the noise.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="smoothgrad", noise=0.2)  # doctest: +SKIP
    """

    one_pass = True

    samples: int = 50
    noise: float = 0.15
    aggregate: Literal["sum", "norm"] = "sum"
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, samples=1, noise=0)

    @property
    def signed(self) -> bool:
        """A norm has no sign."""
        return self.aggregate == "sum"

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Differentiate at the noisy copies; the text itself, evaluated before them, predicts."""
        vectors = model.embed(units)
        points = [Followed(self.copies(unit, own), own[None]) for unit, own in zip(units, vectors, strict=True)]
        gradients = model.gradients(units, targets, points, [np.full(self.samples, 1 / self.samples)] * len(units))
        return [
            Outcome(sum_to_units(unit, self._aggregate(gradient, own)), float(values[-1]))
            for unit, own, (values, gradient) in zip(units, vectors, gradients, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The noisy copies, and the text itself, which predicts."""
        return Cost(forwards=self.samples + 1, backwards=self.samples)

    def copies(self, units: Units, vectors: Tensor) -> Noisy:
        """The noisy copies of one text's embeddings."""
        positions = covered(units)
        seeds = generator(self.seed, units.example).integers(1 << 62, size=self.samples)
        spread = float(vectors[positions].max() - vectors[positions].min())
        return Noisy(vectors, positions, self.noise * spread, seeds)

    def _aggregate(self, gradient: Tensor, vectors: Tensor) -> Tensor:
        return (gradient * vectors).sum(-1) if self.aggregate == "sum" else gradient.norm(dim=-1)
