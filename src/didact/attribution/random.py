"""Random scores: the control every method must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.attribution.base import Attribution, Outcome, generator, register
from didact.protocols import Model
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="random",
        family="control",
        summary="Uniform random scores in [-1, 1] that know nothing of the model.",
        reference="control",
        cost="1 forward (the prediction)",
        seeded=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class Random(Attribution):
    """What chance gives; put it beside every other method.

    Args:
        seed: decides the scores, together with the text.

    Example:
        >>> import didact
        >>> didact.explain("Any text.", method="random", seed=1)  # doctest: +SKIP
    """

    seed: int = 0

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Draw."""
        return [Outcome(generator(self.seed, unit.example).uniform(-1, 1, len(unit)), None) for unit in units]

    def cost(self, units: Units) -> Cost:
        """Only the plain prediction."""
        return Cost(forwards=1)
