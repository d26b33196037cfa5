"""Tokenises pairs whose second text may be longer than a network reads at once: as overlapping windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from didact.errors import InputError
from didact.models.tokens.encoding import Encoder, Encoding
from didact.ops.units import WORDS, TokenSpan, group_words
from didact.types import Example, Level, Span

MOST = 32
"""Windows of one passage; what comes behind them is cut off, and counts as truncated."""
OVERLAP = 128
"""Tokens that neighbouring windows share, where the room for the passage is at least twice as large."""
SMALLEST = 8
"""Tokens of the passage for which a window must have room."""


class WindowEncoder(Encoder):
    """Every window repeats the first text and shows the next part of the second; positions count through all windows.

    Levels are those of all texts, and the words of "question" or "passage" alone, the other being always present. A
    word that stands in several windows covers its positions in each of them, so that it is absent everywhere or
    nowhere.
    """

    cuts = False

    def _encode(self, examples: Sequence[Example]) -> list[Encoding]:
        return [
            self._cut(example, code) if example.text_pair is not None else _single_pass(code)
            for example, code in zip(examples, super()._encode(examples), strict=True)
        ]

    def _cut(self, example: Example, code: Encoding) -> Encoding:
        if self.limit is None or len(code) <= self.limit:
            return _single_pass(code)
        passage = np.flatnonzero(code.fields == 1)
        room = self.limit - (len(code) - len(passage))
        if room < SMALLEST:
            raise InputError(
                f"the question {example.text!r:.60} takes {len(code) - len(passage)} of the {self.limit} tokens that "
                f"the model reads, so there is no room for the passage; shorten the question"
            )
        step = room - min(OVERLAP, room // 2)
        count = min(MOST, 1 + -(-(len(passage) - room) // step))
        before, after = np.arange(passage[0]), np.arange(passage[-1] + 1, len(code))
        shown = [np.concatenate([before, passage[at : at + room], after]) for at in np.arange(count) * step]
        places = np.concatenate(shown)
        return Encoding(
            code.ids[places],
            None if code.types is None else code.types[places],
            tuple(code.tokens[place] for place in places),
            np.repeat(np.arange(count), [len(own) for own in shown]),
            code.texts,
        )

    def _grouped(self, example: Example, code: Encoding, level: Level) -> tuple[list[Span], list[list[int]]]:
        chosen = {"question": 0, "passage": 1}.get(level)
        spans, positions = self._everywhere(example, code, "word" if chosen is not None else level)
        kept = [number for number, span in enumerate(spans) if chosen in (None, span.field)]
        return [spans[number] for number in kept], [positions[number] for number in kept]

    def _everywhere(self, example: Example, code: Encoding, level: Level) -> tuple[list[Span], list[list[int]]]:
        """Words or tokens of both texts, with their positions in all windows."""
        if not code.passes.any():
            return super()._grouped(example, code, level)
        tokens, places = _distinct(code)
        if level in WORDS:
            spans, numbers = group_words(example.texts, tokens, level)
        else:
            numbers = [[number] for number, (_, start, end) in enumerate(tokens) if start < end]
            spans = [Span(tokens[own][1], tokens[own][2], tokens[own][0]) for (own,) in numbers]
        return spans, [sorted(place for number in own for place in places[number]) for own in numbers]

    def _truncated(self, example: Example, code: Encoding) -> float:
        return super()._truncated(example, code) if code.passes.any() else 0.0

    def _refuse(self, example: Example, truncated: float) -> None:
        raise InputError(
            f"the passage has {len(example.texts[-1]):,} characters, and the {MOST} windows of {self.limit} tokens in "
            f"which it is read leave out {truncated:.0%} of all text; shorten or split it, or allow the cut with "
            "max_truncated=1 (command line: --truncate)"
        )


def _single_pass(code: Encoding) -> Encoding:
    return dataclasses.replace(code, windows=np.zeros(len(code), dtype=np.int64))


def _distinct(code: Encoding) -> tuple[list[TokenSpan], list[list[int]]]:
    """Tokens in the order of the text, and the positions of each in all windows.

    A run of tokens may stand for one character; it counts as one token here.
    """
    numbered = sorted((token, place) for place, token in enumerate(code.tokens) if token is not None)
    grouped = [(token, [place for _, place in own]) for token, own in groupby(numbered, key=lambda pair: pair[0])]
    return [token for token, _ in grouped], [places for _, places in grouped]
