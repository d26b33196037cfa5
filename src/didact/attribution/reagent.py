"""ReAGent: what the prediction loses when units are replaced by words that could stand there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, at_most, generator, register
from didact.ops.coalitions import Bools
from didact.protocols import Model
from didact.settings import FILE
from didact.types import Card, Cost, Floats, Target, Units


@register(
    Card(
        name="reagent",
        family="perturbation",
        summary="Loss when a unit is among those replaced by sampled words, against when it is not.",
        reference="Zhao and Shan 2024, for classification",
        cost="about rounds / share + 2 forwards",
        seeded=True,
        inputs=("text", "pair"),
    )
)
@dataclass(frozen=True, kw_only=True)
class Reagent(Attribution):
    """Random groups of units are replaced by sampled words rather than by a mask token the model seldom sees in use.

    For a replacement that takes the probability from p to p', the update is logit((1 + p - p') / 2), as published: up
    for the replaced units, down for the others. The published method adds updates up until keeping the best units
    keeps the prediction, and reports their softmax. Here the number of updates is fixed, so that the cost is known;
    every round replaces each unit exactly once, so that the order is that of the added-up updates; and the score is
    the mean update with the unit replaced minus the mean update with it kept, which has a sign where a softmax has
    none.

    Where words come from: the published method takes them from a second, masked language model. A classifier comes
    without one, so they are drawn from ``background``, a text file of the kind that is classified, in which a word
    counts as often as it occurs. Where no file is given every absent token becomes a whole word of the model's
    vocabulary (the first 5000, each equally likely), or, for a black box, one of some 170 common English words. Words
    are drawn without a look at the context.

    Args:
        rounds: how often each unit is replaced.
        share: share of the units that is replaced at a time.
        background: text file to draw replacements from.
        seed: decides groups and replacements.

    The scale is "probability" where the model has one; on other scales the update is the plain difference.
    ``occlusion`` and ``lime`` with ``absence="sample:0"`` draw from the same words.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="reagent", rounds=50)  # doctest: +SKIP
    """

    rounds: int = 300
    share: float = 0.3
    background: str | None = field(default=None, metadata=FILE)
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, rounds=1, share=0.01, seed=0)
        at_most(self, share=1)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Evaluate the full text and all groups, then compare."""
        replaced = [self._groups(unit) for unit in units]
        keep = [np.concatenate([np.ones((1, rows.shape[1]), dtype=np.bool_), ~rows]) for rows in replaced]
        background = "" if self.background is None else f":{self.background}"
        values = model.score(units, targets, keep, f"sample:{self.seed}{background}")
        return [self._compare(*parts) for parts in zip(replaced, values, targets, strict=True)]

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the full text and one variant per group."""
        return Cost(forwards=2 + self.rounds * self._parts(len(units)))

    def _settled(self, model: Model) -> Self:
        on_probabilities = self.scale is None and "probability" in model.scales
        return dataclasses.replace(self, scale="probability") if on_probabilities else super()._settled(model)

    def _parts(self, n: int) -> int:
        """Groups that a round divides the units into."""
        return min(n, max(1, round(1 / self.share)))

    def _groups(self, units: Units) -> Bools:
        """Which units each variant replaces; the groups of a round share no unit: (rounds x parts, n)."""
        n, parts = len(units), self._parts(len(units))
        rng = generator(self.seed, units.example)
        rows = np.zeros((self.rounds * parts, n), dtype=np.bool_)
        for number in range(self.rounds):
            for part, group in enumerate(np.array_split(rng.permutation(n), parts)):
                rows[number * parts + part, group] = True
        return rows

    def _compare(self, replaced: Bools, values: Floats, target: Target) -> Outcome:
        drop = values[0] - values[1:]
        bounded = target.scale == "probability" and target.contrast is None
        update = 2 * np.arctanh(np.clip(drop, -1 + 1e-6, 1 - 1e-6)) if bounded else drop  # logit((1 + drop) / 2)
        kept = len(replaced) - self.rounds
        with_unit = update @ replaced / self.rounds
        without = update @ ~replaced / kept if kept else 0.0
        return Outcome(with_unit - without, float(values[0]))
