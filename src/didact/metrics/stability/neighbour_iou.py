"""Neighbour IoU: whether similar texts get similar explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.errors import InputError, ParameterError
from didact.metrics._words import Words, mean_defined, top, top_size, words_of
from didact.metrics.base import BaseMetric, register
from didact.metrics.stability._neighbours import Near, nearest, nearest_by_words, semantic
from didact.protocols import Evidence
from didact.settings import at_least, check_share
from didact.types import Explanation, Floats, Grade, MetricCard

Sets = Mapping[str, Mapping[str, float]]
"""Per label the word types that have it, each with its membership."""


@register(
    MetricCard(
        name="neighbour_iou",
        family="stability",
        summary="Overlap of a text's important words with those of the most similar texts of the same prediction.",
        reference="Situ et al. 2021 (L2E), Eq. 1",
        low=0.0,
        high=1.0,
        needs=frozenset({"corpus", "text"}),
        default=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class NeighbourIou(BaseMetric):
    """Mean over a text's nearest neighbours of the intersection over union of their important words.

    Neighbours are other given texts with the same predicted label and at most ``max_words`` words. Words are types:
    lower-cased, without punctuation, the tokens of a word summed. A type is in a set when one of its occurrences is.
    Longer texts, and texts without a neighbour or an important word, are not graded (NaN). The parts are the overlap
    with each neighbour, nearest first, and the neighbours' mean similarity, which bounds what can be expected: compare
    explainers on the same texts only.

    Args:
        similarity: how neighbours are chosen: "lexical", the mean over n = 1 to 4 of the shared share of n-grams, or
            "semantic", the cosine of mean token states of an encoder.
        by: what is compared: "top", the ``share`` of words with the highest scores; "labels", the paper's four labels,
            where positive and negative scores are high or low, summed over labels as in Eq. 1; "signs", the same
            without high and low, as in the authors' code. Explanations without sign have positive words only.
        high: scores beyond it, either way, are high, for "labels"; when not given, those beyond the mean of their sign
            in the text.
        neighbours: how many, or as many as there are.
        max_words: longer texts are left out.
        share: of a text's words, rounded up, for "top".
        encoder: directory or Hub id of the encoder for "semantic"; the explained model's own when not given.

    Example:
        >>> NeighbourIou(similarity="semantic", by="labels").measure(evidence)  # doctest: +SKIP
    """

    similarity: Literal["lexical", "semantic"] = "lexical"
    by: Literal["top", "labels", "signs"] = "top"
    high: float | None = None
    neighbours: int = 3
    max_words: int = 100
    share: float = 0.3
    encoder: str | None = None

    def __post_init__(self) -> None:
        at_least(self, neighbours=1, max_words=1)
        check_share(self, "share")
        if self.high is not None and not self.high > 0:
            raise ParameterError(f"high of {self.card.name} must be above 0, got {self.high!r}")

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Find neighbours label by label, then compare."""
        grades = [Grade(float("nan"))] * len(evidence.explanations)
        words = [_with_letters(explanation) for explanation in evidence.explanations]
        groups: dict[str, list[int]] = {}
        for number, explanation in enumerate(evidence.explanations):
            if 0 < len(words[number]) <= self.max_words:
                groups.setdefault(explanation.prediction.label, []).append(number)
        for members in groups.values():
            own = [words[number] for number in members]
            explained = [evidence.explanations[number] for number in members]
            names = [explanation.example.fingerprint for explanation in explained]
            near = self._nearest(evidence, explained, own)
            for number, grade in zip(members, self.compared(own, near, names), strict=True):
                grades[number] = grade
        return grades

    def compared(self, words: Sequence[Words], near: Sequence[Near], names: Sequence[str]) -> list[Grade]:
        """Grades of texts of one prediction.

        Args:
            words: with their scores, per text.
            near: the neighbours of each, as places in this list.
            names: of the texts, whatever their order.
        """
        sets = [self.sets(text) for text in words]
        return [
            graded(mine, [sets[place] for place in neighbours.numbers], neighbours)
            for mine, neighbours in zip(sets, near, strict=True)
        ]

    def _nearest(self, evidence: Evidence, own: Sequence[Explanation], words: Sequence[Words]) -> list[Near]:
        names = tuple(explanation.example.fingerprint for explanation in own)
        if self.similarity == "lexical":
            texts = tuple(tuple(text.casefold() for text in text_words.texts) for text_words in words)
            return nearest_by_words(texts, names, self.neighbours)
        return nearest(semantic(self._vectors(evidence, own)), names, self.neighbours)

    def _vectors(self, evidence: Evidence, own: Sequence[Explanation]) -> Floats:
        from didact.models.text_vectors import sentence_vectors

        source = self.encoder if self.encoder is not None else evidence.model
        if source is None:
            raise InputError(f"{self.card.name} by semantic similarity needs an encoder, or the explained model")
        return sentence_vectors(source, [explanation.example for explanation in own])

    def sets(self, words: Words) -> Sets:
        """The important word types of a text, by label."""
        scores = words.scores
        if self.by == "top":
            return {"top": _types(words, top(scores, top_size(len(words), self.share)))}
        if self.by == "signs":
            return {"positive": _types(words, scores > 0), "negative": _types(words, scores < 0)}
        up, down = _mean(scores[scores > 0]), _mean(scores[scores < 0])
        if self.high is not None:
            up, down = self.high, -self.high
        return {
            "high positive": _types(words, scores > up),
            "low positive": _types(words, (scores > 0) & (scores <= up)),
            "low negative": _types(words, (scores < 0) & (scores >= down)),
            "high negative": _types(words, scores < down),
        }


def graded(mine: Sets, theirs: Sequence[Sets], near: Near) -> Grade:
    """The mean overlap of a text's sets with those of its neighbours."""
    values = [_iou(mine, other) for other in theirs]
    parts = {f"neighbour {number}": value for number, value in enumerate(values, start=1)}
    if len(near.similarities):
        parts["similarity"] = float(near.similarities.mean())
    return Grade(mean_defined(values), parts)


def _iou(first: Sets, second: Sets) -> float:
    """Sums over the labels of intersections and of unions; NaN where neither text has a word of any label."""
    both = either = 0.0
    for label, mine in first.items():
        theirs = second[label]
        shared = sum(min(weight, theirs[word]) for word, weight in mine.items() if word in theirs)
        both += shared
        either += sum(mine.values()) + sum(theirs.values()) - shared
    return both / either if either else float("nan")


def _types(words: Words, membership: np.typing.NDArray[np.generic]) -> dict[str, float]:
    members: dict[str, float] = {}
    for text, weight in zip(words.texts, membership.astype(float), strict=True):
        if weight > 0:
            members[text.casefold()] = max(float(weight), members.get(text.casefold(), 0.0))
    return members


def _with_letters(explanation: Explanation) -> Words:
    """The words that have a letter or a digit."""
    words = words_of(explanation)
    return words.where(any(letter.isalnum() for letter in text) for text in words.texts)


def _mean(scores: Floats) -> float:
    return float(scores.mean()) if len(scores) else 0.0
