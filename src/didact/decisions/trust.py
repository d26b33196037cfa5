"""How far a method is to be trusted on a model: its explanations beside the same scores shuffled over the words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from didact.metrics.faithfulness.comprehensiveness import Comprehensiveness
from didact.protocols import Evidence, Model
from didact.stats.bootstrap import interval
from didact.types import Explanation
from didact.validation import finite_number, object_value, text_value, whole_number

SHUFFLES = 39
"""Shuffled copies of each explanation: a single text can then be significant at 5 %."""
ALPHA = 0.05


@dataclass(frozen=True)
class Trust:
    """Faithfulness of a method on a model, measured.

    Attributes:
        method: registered name of the method.
        metric: registered name of the metric.
        texts: how many texts it was measured on.
        value: mean of the metric.
        chance: its mean with the scores shuffled over the words.
        low: lower end of the 95 % interval of the mean difference over texts; NaN where there are too few texts.
        high: upper end, likewise.
        p: of a single text, the share of shuffled copies that are as good, the explanation itself counted; else NaN.
    """

    method: str
    metric: str
    texts: int
    value: float
    chance: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan

    @property
    def verdict(self) -> str:
        """What the numbers mean, in a sentence."""
        standing = f"{self.method} is {self._standing} on {self._texts}: {self.metric} {self.value:.3f}"
        return f"{standing}, with the scores shuffled over the words {self.chance:.3f} ({self._uncertainty})"

    @property
    def _standing(self) -> str:
        better = self.low > 0 or self.p <= ALPHA
        if better:
            return "significantly more faithful than chance"
        return "significantly less faithful than chance" if self.high < 0 else "not significantly different from chance"

    @property
    def _texts(self) -> str:
        return "this text alone" if self.texts == 1 else f"{self.texts} texts"

    @property
    def _uncertainty(self) -> str:
        if math.isfinite(self.low):
            return f"95 % interval of the difference [{self.low:.3f}, {self.high:.3f}]"
        if math.isfinite(self.p):
            return f"p = {self.p:.3f}, {SHUFFLES} permutations; other texts may differ"
        return "too few texts for an interval"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; undefined numbers are None."""
        undefined = {name: None for name, value in vars(self).items() if isinstance(value, float) and math.isnan(value)}
        return {**vars(self), **undefined}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trust:
        """Inverse of ``to_dict``."""
        data = object_value(data, "trust", tuple(cls.__dataclass_fields__))
        numbers = ("value", "chance", "low", "high", "p")
        read = [math.nan if data[name] is None else finite_number(data[name], name) for name in numbers]
        method, metric = (text_value(data[name], name) for name in ("method", "metric"))
        return cls(method, metric, whole_number(data["texts"], "texts"), *read)


def measure_trust(model: Model, explanations: Sequence[Explanation], seed: int = 0) -> Trust:
    """Comprehensiveness of explanations beside that of their shuffled copies.

    Args:
        model: the explained model.
        explanations: by one method; of one text, or of several texts of the kind that is to be trusted.
        seed: of the shuffling.
    """
    rng = np.random.default_rng(seed)
    repeated = [each for _ in range(SHUFFLES) for each in explanations]
    copies = [dataclasses.replace(each, scores=tuple(rng.permutation(each.scores))) for each in repeated]
    metric = Comprehensiveness()
    grades = metric.measure(Evidence([*explanations, *copies], model))
    values = np.array([grade.value for grade in grades]).reshape(SHUFFLES + 1, len(explanations))  # own values first
    own, chance = values[0], values[1:].mean(axis=0)
    known = explanations[0].method, metric.card.name, len(explanations), float(own.mean()), float(chance.mean())
    if len(explanations) == 1:
        return Trust(*known, p=float((values >= own).mean()))
    difference = interval(own - chance)
    return Trust(*known, difference.low, difference.high)
