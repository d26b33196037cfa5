"""Whether a learned explainer follows its reference on texts that had no part in training, in one sentence.

The measure is Spearman's rank correlation of the two explanations of a text, the mean over texts with its interval;
scores that know nothing of the reference have 0. An explainer whose interval does not lie above 0 is no better than
chance, one that keeps less than half of what its reference gains by the metrics follows it weakly, and both say so
wherever they are used.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from didact.errors import FormatError
from didact.stats.bootstrap import FEWEST, interval
from didact.stats.correlation import spearman
from didact.trained.held_out_masks import HeldOutMasks
from didact.trained.held_out_numbers import ends
from didact.trained.held_out_panel import HeldOutPanel
from didact.trained.held_out_teaching import HeldOutTeaching
from didact.trained.metadata import ExplainerMetadata
from didact.trained.signals.base import Signal
from didact.types import Explanation, Floats

CHANCE = 0.0
"""Mean rank correlation of scores that say nothing about the reference's."""

WEAK = 0.5
"""An explainer that keeps less of what its reference gains over random scores follows it weakly."""

Verdict = Literal["follows", "chance", "unknown"]


class FidelityWarning(UserWarning):
    """A learned explainer is no better than chance at what it learned."""


@dataclass(frozen=True)
class RankCorrelation:
    """Mean of Spearman's correlation over texts, with its 95 % interval.

    Attributes:
        mean: over the texts where it is defined; NaN where it is nowhere.
        low: lower end of the interval; NaN where there is none.
        high: upper end.
        n: texts where it is defined.
        left_out: texts where it is not: fewer than two units, or scores that are all equal.
    """

    mean: float
    low: float
    high: float
    n: int
    left_out: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{ends(self.low, self.high)}]"


