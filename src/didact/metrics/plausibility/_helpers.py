"""What the comparisons with human rationales share: units against marked regions, one annotator or several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from didact.errors import ParameterError
from didact.metrics._words import Words, mean_defined, mean_parts, top_size, words_of
from didact.metrics.base import BaseMetric
from didact.protocols import Evidence
from didact.settings import at_least, check_share
from didact.types import Example, Explanation, Floats, Grade, Region, inside

Bools = NDArray[np.bool_]

GOLD = "gold label explained"
"""Part: the value of a text whose explained label is the gold label."""
OTHER = "another label explained"
"""Part: the value of any other text."""

_ENGLISH = """
a about above after again all also am an and any are as at be because been before being below between both but by can
could did do does doing down during each either few for from further had has have having he her here hers herself him
himself his how i if in into is it it's its itself just me more most my myself of off on once only or other our ours
ourselves out over own same she should so some such than that that's the their theirs them themselves then there
there's these they this those through to too under until up us very was we were what when where which while who whom
why will with would you your yours yourself yourselves
"""
ENGLISH = frozenset(_ENGLISH.split())
"""Common English words that carry no evidence of their own; negations are not among them."""


@dataclass(frozen=True, kw_only=True)
class Plausibility(BaseMetric):
    """Base of comparisons with human rationales; a subclass judges one text against one rationale.

    Tokens are summed into words first, and a word is in the rationale when a span overlaps it; a patch of an image when
    at least half of its classified pixels are marked (patches without any do not count). Of a truncated text only
    the words that the model saw are judged. The grade is NaN when all of these words are in the rationale, or none.
    With several annotators (``Example.annotators``) it is the mean over those for whom it is defined, with a part for
    each: "annotator 1", "annotator 2", ...

    A rationale is evidence for the gold label, so it says nothing about an explanation of another label. Such texts,
    mostly those that the model predicts wrongly, do not count (NaN); what they would have got is their part "another
    label explained". Where no gold label is known, or it is none of the model's labels, or the model predicts a number,
    every text counts.

    Args:
        field: judge only the words of the text (0) or of its pair (1); None judges them together.
        stop_words: words that are taken out of the text and the rationale before anything else: "english" for a short
            list without negations, or a list; none by default.
        explained: which texts count: those whose "gold" label is explained, or "any".
        evidence: what the rationale marks: evidence "for" the explained number, "against" it (words that make a
            translation bad, where its quality is explained), or "either". Against, signed scores are negated; either,
            their sizes count. Scores without sign stay as they are.
    """

    field: int | None = None
    stop_words: Literal["english"] | tuple[str, ...] = ()
    explained: Literal["gold", "any"] = "gold"
    evidence: Literal["for", "against", "either"] = "for"

    def __post_init__(self) -> None:
        for name, allowed in (("explained", ("gold", "any")), ("evidence", ("for", "against", "either"))):
            if getattr(self, name) not in allowed:
                wanted = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
                raise ParameterError(f"{name} of {self.card.name} must be {wanted}, got {getattr(self, name)!r}")
        if self.stop_words != "english":
            object.__setattr__(self, "stop_words", tuple(self.stop_words))

    @abstractmethod
    def judge(self, scores: Floats, gold: Bools) -> Grade:
        """Grade the scores of some words, some but not all of which are in the rationale."""

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Compare each text with its own rationale or rationales."""
        return [self._grade(explanation) for explanation in evidence.explanations]

    def _grade(self, explanation: Explanation) -> Grade:
        words = self._judged(self._directed(words_of(explanation), explanation.signed))
        grades = [self._judge(words, spans) for spans in rationales(explanation.example)]
        parts = mean_parts(grade.parts for grade in grades)
        if len(grades) > 1:
            parts |= {f"annotator {number}": grade.value for number, grade in enumerate(grades, start=1)}
        value, right = mean_defined(grade.value for grade in grades), explains_gold(explanation)
        if right is False and self.explained == "gold":
            return Grade(float("nan"), {OTHER: value})
        return Grade(value, parts if right is None else parts | {GOLD if right else OTHER: value})

    def _judge(self, words: Words, spans: Sequence[Region]) -> Grade:
        marks = inside(words.regions, spans)
        known = ~np.isnan(marks)
        gold = marks[known] == 1
        return self.judge(words.scores[known], gold) if gold.any() and not gold.all() else Grade(float("nan"))

    def _directed(self, words: Words, signed: bool) -> Words:
        """The words with scores that are high where the rationale should be."""
        if not signed or self.evidence == "for":
            return words
        return replace(words, scores=-words.scores if self.evidence == "against" else np.abs(words.scores))

    def _judged(self, words: Words) -> Words:
        stopped = ENGLISH if self.stop_words == "english" else {word.casefold() for word in self.stop_words}
        return words.where(
            self.field in (None, region.field) and text.casefold().replace("’", "'") not in stopped
            for region, text in zip(words.regions, words.texts, strict=True)
        )


def explains_gold(explanation: Explanation) -> bool | None:
    """Whether the explained label is the gold label; None where that cannot be known."""
    gold, labels = explanation.example.label, explanation.prediction.labels
    if explanation.prediction.kind != "class":
        return None
    if isinstance(gold, int):
        return explanation.target.index == gold if 0 <= gold < len(labels) else None
    names = [label.casefold() for label in labels]
    name = gold.casefold() if isinstance(gold, str) else ""
    return names[explanation.target.index] == name if name in names else None


def rationales(example: Example) -> tuple[tuple[Region, ...], ...]:
    """What each annotator marked."""
    return example.annotators or (example.rationale or (),)


def roc_auc(scores: Floats, gold: Bools) -> float:
    """Probability that a word of the rationale scores above another word, ties counting half."""
    marked, outside = scores[gold], np.sort(scores[~gold])
    if not len(marked) or not len(outside):
        return float("nan")
    below = np.searchsorted(outside, marked, "left") + np.searchsorted(outside, marked, "right")
    return float(below.mean() / (2 * len(outside)))


def check_size(metric: Plausibility, k: int | None, share: float | None = None) -> None:
    """Refuse a selection without words, and one whose size is given twice."""
    if k is not None:
        at_least(metric, k=1)
    if share is not None:
        check_share(metric, "share")
    if k is not None and share is not None:
        raise ParameterError(f"{metric.card.name} takes k or share, not both: got k={k!r} and share={share!r}")


def selection_size(gold: Bools, k: int | None, share: float | None = None) -> int:
    """How many words are selected: ``k``, or a share of all, or as many as the rationale has."""
    if k is not None:
        return min(k, len(gold))
    return int(gold.sum()) if share is None else top_size(len(gold), share)
