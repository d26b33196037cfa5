"""Whether the units that an explainer marks decide predictions of held-out texts, beside random ones, in one sentence.

The units with the highest scores, a fifth of a text and at least one, are shown alone, and taken away. A prediction is
kept where the class is the same, or a regressor's number moves by at most half of the standard deviation of its
numbers. The gain is the mean over texts of

    ((kept by the marked units - kept by random ones) + (lost without the marked units - lost without random ones)) / 2

and is 0 for scores that know nothing of the model. An explainer whose interval does not lie above 0 is no better than
chance, and says so wherever it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from didact.protocols import Differentiable, Model
from didact.stats.bootstrap import FEWEST, interval
from didact.trained.held_out_numbers import HeldOutNumbers, ends
from didact.types import Explanation, Floats, Keep

SHARE = 0.2
"""Share of a text's units that count as marked, as in the published metrics."""
DRAWS = 8
"""Random masks of equal size per text."""

MaskVerdict = Literal["decides", "chance", "unknown"]


@dataclass(frozen=True)
class HeldOutMasks(HeldOutNumbers):
    """What marked units do to predictions of held-out texts, beside random ones.

    Attributes:
        n: texts.
        kept: share of texts whose prediction is kept when only the marked units are shown.
        kept_at_random: the same for random units, as many.
        lost: share of texts whose prediction changes when the marked units are taken away.
        lost_at_random: the same for random units.
        gain: how much better than random ones they are, mean of both comparisons.
        low: lower end of its 95 % interval; NaN where there is none.
        high: upper end.
    """

    title: ClassVar[str] = "a comparison of masks with random ones"

    n: int
    kept: float
    kept_at_random: float
    lost: float
    lost_at_random: float
    gain: float
    low: float
    high: float

    @property
    def verdict(self) -> MaskVerdict:
        """Whether the interval lies above chance; "unknown" with too few texts for an interval."""
        if math.isnan(self.low):  # too few texts, or values with hardly any spread
            return "chance" if self.n >= FEWEST and self.gain <= 0 else "unknown"
        return "decides" if self.low > 0 else "chance"

    @property
    def sentence(self) -> str:
        """The verdict with the numbers that it rests on."""
        if not self.n:
            return "No held-out texts: it is not known whether predictions rest on the units that this explainer marks."
        return (
            f"{_VERDICTS[self.verdict]}: with the top {SHARE:.0%} of its units alone {self.kept:.0%} of {self.n:,} "
            f"held-out texts keep their prediction (random units {self.kept_at_random:.0%}), and without them "
            f"{self.lost:.0%} lose it (random units {self.lost_at_random:.0%}); gain over random units {self.gain:.2f} "
            f"[{ends(self.low, self.high)}], chance 0."
        )

    @property
    def caution(self) -> str:
        """What whoever uses the explainer has to know; empty where predictions rest on the marked units."""
        advice = "train it on more texts or for more epochs, or with other weights of its loss"
        return "" if self.verdict == "decides" else f"{self.sentence[:-1]}; {advice}."

    @property
    def scores(self) -> dict[str, float]:
        """The shares by readable names."""
        return {
            "kept by the marked units": self.kept,
            "kept by random units": self.kept_at_random,
            "lost without the marked units": self.lost,
            "lost without random units": self.lost_at_random,
        }


_VERDICTS = {
    "decides": "Predictions rest on what this explainer marks",
    "chance": "This explainer marks the units that predictions rest on no better than chance",
    "unknown": "There are too few held-out texts to tell whether predictions rest on what this explainer marks",
}


def held_out_masks(model: Model, explanations: Sequence[Explanation], seed: int = 0) -> HeldOutMasks:
    """Show the marked units of explained texts alone and take them away, and the same with random ones.

    Args:
        model: the explained model.
        explanations: of held-out texts that have units.
        seed: decides the random units.
    """
    if not explanations:
        return HeldOutMasks(0, *[math.nan] * 7)
    keep = [_masks(one, np.random.default_rng([seed, number])) for number, one in enumerate(explanations)]
    outputs = cast("Differentiable", model).keep_outputs([one.units for one in explanations], keep)
    same = _same(explanations, outputs)  # (texts, 2, 1 + DRAWS)
    kept, lost = same[:, 0].astype(np.float64), 1.0 - same[:, 1]
    gains = (kept[:, 0] - kept[:, 1:].mean(1) + lost[:, 0] - lost[:, 1:].mean(1)) / 2
    known = interval(gains)
    return HeldOutMasks(
        n=len(explanations),
        kept=float(kept[:, 0].mean()),
        kept_at_random=float(kept[:, 1:].mean()),
        lost=float(lost[:, 0].mean()),
        lost_at_random=float(lost[:, 1:].mean()),
        gain=float(gains.mean()),
        low=known.low,
        high=known.high,
    )


def _masks(explanation: Explanation, rng: np.random.Generator) -> Keep:
    """Masks that show the marked units and random ones, then masks without each: (2 * (1 + DRAWS), units)."""
    units = len(explanation.units)
    marked = max(1, round(SHARE * units))
    orders = [np.argsort(-explanation.array, kind="stable"), *(rng.permutation(units) for _ in range(DRAWS))]
    shown = np.zeros((1 + DRAWS, units), dtype=np.bool_)
    for row, order in zip(shown, orders, strict=True):
        row[order[:marked]] = True
    return np.concatenate([shown, ~shown])


def _same(explanations: Sequence[Explanation], outputs: Sequence[Floats]) -> NDArray[np.bool_]:
    """Whether each masked prediction is the one of the whole text: (texts, 2, 1 + DRAWS)."""
    stacked = np.stack(outputs)
    if explanations[0].prediction.probabilities:
        wanted = np.array([one.prediction.index for one in explanations])
        same = stacked.argmax(-1) == wanted[:, None]
    else:
        numbers = np.array([one.prediction.outputs[one.target.index] for one in explanations])
        index = np.array([one.target.index for one in explanations])
        moved = np.take_along_axis(stacked, index[:, None, None], -1)[..., 0] - numbers[:, None]
        same = abs(moved) <= numbers.std() / 2
    return cast("NDArray[np.bool_]", same.reshape(len(explanations), 2, 1 + DRAWS))