@dataclass(frozen=True)
class HeldOutAgreement:
    """How learned scores agree with the reference's on held-out texts.

    Attributes:
        as_given: with the reference's scores, signs included.
        absolute: with their absolute values, where the explainer learned the order of these; None elsewhere.
    """

    as_given: RankCorrelation
    absolute: RankCorrelation | None = None

    @property
    def learned(self) -> RankCorrelation:
        """The correlation with what was learned, which decides the verdict."""
        return self.as_given if self.absolute is None else self.absolute

    @property
    def verdict(self) -> Verdict:
        """Whether the interval lies above chance; "unknown" with too few texts for an interval."""
        if math.isnan(self.learned.low):  # too few texts, or values with hardly any spread
            return "chance" if self.learned.n >= FEWEST and self.learned.mean <= CHANCE else "unknown"
        return "follows" if self.learned.low > CHANCE else "chance"

    def sentence(self, reference: str, kept: float = math.nan) -> str:
        """The verdict with the numbers that it rests on.

        Args:
            reference: as it is shown.
            kept: share of what the reference gains by the metrics; NaN where it is not known.
        """
        measured, (n, left_out) = self.learned, (self.learned.n, self.learned.left_out)
        if not n:
            return f"No held-out texts: it is not known whether this explainer follows its reference, {reference}."
        beside = f" (left out: {left_out:,}, whose scores have no order)" if left_out else ""
        numbers = f"Spearman {measured} on {n:,} held-out texts{beside}, chance {CHANCE:g}"
        if self.absolute is not None:
            numbers += (
                f"; that is with the absolute scores, whose order it learned; with the signed ones {self.as_given}"
            )
        wording = "weakly" if self._is_weak(kept) else self.verdict
        return f"{_VERDICTS[wording].format(reference=reference)}: {numbers}."

    def caution(self, reference: str, kept: float = math.nan) -> str:
        """What whoever uses the explainer has to know; empty where it follows its reference."""
        weak = self._is_weak(kept)
        if self.verdict == "follows" and not weak:
            return ""
        share = f"; it keeps {kept:.2f} of what {reference} gains over random scores" if weak else ""
        advice = f"train it on more texts or for more epochs, or use {reference} itself"
        return f"{self.sentence(reference, kept)[:-1]}{share}; {advice}."

    def _is_weak(self, kept: float) -> bool:
        return self.verdict == "follows" and kept < WEAK

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; None for NaN."""
        return {
            name: None if part is None else {key: _plain(value) for key, value in dataclasses.asdict(part).items()}
            for name, part in (("as_given", self.as_given), ("absolute", self.absolute))
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> HeldOutAgreement:
        """Inverse of ``to_dict``."""
        try:
            as_given, absolute = (_correlation(data[name]) for name in ("as_given", "absolute"))
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"not an agreement with a reference: {problem}") from None
        if as_given is None:
            raise FormatError("an agreement with a reference lacks 'as_given'; train the explainer again")
        return cls(as_given, absolute)


_VERDICTS = {
    "follows": "This explainer follows its reference, {reference}",
    "weakly": "This explainer follows its reference, {reference}, weakly",
    "chance": "This explainer follows its reference, {reference}, no better than chance",
    "unknown": "There are too few held-out texts to tell whether this explainer follows its reference, {reference}",
}


@dataclass(frozen=True)
class HeldOutResult:
    """What was measured on held-out texts, in words.

    Attributes:
        kind: which of the fields of ``ExplainerMetadata`` it comes from.
        is_chance: whether the explainer was measured to be no better than chance.
        sentence: the verdict with the numbers that it rests on.
        caution: what whoever uses the explainer has to know; empty where nothing speaks against it.
    """

    kind: Literal["teaching", "masks", "agreement"]
    is_chance: bool
    sentence: str
    caution: str


def held_out_result(about: Mapping[str, object], reference: str) -> HeldOutResult | None:
    """What the fields of an explainer's metadata hold; None where nothing was measured.

    Args:
        about: by field; ``vars`` of the metadata, or what was saved of it.
        reference: as it is shown.
    """
    teaching, masks, agreement = (
        cast("Mapping[str, object] | None", about.get(name)) for name in ("teaching", "masks", "agreement")
    )
    if teaching is not None:
        taught = HeldOutTeaching.from_dict(teaching)
        return HeldOutResult("teaching", taught.verdict == "chance", taught.sentence, taught.caution)
    if masks is not None:
        marked = HeldOutMasks.from_dict(masks)
        return HeldOutResult("masks", marked.verdict == "chance", marked.sentence, marked.caution)
    if agreement is None:
        return None
    agreed, panel = HeldOutAgreement.from_dict(agreement), panel_of(about)
    kept = math.nan if panel is None else panel.kept
    sentences = [agreed.sentence(reference, kept), *([] if panel is None else [panel.sentence(reference)])]
    return HeldOutResult("agreement", agreed.verdict == "chance", " ".join(sentences), agreed.caution(reference, kept))


def panel_of(about: Mapping[str, object]) -> HeldOutPanel | None:
    """What several metrics measured on held-out texts; None where nothing did."""
    panel = cast("Mapping[str, object] | None", about.get("panel"))
    return None if panel is None else HeldOutPanel.from_dict(panel)


def verdict(about: ExplainerMetadata) -> str:
    """How an explainer does on held-out texts, in a sentence; empty where nothing is known."""
    result = held_out_result(vars(about), about.reference)
    return "" if result is None else result.sentence


def caution(about: ExplainerMetadata) -> str:
    """What the explanations of an explainer have to say of it; empty where nothing speaks against it."""
    result = held_out_result(vars(about), about.reference)
    if result is not None:
        return result.caution
    mean = about.scores.get("spearman", 1.0)  # all that is known of one that was saved by an earlier version
    follows = f"This explainer does not follow its reference, {about.reference}: Spearman {mean:.2f} on held-out texts."
    return "" if mean > CHANCE else follows


def warn(about: ExplainerMetadata, who: str) -> None:
    """A Python warning where an explainer is no better than chance; too few texts to tell are no reason for one."""
    result = held_out_result(vars(about), about.reference)
    if (result is None or result.is_chance) and caution(about):
        warnings.warn(f"{who}: {caution(about)}", FidelityWarning, stacklevel=3)


def held_out_agreement(
    learned: Sequence[Explanation], reference: Sequence[Explanation], signal: Signal
) -> HeldOutAgreement:
    """Compare learned explanations of held-out texts with the reference's."""
    ours, theirs = [each.array for each in learned], [each.array for each in reference]
    absolute = _compared(ours, [abs(scores) for scores in theirs]) if signal.absolute else None
    return HeldOutAgreement(_compared(ours, theirs), absolute)


def _compared(ours: Sequence[Floats], theirs: Sequence[Floats]) -> RankCorrelation:
    values = np.array([spearman(first, second) for first, second in zip(ours, theirs, strict=True)])
    known = interval(values)
    return RankCorrelation(known.mean, known.low, known.high, known.n, len(values) - known.n)


def _correlation(data: object) -> RankCorrelation | None:
    if data is None:
        return None
    values = cast("Mapping[str, float | None]", data)
    mean, low, high = (
        math.nan if values[name] is None else float(values[name] or 0) for name in ("mean", "low", "high")
    )
    n, left_out = (int(values[name] or 0) for name in ("n", "left_out"))
    return RankCorrelation(mean, low, high, n, left_out)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
