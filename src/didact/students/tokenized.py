"""Texts as a student reads them, with hints, links and answers carried over to its own tokens.

Hints, links and answers are characters of the source; students of different kinds cut the same text differently. A
position belongs to a phrase when it shares a character with it, so nothing depends on marks of a tokenizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.models.tokens.encoding import Encoder
from didact.ops.units import TokenSpan, word_spans
from didact.students.base import Hint, Ints, LabelledExample, spans_of
from didact.types import Example, Region, Span

PADDING, UNKNOWN, SEPARATOR = 0, 1, 2
"""Token numbers that a vocabulary of words reserves."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """Texts as numbers, padded at their ends.

    Attributes:
        ids: token numbers (texts, L).
        types: segment numbers (texts, L).
        lengths: tokens per text (texts,).
        fields: which field a position belongs to (texts, L); -1 for special tokens and padding.
        starts: its first character (texts, L).
        ends: the character behind its last one (texts, L).
    """

    ids: Ints
    types: Ints
    lengths: Ints
    fields: Ints
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def width(self) -> int:
        """Tokens of the longest text."""
        return int(self.ids.shape[1])

    @cached_property
    def text(self) -> Bools:
        """Whether a position stands for characters of the source (texts, L)."""
        return (self.fields >= 0) & (self.ends > self.starts)

    def touched(self, row: int, regions: Sequence[Region]) -> Bools:
        """Which positions of a text share a character with each region, all of which are spans: (regions, L)."""
        places = [(span.field, span.start, span.end) for span in spans_of(regions)]
        where = np.array(places, dtype=np.int64).reshape(-1, 3, 1)
        overlap = (self.starts[row] < where[:, 2]) & (self.ends[row] > where[:, 1])
        touched: Bools = overlap & (self.fields[row] == where[:, 0]) & self.text[row]
        return touched


@dataclass(frozen=True, eq=False)
class HintTable:
    """All different hints of some runs on the student's positions; row 0 is the empty hint.

    Attributes:
        weights: (hints, L).
        links: membership in the two phrases of each link (hints, K, 2, L); None where there are none.
        rows: which row each training example of each run has (runs, examples).
    """

    weights: NDArray[np.float32]
    links: Bools | None
    rows: Ints


class WordNumbers:
    """Words and their numbers, in lower case.

    Args:
        words: the known words, each once.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.numbers = {word: number for number, word in enumerate(words, start=SEPARATOR + 1)}

    @classmethod
    def of(cls, examples: Iterable[Example], *, min_count: int, largest: int) -> WordNumbers:
        """The words of some texts, the most frequent ones first; rarer ones than ``min_count`` stay unknown."""
        counts = Counter(
            text[span.start : span.end].lower()
            for example in examples
            for text in example.texts
            for span in word_spans(text)
        )
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(word for word, count in ranked[:largest] if count >= min_count)

    def __len__(self) -> int:
        return len(self.numbers) + SEPARATOR + 1

    def number(self, word: str) -> int:
        """Number of a word."""
        return self.numbers.get(word.lower(), UNKNOWN)


def tokenised(examples: Sequence[Example], encoder: Encoder) -> TokenizedTexts:
    """Texts as a tokenizer cuts them; what is longer than its limit is cut off."""
    codes = encoder.encode(examples)
    types = [np.zeros_like(code.ids) if code.types is None else code.types for code in codes]
    filler = encoder.tokenizer.pad_token_id or 0
    return _padded([code.ids for code in codes], types, [code.tokens for code in codes], filler)


def worded(examples: Sequence[Example], vocabulary: WordNumbers, max_length: int) -> TokenizedTexts:
    """Texts as words of a vocabulary; a separator stands before the second text of a pair."""
    ids, types, tokens = [], [], []
    for example in examples:
        numbers: list[int] = []
        spans: list[TokenSpan | None] = []
        for field, text in enumerate(example.texts):
            if field:
                numbers.append(SEPARATOR)
                spans.append(None)
            words = word_spans(text, field)
            numbers += [vocabulary.number(text[word.start : word.end]) for word in words]
            spans += [(field, word.start, word.end) for word in words]
        kept = slice(0, max_length)
        ids.append(np.array(numbers[kept] or [UNKNOWN], dtype=np.int64))
        tokens.append(tuple(spans[kept] or [None]))
        types.append(np.array([0 if span is None else span[0] for span in tokens[-1]], dtype=np.int64))
    return _padded(ids, types, tokens)


