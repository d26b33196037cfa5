"""The analysis of *simulate*: do raters predict the model better after learning with explanations than without?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.stats.agreement import Agreement, nominal
from didact.stats.clustered import FEWEST_RATERS, Codes, Estimated, drawn_weights, estimated
from didact.stats.paired import holm
from didact.study.design import NONE
from didact.study.rows import StudyAnswer, answered_twice, codes
from didact.types import Floats

RESAMPLES = 2000
ALPHA = 0.05


@dataclass(frozen=True)
class ArmGain:
    """Raters who learned with one explainer, or without any.

    Attributes:
        arm: its name.
        raters: who answered both tests at least in part.
        before: accuracy before learning.
        after: accuracy after.
        gain: after less before, on items that a rater answered in both.
        over_none: the gain less that of raters without explanations; None for those themselves.
        adjusted: p-value of ``over_none`` after Holm's correction over explainers; NaN where there is none.
    """

    arm: str
    raters: int
    before: float
    after: float
    gain: Estimated
    over_none: Estimated | None
    adjusted: float = math.nan

    @property
    def helps(self) -> bool:
        """Whether raters gain significantly more than without explanations."""
        return self.over_none is not None and self.adjusted < ALPHA and self.over_none.value > 0


@dataclass(frozen=True)
class GainResults:
    """The results of *simulate*.

    Attributes:
        arms: those without explanations first.
        before: agreement of raters with each other before learning.
        after: and after.
        chance: accuracy of whoever always names the class that the model predicts most often.
        answers: pairs of answers that gains rest on.
    """

    arms: tuple[ArmGain, ...]
    before: Agreement
    after: Agreement
    chance: float
    answers: int


@dataclass(frozen=True)
class _Pairs:
    """Answers to the same item before and after learning: right or wrong, of whom and of what."""

    before: Floats
    after: Floats
    raters: Codes
    items: Codes
    arms: tuple[str, ...]

    def part(self, *arms: str) -> _Pairs:
        """The rows of some arms, with raters and items numbered anew."""
        kept = np.array([arm in arms for arm in self.arms], dtype=bool)
        names = tuple(arm for arm in self.arms if arm in arms)
        raters, items = (np.unique(each[kept], return_inverse=True)[1] for each in (self.raters, self.items))
        return _Pairs(self.before[kept], self.after[kept], raters, items, names)


def analyse_gains(
    rows: Sequence[StudyAnswer], arms: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> GainResults | None:
    """What the tests before and after show; None where no rater has answered an item in both.

    Args:
        rows: answers of the raters who count.
        arms: all of the study.
        resamples: of the bootstrap over raters and items.
        seed: of the resampling.
    """
    pairs = _paired(rows)
    if not pairs.arms:
        return None
    gained = [_arm(pairs, arm, resamples, seed) for arm in arms if arm in pairs.arms]
    tested = [each for each in gained if each.over_none is not None and math.isfinite(each.over_none.p)]
    adjusted = holm([each.over_none.p for each in tested if each.over_none is not None])
    by_arm = {each.arm: p for each, p in zip(tested, adjusted.tolist(), strict=True)}
    final = tuple(
        ArmGain(**{**vars(each), "adjusted": by_arm.get(each.arm, math.nan)})
        for each in sorted(gained, key=lambda each: (each.arm != NONE, -each.gain.value))
    )
    expected = [row.expected[0] for row in rows if row.phase == "post"]
    chance = max(expected.count(label) for label in set(expected)) / len(expected)
    return GainResults(final, _agreement(rows, "pre"), _agreement(rows, "post"), chance, len(pairs.arms))


def _paired(rows: Sequence[StudyAnswer]) -> _Pairs:
    twice = answered_twice(rows, "pre", "post")
    people, things = codes([row.rater for _, row in twice]), codes([row.item for _, row in twice])
    return _Pairs(
        np.array([float(bool(row.is_right)) for row, _ in twice]),
        np.array([float(bool(row.is_right)) for _, row in twice]),
        np.array([people[row.rater] for _, row in twice], dtype=np.int64),
        np.array([things[row.item] for _, row in twice], dtype=np.int64),
        tuple(row.arm for _, row in twice),
    )


def _arm(pairs: _Pairs, arm: str, resamples: int, seed: int) -> ArmGain:
    own = pairs.part(arm)
    over = None
    if arm != NONE and NONE in pairs.arms:
        over = _contrast(pairs, (arm, NONE), resamples, seed)
    return ArmGain(
        arm,
        len(np.unique(own.raters)),
        float(own.before.mean()),
        float(own.after.mean()),
        _contrast(pairs, (arm,), resamples, seed),
        over,
    )


def _contrast(pairs: _Pairs, arms: tuple[str, ...], resamples: int, seed: int) -> Estimated:
    """Mean gain of the first arm, less that of the second where there is one."""
    part = pairs.part(*arms)
    gain = part.after - part.before
    draws = drawn_weights(part.raters, part.items, resamples, seed)
    people = len(np.unique(part.raters))
    value, influence, drawn = 0.0, np.zeros(len(gain)), np.zeros(resamples)
    for sign, arm in zip((1.0, -1.0), arms, strict=False):
        own = np.array([each == arm for each in part.arms])
        raters = len(np.unique(part.raters[own]))
        if raters < FEWEST_RATERS:
            return Estimated(*_means(gain, part.arms, arms), *(math.nan,) * 3)
        mean = float(gain[own].mean())
        value += sign * mean
        # The spread between raters is estimated within each arm, so each arm has its own small-sample factor.
        factor = math.sqrt(raters / (raters - 1) * (people - 1) / people)
        influence[own] = sign * factor * (gain[own] - mean) / own.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn += sign * (draws[:, own] @ gain[own]) / draws[:, own].sum(axis=1)
    shaped = (np.array([value]), influence[:, None], part.raters, part.items, drawn[:, None])
    return estimated(*shaped)[0]


def _means(gain: Floats, of: Sequence[str], arms: Sequence[str]) -> tuple[float]:
    means = [float(gain[[each == arm for each in of]].mean()) for arm in arms]
    return (means[0] - sum(means[1:]),)


def _agreement(rows: Sequence[StudyAnswer], phase: str) -> Agreement:
    answered = [row for row in rows if row.phase == phase]
    columns = [[str(row.answer) for row in answered], [row.rater for row in answered], [row.item for row in answered]]
    numbered = [np.array([table[each] for each in column]) for column in columns for table in [codes(column)]]
    return nominal(*numbered)
