"""Random coalitions of the units of many texts, evaluated in pairs with their complements, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from didact.ops.coalitions import Bools, kernel_coalitions
from didact.protocols import Model, ScoresLabels
from didact.trained.signals.base import SignalTask
from didact.types import Example, Floats, Keep, Prediction, Target, Units

TOGETHER = 1024
"""Texts whose coalitions are handed to the model at once; batches are filled from all of them."""


@dataclass(frozen=True, eq=False)
class ExplainedTexts:
    """Texts with the model's predictions and the targets that are learned.

    Attributes:
        units: of each text; texts without units are left out.
        predictions: of each text.
        targets: the predicted output of each text.
        labels: how many classes are evaluated at once; 1 where each text has the number of its target alone.
    """

    units: Sequence[Units]
    predictions: Sequence[Prediction]
    targets: Sequence[Target]
    labels: int

    @property
    def classes(self) -> list[int]:
        """The predicted output of each text, as its number."""
        return [target.index for target in self.targets]


def explained_texts(task: SignalTask, texts: Sequence[Example], classes: int) -> ExplainedTexts:
    """The texts that have units; all classes are evaluated where several are to be learned and the model has them."""
    model, scale = task.model, task.scale or task.model.scales[0]
    units = [own for own in model.units(texts, task.level) if len(own)]
    predictions = model.predict([own.example for own in units])
    targets = [model.target(None, one, scale) for one in predictions]
    several = all(one.kind == "class" and one.extract is None for one in predictions)
    every = classes > 1 and several and isinstance(model, ScoresLabels)
    return ExplainedTexts(units, predictions, targets, len(model.labels) if every else 1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Coalitions of one text and what they do to the model.

    Attributes:
        rows: the coalitions, (pairs, units).
        differences: f(S) - f(complement) of each, (pairs, labels).
        total: f(text) - f(text without its units), (labels,).
        target: the predicted output.
    """

    rows: Bools
    differences: Floats
    total: Floats
    target: int

    def column(self, label: int) -> int:
        """Where the numbers of a label are."""
        return label if len(self.total) > 1 else 0


class Coalitions:
    """Coalitions of texts, drawn and evaluated when a round of them is first needed, and kept.

    Args:
        model: the explained model.
        texts: with their units and targets.
        pairs: of complementary coalitions per text and round.
        absence: how an absent unit is shown.
        seed: decides the coalitions, together with the round and the text alone.
    """

    def __init__(self, model: Model, texts: ExplainedTexts, pairs: int, absence: str | None, seed: int) -> None:
        self.model = model
        self.texts = texts
        self.pairs = pairs
        self.absence = absence
        self.seed = seed
        self._rounds: dict[int, list[Drawn]] = {}

    def round(self, number: int) -> list[Drawn]:
        """The coalitions of a round, one ``Drawn`` per text."""
        if number not in self._rounds:
            rows = [self._rows(own, number) for own in self.texts.units]
            values = self._evaluated([np.concatenate([own, ~own]) for own in rows])
            parts = zip(rows, values, self._totals, self.texts.classes, strict=True)
            self._rounds[number] = [
                Drawn(own, both[: len(own)] - both[len(own) :], total, target) for own, both, total, target in parts
            ]
        return self._rounds[number]

    def _rows(self, units: Units, number: int) -> Bools:
        rng = np.random.default_rng([self.seed, number + 1, int(units.example.fingerprint, 16)])
        return kernel_coalitions(len(units), self.pairs, rng)

    @cached_property
    def _totals(self) -> list[Floats]:
        """f(text) - f(text without its units), (labels,) per text; f(text) is known from the prediction."""
        empty = self._evaluated([np.zeros((1, len(own)), dtype=np.bool_) for own in self.texts.units])
        return [full - values[0] for full, values in zip(map(self._full, range(len(empty))), empty, strict=True)]

    def _full(self, number: int) -> Floats:
        """f(text), (labels,)."""
        prediction, target = self.texts.predictions[number], self.texts.targets[number]
        if self.texts.labels == 1:
            return np.array([prediction.value(target)])
        every = [Target(index, label, target.scale) for index, label in enumerate(self.model.labels)]
        return np.array([prediction.value(one) for one in every])

    def _evaluated(self, keep: Sequence[Keep]) -> list[Floats]:
        """The explained numbers under each mask: (variants, labels) per text."""
        values: list[Floats] = []
        for start in range(0, len(keep), TOGETHER):
            part = slice(start, start + TOGETHER)
            units, targets = self.texts.units[part], self.texts.targets[part]
            if self.texts.labels > 1 and isinstance(self.model, ScoresLabels):
                values += self.model.label_scores(units, keep[part], targets[0].scale, self.absence)
            else:
                values += [own[:, None] for own in self.model.score(units, targets, keep[part], self.absence)]
        return values


def joined(rounds: Sequence[Sequence[Drawn]]) -> list[Drawn]:
    """The coalitions of all rounds together, per text."""
    return [
        Drawn(
            np.concatenate([one.rows for one in own]),
            np.concatenate([one.differences for one in own]),
            own[0].total,
            own[0].target,
        )
        for own in zip(*rounds, strict=True)
    ]
