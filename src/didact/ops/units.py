"""From character offsets to words, and from token scores to unit scores.

Words come from the source text, never from tokenizer marks such as ``##`` or ``▁``: a word is a run of letters and
digits (with inner hyphens and apostrophes), a run of punctuation, or a single character of a script written without
spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import regex

from didact.types import Floats, Span, Units

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
    return [Span(match.start(), match.end(), field) for match in _WORD.finditer(text)]


def group_words(fields: Sequence[str], tokens: Sequence[TokenSpan | None]) -> tuple[list[Span], list[list[int]]]:
    """Group token positions into words by character offsets.

    Args:
        fields: the source texts.
        tokens: per position the characters it stands for, or None for special tokens.

    Returns:
        Spans of the words that have a token, and the positions of each. Words that share a token (a piece that crosses
        a word boundary) become one unit, since the model cannot see them apart. A token that stands only for blanks
        belongs to the word that follows it.
    """
    words = [span for number, text in enumerate(fields) for span in word_spans(text, number)]
    owner = _owners(words, [len(text) for text in fields])
    spans: list[Span] = []
    positions: list[list[int]] = []
    last_word = -1
    field = 0
    waiting: list[int] = []
    for position, token in enumerate(tokens):
        if token is None:
            continue
        if waiting and positions and token[0] != field:  # blanks at the end of a text stay in it
            positions[-1] += waiting
            waiting = []
        field = token[0]
        touched = sorted({w for w in owner[token[0]][token[1] : token[2]] if w >= 0})
        if not touched:
            waiting.append(position)
            continue
        if spans and touched[0] <= last_word:
            positions[-1] += [*waiting, position]
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, words[touched[-1]].end), spans[-1].field)
        else:
            first, final = words[touched[0]], words[touched[-1]]
            spans.append(Span(first.start, final.end, first.field))
            positions.append([*waiting, position])
        last_word = max(last_word, touched[-1])
        waiting = []
    if waiting and positions:
        positions[-1] += waiting
    return spans, positions


def sum_to_units(units: Units, token_scores: Tensor) -> Floats:
    """Add up the scores of the tokens of each unit: (tokens,) -> (units,)."""
    values = token_scores.detach().double().cpu().numpy()
    return np.array([values[list(positions)].sum() for positions in units.positions], dtype=np.float64)


def _owners(words: Sequence[Span], lengths: Sequence[int]) -> list[list[int]]:
    """Per field and character the index of its word, -1 for blanks."""
    owner = [[-1] * length for length in lengths]
    for index, word in enumerate(words):
        owner[word.field][word.start : word.end] = [index] * (word.end - word.start)
    return owner
