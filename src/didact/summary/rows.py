"""Rows of the table of words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WordExample:
    """One occurrence of a word.

    Attributes:
        explanation: number of the explanation in the list, from 0.
        score: of the word there.
        before: the text before it.
        word: as written.
        after: the text behind it.
    """

    explanation: int
    score: float
    before: str
    word: str
    after: str


@dataclass(frozen=True)
class WordRow:
    """One word for one explained class.

    Attributes:
        word: in lower case.
        label: the explained class.
        texts: how many texts it occurs in.
        count: how often it occurs.
        mean: of its score over texts.
        low: lower end of the 95 % interval of the mean; NaN where there are fewer than 10 texts.
        high: upper end, likewise.
        examples: its strongest occurrences.
    """

    word: str
    label: str
    texts: int
    count: int
    mean: float
    low: float
    high: float
    examples: tuple[WordExample, ...] = ()
