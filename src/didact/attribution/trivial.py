"""Trivial: encodes the label in which units it marks, and explains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, at_most, register
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Target, Units


@register(
    Card(
        name="trivial",
        family="control",
        summary="Marks the first units for one class, the next for another: leaks the label, explains nothing.",
        reference="Pruthi et al. 2022",
        cost="1 forward (the prediction)",
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class Trivial(Attribution):
    """1 for one block of ``percent`` % of the units, 0 elsewhere; which block depends on the explained class.

    A judge of explanations that rates this control high reads the label off it instead of learning anything. The last
    class has the first block, the one before it the second, and so on: for (negative, positive) that is the paper's
    first k % for positive and next k % for negative. A block holds at least one unit. Blocks that would run over the
    end of the text start again at its beginning, so classes can be distinguished only while they and ``percent``
    fit into it.

    Args:
        percent: size of a block in percent of the units.

    See also ``random``, which carries no information at all.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="trivial", percent=25).scores  # doctest: +SKIP
    """

    percent: float = 10.0

    def __post_init__(self) -> None:
        at_least(self, percent=0)
        at_most(self, percent=100)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Point at the class's block."""
        classes = len(model.labels)
        return [
            Outcome(self._block(len(unit), classes - 1 - target.index), None)
            for unit, target in zip(units, targets, strict=True)
        ]

    def cost(self, units: Units) -> Cost:
        """Only the plain prediction."""
        return Cost(forwards=1)

    def _block(self, n: int, number: int) -> Floats:
        size = max(1, round(n * self.percent / 100))
        scores = np.zeros(n)
        scores[(number * size + np.arange(size)) % n] = 1.0
        return scores
