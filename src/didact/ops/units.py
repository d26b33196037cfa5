"""From character offsets to words, and from token scores to unit scores.

Words come from the source text, never from tokenizer marks such as ``##`` or ``▁``: a word is a run of letters and
digits (with inner hyphens and apostrophes), a run of punctuation, or a single character of a script written without
spaces. Words of the level "whitespace" are what stands between blanks, as tokenised corpora count them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import regex

from didact.types import Floats, Level, Span, Units

if TYPE_CHECKING:
    from torch import Tensor

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTERS = rf"[[\p{{L}}\p{{N}}_]--[{_UNSPACED}]][[\p{{L}}\p{{N}}\p{{M}}_]--[{_UNSPACED}]]*"
_WORD = regex.compile(
    rf"[{_UNSPACED}]\p{{M}}*|{_LETTERS}(?:[-'’]{_LETTERS})*|[^\p{{L}}\p{{N}}_\s\x1c-\x1f]+", flags=regex.VERSION1
)

TokenSpan = tuple[int, int, int]
"""Field, start and end of a token; an empty one stands for no characters of its own."""


def word_spans(text: str, field: int = 0) -> list[Span]:
    """The words of a text in order."""
    return [Span(start, end, field) for start, end in zip(*_word_ends(text), strict=True)]


def group_words(
    fields: Sequence[str], tokens: Sequence[TokenSpan | None], level: Level = "word"
) -> tuple[list[Span], list[list[int]]]:
    """Group token positions into words by character offsets.

    Args:
        fields: the source texts.
        tokens: per position the characters it stands for, or None for special tokens.
        level: which words: one of ``WORDS``.

    Returns:
        Spans of the words that have a token, and the positions of each. Words that share a token (a piece that crosses
        a word boundary) become one unit, since the model cannot see them apart. A token that stands only for blanks
        belongs to the word that follows it.
    """
    words = [WORDS[level](text) for text in fields]
    spans: list[Span] = []
    positions: list[list[int]] = []
    last_word = (0, -1)  # of which field, and its number there
    field = 0
    waiting: list[int] = []
    for position, token in enumerate(tokens):
        if token is None:
            continue
        if waiting and positions and token[0] != field:  # blanks at the end of a text stay in it
            positions[-1] += waiting
            waiting = []
        field, start, end = token
        starts, ends = words[field]
        first, behind = bisect_right(ends, start), bisect_left(starts, end)  # words that share a character with it
        if start >= end or first >= behind:
            waiting.append(position)
            continue
        if spans and (field, first) <= last_word:
            positions[-1] += [*waiting, position]
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, ends[behind - 1]), spans[-1].field)
        else:
            spans.append(Span(starts[first], ends[behind - 1], field))
            positions.append([*waiting, position])
        last_word = max(last_word, (field, behind - 1))
        waiting = []
    if waiting and positions:
        positions[-1] += waiting
    return spans, positions


def sum_to_units(units: Units, token_scores: Tensor) -> Floats:
    """Add up the scores of the tokens of each unit: (tokens,) -> (units,)."""
    values = token_scores.detach().double().cpu().tolist()
    return np.array([sum(values[position] for position in own) for own in units.positions], dtype=np.float64)


def mean_to_units(units: Units, token_numbers: Tensor) -> Tensor:
    """Mean over the tokens of each unit, along the last axis: (..., tokens) -> (..., units)."""
    places = [place for own in units.positions for place in own]
    owners = [number for number, own in enumerate(units.positions) for _ in own]
    counts = [max(1, len(own)) for own in units.positions]
    sums = token_numbers.new_zeros(*token_numbers.shape[:-1], len(counts))
    sums = sums.index_add(-1, token_numbers.new_tensor(owners).long(), token_numbers[..., places])
    return sums / token_numbers.new_tensor(counts)


Ends = tuple[list[int], list[int]]


def _word_ends(text: str) -> Ends:
    """Where the words of a text start, and where they end."""
    ends = [match.span() for match in _WORD.finditer(text)]
    return [start for start, _ in ends], [end for _, end in ends]


def _whitespace_ends(text: str) -> Ends:
    """The same for what ``text.split()`` gives."""
    ends = [match.span() for match in re.finditer(r"\S+", text)]
    return [start for start, _ in ends], [end for _, end in ends]


WORDS: Mapping[Level, Callable[[str], Ends]] = {"word": _word_ends, "whitespace": _whitespace_ends}
"""Levels of units that are words, and where the words of a text start and end."""
