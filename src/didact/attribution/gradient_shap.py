"""Gradient SHAP: gradients at random points between a cloud of baselines and the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.ops.paths import Followed, Noisy, Towards, Ways, covered
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="gradient_shap",
        family="gradient",
        summary="Expected gradients: integrated gradients averaged over baselines drawn round one embedding.",
        reference="Lundberg and Lee 2017; Erion et al. 2021 (expected gradients)",
        cost="samples + 1 forwards, samples backwards",
        needs=frozenset({DIFFERENTIABLE}),
        seeded=True,
        aliases=("expected_gradients", "gradshap"),
    )
)
@dataclass(frozen=True, kw_only=True)
class GradientShap(Attribution):
    """Mean of (text - baseline) x gradient at a random point between the two, a new baseline for every point.

    Baselines are the baseline embedding plus normal noise, at the units' tokens; special tokens stay. The points'
    distances are drawn one from each of ``samples`` equal intervals, which leaves the mean as it is and makes it vary
    less. In the mean, scores add up to target(text) - mean target(baselines). With ``noise=0`` this is
    ``integrated_gradients`` with a random rule.

    Args:
        samples: random points.
        baseline: centre of the baselines: "mask", "pad" or "zero" embedding, or "token:X".
        noise: standard deviation round it, as a share of the range of the text's embeddings.
        seed: decides points and baselines.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="gradient_shap", samples=200)  # doctest: +SKIP
    """

    one_pass = True

    samples: int = 50
    baseline: str = "mask"
    noise: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, samples=1, noise=0)

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Differentiate at the random points; the text itself, evaluated before them, predicts."""
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        ways = [self._ways(*parts) for parts in zip(units, starts, ends, strict=True)]
        points = [Followed(way, end[None]) for way, end in zip(ways, ends, strict=True)]
        gradients = model.gradients(units, targets, points, [way.ways for way in ways])
        return [
            Outcome(sum_to_units(unit, total.sum(-1) / self.samples), float(values[-1]))
            for unit, (values, total) in zip(units, gradients, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """The points, and the text itself, which predicts."""
        return Cost(forwards=self.samples + 1, backwards=self.samples)

    def _ways(self, units: Units, start: Tensor, end: Tensor) -> Towards:
        rng = generator(self.seed, units.example)
        positions = covered(units)
        spread = float(end[positions].max() - end[positions].min())
        baselines = Noisy(start, positions, self.noise * spread, rng.integers(1 << 62, size=self.samples))
        alphas = (rng.permutation(self.samples) + rng.random(self.samples)) / self.samples
        return Towards(Ways(baselines, end), alphas)
