"""The best of maps that are drawn around another explainer's, by a measure of the explained text itself.

A measure that looks at the highest units alone does not change between two maps with the same highest units, so there
is nothing for a gradient to follow; exchanging single units is what noise does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from didact.errors import ParameterError
from didact.meter import metered
from didact.progress import advance, working
from didact.protocols import ExampleLike, Explainer, Model, TargetLike
from didact.trained.judging import Judge, selected_on_text
from didact.trained.wrapping import added
from didact.types import Card, Cost, Explanation, Floats, JsonValue, Level, Units

SPREADS = (1.0, 0.7, 0.5, 0.35)
"""Size of the noise in each round, in units of the spread of a map's logits."""

EDGE = 1e-6
"""How near to 0 and 1 a share counts as such."""


class DrawnExplainer:
    """Draws maps around those of another explainer, in four rounds, each around the best so far.

    Which is best is decided on the explained text itself, and explanations carry a warning that says so. What a text
    gets does not depend on the texts beside it.

    Args:
        explainer: makes the first maps; any.
        judge: which map is best.
        draws: maps per text, all rounds together.
        seed: of the noise.
    """

    card: ClassVar[Card] = Card(
        name="drawn",
        family="search",
        summary="The best of maps drawn around another explainer's, by a measure of the text itself.",
        reference="random search by the metric",
        cost="that of the explainer, and the measure's for every map",
    )

    def __init__(self, explainer: Explainer, judge: Judge, draws: int = 128, seed: int = 0) -> None:
        if draws < 1 or seed < 0:
            raise ParameterError(f"draws must be at least 1 and the seed not negative, got {draws!r} and {seed!r}")
        self.explainer, self.judge, self.draws, self.seed = explainer, judge, draws, seed
        self.card = dataclasses.replace(  # type: ignore[misc] # one class, many names
            self.card, name=f"{explainer.card.name}_drawn", needs=explainer.card.needs
        )

    @property
    def level(self) -> Level | None:
        """What gets a score."""
        return getattr(self.explainer, "level", None)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """Those of the explainer, and the choice."""
        own = {f"around.{name}": value for name, value in self.explainer.parameters.items()}
        return {**own, "draws": self.draws, "seed": self.seed, "chosen_by": self.judge.name}

    def cost(self, units: Units) -> Cost:
        """The explainer's, and at least one evaluation for every map."""
        return added(self.explainer.cost(units), Cost(forwards=self.draws))

    def explain(
        self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
    ) -> list[Explanation]:
        """One explanation per example, in order; one of a text without units stays as it is."""
        first = self.explainer.explain(model, examples, targets)
        numbers = [number for number, own in enumerate(first) if len(own.units)]
        with metered() as meter:
            chosen = self._chosen(model, [first[number] for number in numbers])
        each = max(1, len(numbers))
        cost = Cost(round(meter.forwards / each), 0, round(meter.evaluated / each), meter.seconds / each)
        made = list(first)
        for number, (scores, details) in zip(numbers, chosen, strict=True):
            made[number] = self._described(first[number], scores, details, cost)
        return made

    def _chosen(self, model: Model, first: Sequence[Explanation]) -> list[tuple[Floats, dict[str, float]]]:
        """The best map of every text, with its value and that of the first map."""
        best = [own.array for own in first]
        began = self._signed(model, list(first))
        values = np.where(np.isnan(began), -np.inf, began)
        with working(f"drawing maps, chosen by {self.judge.name}", self.draws * len(first)):
            for spread, count in split_draws(self.draws):
                maps = [around(own, at, spread, count, self.seed) for own, at in zip(first, best, strict=True)]
                grades = self._signed(
                    model, [_with(own, row) for own, rows in zip(first, maps, strict=True) for row in rows]
                )
                known = np.where(np.isnan(grades), -np.inf, grades).reshape(len(first), count)
                for text in np.flatnonzero(known.max(1, initial=-np.inf) > values):
                    best[text], values[text] = maps[text][known[text].argmax()], known[text].max()
                advance(count * len(first))
        sign = -1.0 if self.judge.lower_is_better else 1.0
        names = (f"{self.judge.name}, first", f"{self.judge.name}, chosen")
        shown = zip(began, np.where(np.isfinite(values), values, np.nan), strict=True)
        return [
            (own, dict(zip(names, (sign * float(a), sign * float(b)), strict=True)))
            for own, (a, b) in zip(best, shown, strict=True)
        ]

    def _signed(self, model: Model, explanations: Sequence[Explanation]) -> Floats:
        """Values, the larger the better."""
        values = self.judge.grades(model, explanations)
        return -values if self.judge.lower_is_better else values

    def _described(self, first: Explanation, scores: Floats, details: dict[str, float], cost: Cost) -> Explanation:
        return dataclasses.replace(
            first,
            method=self.card.name,
            scores=tuple(scores.tolist()),
            parameters=self.parameters,
            cost=added(first.cost, cost),
            details={**first.details, **details},
            warnings=(*first.warnings, selected_on_text(self.judge.name, 1 + self.draws)),
        )


def split_draws(draws: int) -> list[tuple[float, int]]:
    """Spread and number of the maps of every round; none is empty."""
    share, more = divmod(draws, len(SPREADS))
    counts = [share + (number < more) for number in range(len(SPREADS))]
    return [(spread, count) for spread, count in zip(SPREADS, counts, strict=True) if count]


def around(explanation: Explanation, scores: Floats, spread: float, count: int, seed: int) -> Floats:
    """So many maps around one, (count, units), decided by the text, the seed and the spread.

    Shares between 0 and 1 are drawn as logits, so that noise does the same everywhere; other scores as they are.
    """
    key = [seed, int(explanation.example.fingerprint, 16) % (1 << 63), round(1000 * spread)]
    noise = spread * np.random.default_rng(key).logistic(size=(count, len(scores)))
    if scores.min() < 0 or scores.max() > 1:
        return np.asarray(scores + (float(scores.std()) or 1.0) * noise)
    inside = np.clip(scores, EDGE, 1 - EDGE)
    logits = np.log(inside) - np.log1p(-inside)
    return np.asarray(1 / (1 + np.exp(-(logits + (float(logits.std()) or 1.0) * noise))))


def _with(explanation: Explanation, scores: Floats) -> Explanation:
    return dataclasses.replace(explanation, scores=tuple(scores.tolist()))