def hint_table(texts: TokenizedTexts, places: Sequence[Ints], hints: Sequence[Sequence[Hint | None]]) -> HintTable:
    """Hints of runs of equal length on the positions of the texts that they are about.

    A position takes the largest weight of the spans that it shares a character with: a set stays a set, whichever
    tokens the student has. A hint that several students share is in the table once.

    Args:
        texts: of the pool.
        places: of each run's training examples in the pool.
        hints: of each run's training examples.
    """
    known: dict[tuple[int, int], int] = {}
    covered: dict[tuple[int, int], tuple[Ints, ...]] = {}  # many explainers have the same spans
    weights = [np.zeros(texts.width, dtype=np.float32)]
    links: list[Bools] = [np.zeros((0, 2, texts.width), dtype=bool)]
    rows = np.zeros((len(places), len(places[0])), dtype=np.int64)
    for run, (own_places, own_hints) in enumerate(zip(places, hints, strict=True)):
        for number, (place, hint) in enumerate(zip(own_places.tolist(), own_hints, strict=True)):
            if hint is None:
                continue
            key = (place, id(hint))
            if key not in known:
                known[key], spans = len(weights), (place, id(hint.spans))
                covered[spans] = covered.get(spans) or np.nonzero(texts.touched(place, hint.spans))
                weights.append(_largest(texts, hint, covered[spans]))
                links.append(_linked(texts, place, hint))
            rows[run, number] = known[key]
    return HintTable(np.stack(weights), _stacked_links(links), rows)


def hint_weights(texts: TokenizedTexts, row: int, hint: Hint) -> NDArray[np.float32]:
    """A hint's weights on the positions of a text (L,)."""
    return _largest(texts, hint, np.nonzero(texts.touched(row, hint.spans)))


def _largest(texts: TokenizedTexts, hint: Hint, covered: tuple[Ints, ...]) -> NDArray[np.float32]:
    """The largest weight at each position (L,), from the numbers of spans and the positions that they cover."""
    weights, given = np.zeros(texts.width, dtype=np.float32), np.asarray(hint.weights, dtype=np.float32)
    spans, positions = covered
    np.maximum.at(weights, positions, np.where(given > 0, given, 0.0)[spans])
    return weights


def answer_positions(texts: TokenizedTexts, labelled: Sequence[LabelledExample]) -> Ints:
    """First and last position of each answer (texts, 2); -1 where the length limit cut some of it off.

    Where an example has several right answers, the first is taken.
    """
    positions = np.full((len(labelled), 2), -1, dtype=np.int64)
    for row, item in enumerate(labelled):
        span = item.answer[0] if isinstance(item.answer, Sequence) and item.answer else item.answer
        if not isinstance(span, Span):
            raise InputError(
                f"training example {row} (from 0) has the answer {item.answer!r}; an answer in a passage must be a Span"
            )
        if not 0 <= span.field < len(item.example.fields):
            raise InputError(
                f"the answer of training example {row} (from 0) lies in field {span.field}, which it does not have"
            )
        places = np.flatnonzero(texts.touched(row, [span])[0])
        end = len(item.example.texts[span.field][: span.end].rstrip())  # blanks have no token of their own
        if len(places) and texts.ends[row, places[-1]] >= end:
            positions[row] = places[0], places[-1]
    return positions


def answer_characters(texts: TokenizedTexts, positions: Ints) -> Ints:
    """First and last character of answers given as first and last position: (texts, 2)."""
    rows = np.arange(len(positions))
    return np.stack([texts.starts[rows, positions[:, 0]], texts.ends[rows, positions[:, 1]] - 1], 1)


def _padded(
    ids: Sequence[Ints], types: Sequence[Ints], tokens: Sequence[Sequence[TokenSpan | None]], filler: int = PADDING
) -> TokenizedTexts:
    """Rows of different length as arrays, filled up at their ends."""
    lengths = np.array([len(row) for row in ids], dtype=np.int64)
    shape = (len(ids), int(lengths.max(initial=1)))
    arrays = {name: np.zeros(shape, dtype=np.int64) for name in ("ids", "types", "starts", "ends")}
    arrays["ids"] += filler
    fields = np.full(shape, -1, dtype=np.int64)
    for row, (numbers, segments, spans) in enumerate(zip(ids, types, tokens, strict=True)):
        arrays["ids"][row, : len(numbers)] = numbers
        arrays["types"][row, : len(numbers)] = segments
        where = np.array([(-1, 0, 0) if span is None else span for span in spans], dtype=np.int64)
        fields[row, : len(numbers)] = where[:, 0]
        arrays["starts"][row, : len(numbers)] = where[:, 1]
        arrays["ends"][row, : len(numbers)] = where[:, 2]
    return TokenizedTexts(lengths=lengths, fields=fields, **arrays)


def _linked(texts: TokenizedTexts, row: int, hint: Hint) -> Bools:
    """Membership in both phrases (K, 2, L) of the links of which something is left on both sides."""
    pairs = [texts.touched(row, link) for link in hint.links]
    kept = [pair for pair in pairs if pair.any(1).all()]
    return np.stack(kept) if kept else np.zeros((0, 2, texts.width), dtype=bool)


def _stacked_links(links: Sequence[Bools]) -> Bools | None:
    most = max(len(link) for link in links)
    if not most:
        return None
    padded = np.zeros((len(links), most, *links[0].shape[1:]), dtype=bool)
    for row, link in zip(padded, links, strict=True):
        row[: len(link)] = link
    return padded
