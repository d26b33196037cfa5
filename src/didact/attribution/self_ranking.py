"""Self-ranking: the language model's own answer to the question which words mattered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.protocols import GENERATIVE, Generative
from didact.types import Card, Cost, Floats, Region, Span, Target, Units, overlapping

REQUEST = (
    "Text: {text}\nLabel: {label}\n\nWhich words of the text led to this label? List words of the text, "
    "the most important first, separated by commas. Write nothing else."
)


@register(
    Card(
        name="self_ranking",
        family="self-report",
        summary="The model lists the words that it takes for important; scores fall with the place in the list.",
        reference='Barkan et al. 2024 (the baseline "LLM" of AML)',
        cost="2 forwards, one of them an answer of up to `length` tokens",
        needs=frozenset({GENERATIVE}),
        signed=False,
    )
)
@dataclass(frozen=True, kw_only=True)
class SelfRanking(Attribution):
    """Scores are what the model writes about itself: they need not have anything to do with how it predicts.

    The model is given its task, the text and the explained label, and is asked for a list of words. The r-th word of
    the list that is a word of the text gets (n - r) / n, with n units and r from 0; units that are not listed get 0.
    What is not in the text is left out and counted (``details["invented"]``); a word that is listed again means its
    next occurrence. Decoding is greedy, so that the answer is the same each time.

    Args:
        length: most tokens of the answer.

    Needs a language model. ``occlusion`` measures what the list claims.

    Example:
        >>> import didact
        >>> didact.explain("A warm film.", llm, method="self_ranking").top(1)  # doctest: +SKIP
    """

    length: int = 100

    def __post_init__(self) -> None:
        at_least(self, length=1)

    def attribute(self, model: Generative, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Have the lists written, all in one call, and look the words up in the texts."""
        requests = [
            REQUEST.format(text=unit.example.text, label=target.name)
            for unit, target in zip(units, targets, strict=True)
        ]
        answers = model.generate(requests, self.length)
        return [_outcome(unit, answer) for unit, answer in zip(units, answers, strict=True)]

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one answer."""
        return Cost(forwards=2)


def _outcome(units: Units, answer: str) -> Outcome:
    places, invented = find_listed(answer, units.example.text)
    scores = ranked(units.regions, places)
    details = {"listed": float(len(places)), "invented": float(invented)}
    warnings = () if scores.any() else (f"the model lists no word of the text; it writes {answer.strip()!r:.100}",)
    return Outcome(scores, None, details, warnings=warnings)


def ranked(regions: Sequence[Region], places: Sequence[Span]) -> Floats:
    """(n - r) / n for the units at the r-th new place of a list, and 0 for all others."""
    scores = np.zeros(len(regions))
    rank = 0
    for place in places:
        new = overlapping(regions, [place]) & (scores == 0)
        scores[new] = (len(regions) - rank) / len(regions)
        rank += bool(new.any())
    return scores


def find_listed(answer: str, text: str) -> tuple[list[Span], int]:
    """Where the words of a list stand in the text, in the list's order, and how many of them are not in it.

    >>> find_listed("1. Warm, film; banana", "A warm film.")
    ([Span(start=2, end=6, field=0), Span(start=7, end=11, field=0)], 1)
    """
    places: list[Span] = []
    invented = 0
    for item in _items(answer):
        place = _next_place(item, text, places)
        if place is not None:
            places.append(place)
        elif not _next_place(item, text, []):
            invented += 1
    return places, invented


def _items(answer: str) -> Iterator[str]:
    """The entries of a list without numbers and quotes; of an entry of several words, each."""
    for entry in re.split(r"[,;\n]|->|>", answer):
        bare = re.sub(r"^\s*(?:[-*•]|\d+[.):])\s*", "", entry)
        yield from (word for part in bare.split() if (word := part.strip("\"'“”‘’`*.:!?()[]")))


def _next_place(item: str, text: str, taken: Sequence[Span]) -> Span | None:
    """The first occurrence of a word that is not taken yet; whole words only."""
    for match in re.finditer(rf"(?<!\w){re.escape(item)}(?!\w)", text, flags=re.IGNORECASE):
        span = Span(match.start(), match.end())
        if span not in taken:
            return span
    return None
