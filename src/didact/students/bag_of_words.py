"""Texts as bags of words: sparse features of training and test texts, and how much of the hints falls on each word.

Upper and lower case are the same word; the same word in the first and in the second text of a pair are two words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from didact.ops.units import word_spans
from didact.students.base import FeaturePrior, Hint, Ints, StudentRun, spans_of
from didact.types import Example, Floats

Weighting = Literal["tfidf", "binary"]
Texts = tuple[tuple[str, ...], ...]

UNKNOWN = -1


class BagOfWords:
    """Bags of words as features of a closed-form student.

    Args:
        pool: texts of the training pool.
        test: test texts.
        least: training texts that a word must occur in.
        weighting: "tfidf" or "binary".
        device: where products are computed.
    """

    def __init__(
        self, pool: Sequence[Example], test: Sequence[Example], *, least: int, weighting: Weighting, device: str
    ) -> None:
        self._bags = read(pool, test)
        self._least, self._weighting, self._device = least, weighting, device
        self._subset: Subset | None = None  # of the last run; runs on the same texts follow each other

    def view(self, run: StudentRun, prior: FeaturePrior | None) -> WordView:
        """A run's training texts and the test texts, with the prior variance of each word."""
        if self._subset is None or not np.array_equal(self._subset.places, run.places):
            self._subset = Subset(self._bags, run.places, self._least, self._weighting)
            self._train, self._test = self._subset.train.to(self._device), self._subset.test.to(self._device)
        if prior is None or run.weight == 0:
            variances = torch.ones(self._subset.width, dtype=torch.float64)
        else:
            variances = prior.variances(*self._subset.hint_shares(run.hints), run.weight)
        return WordView(self._train, self._test, variances[:, None].to(self._device))


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix, row by row.

    Attributes:
        columns: of the entries.
        values: the entries.
        firsts: first entry of each row (rows,).
        width: number of columns.
    """

    columns: Tensor
    values: Tensor
    firsts: Tensor
    width: int

    def to(self, device: str) -> SparseRows:
        """The same on a device."""
        return SparseRows(self.columns.to(device), self.values.to(device), self.firsts.to(device), self.width)

    @cached_property
    def sparse(self) -> Tensor:
        """As a sparse tensor (rows, width)."""
        ends = torch.cat([self.firsts[1:], self.firsts.new_tensor([len(self.values)])])
        rows = torch.repeat_interleave(ends - self.firsts)
        cells, shape = torch.stack([rows, self.columns]), (len(self.firsts), self.width)
        return torch.sparse_coo_tensor(cells, self.values, shape, check_invariants=False, is_coalesced=True)

    @cached_property
    def transposed(self) -> Tensor:
        """As a dense tensor (width, rows)."""
        return self.sparse.to_dense().T.contiguous()

    def times(self, matrix: Tensor) -> Tensor:
        """Product with a narrow matrix (width, few)."""
        return embedding_bag(self.columns, matrix, self.firsts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True, eq=False)
class WordView:
    """Words of training texts (n, V) and test texts (items, V), and the variances of their weights (V, 1)."""

    train: SparseRows
    test: SparseRows
    variances: Tensor

    def kernel(self) -> Tensor:
        """Products of training texts with training texts (n, n)."""
        products: Tensor = torch.sparse.mm(self.train.sparse, self.train.transposed * self.variances)
        return products

    def answers(self, duals: Tensor) -> Tensor:
        """Products of test texts with training texts, summed up with these duals (n, targets) -> (items, targets)."""
        return self.test.times((self.train.transposed @ duals) * self.variances)


@dataclass(frozen=True, eq=False)
class Bag:
    """The words of some texts, one occurrence after another and one text after another.

    Attributes:
        words: number of each occurrence's word; UNKNOWN for words that are not in the pool (occurrences,).
        starts: its first character, counted on through all texts (occurrences,).
        ends: the character behind its last, likewise (occurrences,).
        firsts: first occurrence of each text, and the number of all (texts + 1,).
        origins: first character of both fields of each text, counted on through all texts (texts, 2).
        known: how many words have a number.
    """

    words: Ints
    starts: Ints
    ends: Ints
    firsts: Ints
    origins: Ints
    known: int

    def __len__(self) -> int:
        return len(self.origins)

    @cached_property
    def counted(self) -> tuple[Ints, Ints, Floats]:
        """Each text's different known words: where those of a text begin (texts + 1,), the words, their counts."""
        texts = np.repeat(np.arange(len(self)), np.diff(self.firsts))
        is_known = self.words != UNKNOWN
        cells, counts = np.unique(texts[is_known] * self.known + self.words[is_known], return_counts=True)
        firsts = np.searchsorted(cells, np.arange(len(self) + 1) * self.known)
        return firsts, cells % max(self.known, 1), counts.astype(np.float64)


def read(pool: Sequence[Example], test: Sequence[Example]) -> tuple[Bag, Bag]:
    """The words of all texts; the words of the pool are known. The last two results are cached."""
    return _read(tuple(example.texts for example in pool), tuple(example.texts for example in test))


class Subset:
    """Features of one subset of the pool, shared by all runs on it.

    Rows have length 1. Words that occur in fewer training texts than ``least`` are left out; "tfidf" weighs a word with
    (1 + log count) * log(texts / texts with it), "binary" with 1. The training texts alone decide all of that.

    Args:
        bags: words of the pool and of the test texts.
        places: of the training texts in the pool.
        least: training texts that a word must occur in.
        weighting: "tfidf" or "binary".

    Attributes:
        train: features of the training texts (n, V).
        test: features of the test texts (items, V).
    """

    def __init__(self, bags: tuple[Bag, Bag], places: Ints, least: int, weighting: Weighting) -> None:
        self.pool, test = bags
        self.places = places
        firsts, words, _ = self.pool.counted
        _, members = _members(firsts, places)
        texts_with = np.bincount(words[members], minlength=self.pool.known)
        kept = np.flatnonzero(texts_with >= least)
        self._columns = np.full(self.pool.known + 1, -1)  # the last is the column of UNKNOWN
        self._columns[kept] = np.arange(len(kept))
        self._scale = np.log(len(places) / texts_with[kept]) if weighting == "tfidf" else np.ones(len(kept))
        self._weighting, self.width = weighting, len(kept)
        # Every occurrence in the training texts: its text and its column, and how many a text has.
        self._rows, members = _members(self.pool.firsts, places)
        self._occurring = self._columns[self.pool.words[members]]
        self._sizes = self.pool.firsts[places + 1] - self.pool.firsts[places]
        self.train = self._features(self.pool, places)
        self.test = self._features(test, np.arange(len(test)))

    def hint_shares(self, hints: Sequence[Hint | None]) -> tuple[Tensor, Tensor]:
        """What hints gave to each word, and its occurrences in training texts with a hint, both (V,).

        An occurrence takes the largest weight of the spans that it shares a character with; a text's weights are then
        made to add up to its number of words.
        """
        return self.word_shares(torch.from_numpy(self._shares(hints)))

    def word_shares(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """As ``hint_shares``, from the weights of all occurrences in the training texts; differentiable.

        Args:
            shares: text after text (occurrences,), none negative.
        """
        own = self._rows, self._occurring, self._sizes
        rows, columns, sizes = (torch.from_numpy(values).to(shares.device) for values in own)
        sums = shares.new_zeros(len(self.places)).index_add(0, rows, shares)
        is_hinted = sums > 0
        shares = shares * (sizes / torch.where(is_hinted, sums, 1.0))[rows]
        kept = is_hinted[rows] & (columns >= 0)
        nothing = shares.new_zeros(self.width)
        given = nothing.index_add(0, columns[kept], shares[kept])
        return given, nothing.index_add(0, columns[kept], torch.ones_like(shares[kept]))

    def _features(self, bag: Bag, texts: Ints) -> SparseRows:
        firsts, words, counts = bag.counted
        rows, places = _members(firsts, texts)
        columns = self._columns[words[places]]
        kept = columns >= 0
        rows, places, columns = rows[kept], places[kept], columns[kept]
        values = self._scale[columns]
        if self._weighting == "tfidf":
            values = values * (1 + np.log(counts[places]))
        length = np.sqrt(np.bincount(rows, values**2, minlength=len(texts)))
        values = values / np.where(length > 0, length, 1.0)[rows]
        firsts = np.searchsorted(rows, np.arange(len(texts)))
        return SparseRows(torch.from_numpy(columns), torch.from_numpy(values), torch.from_numpy(firsts), self.width)

    def _shares(self, hints: Sequence[Hint | None]) -> Floats:
        """Weight of every occurrence in the training texts."""
        pool = self.pool
        number, field, start, end, weight = _spans(hints)
        text = self.places[number]
        start, end = pool.origins[text, field] + start, pool.origins[text, field] + end
        first = np.maximum(np.searchsorted(pool.ends, start, side="right"), pool.firsts[text])
        last = np.minimum(np.searchsorted(pool.starts, end, side="left"), pool.firsts[text + 1])
        before = np.cumsum(self._sizes) - self._sizes
        spans, touched = _ranges(first - pool.firsts[text] + before[number], np.maximum(last - first, 0))
        shares = np.zeros(len(self._rows))
        np.maximum.at(shares, touched, weight[spans])
        return shares


@lru_cache(maxsize=2)
def _read(pool: Texts, test: Texts) -> tuple[Bag, Bag]:
    numbers: dict[tuple[int, str], int] = {}
    first = _bag(pool, numbers, grows=True)
    return first, _bag(test, numbers, grows=False)


def _bag(texts: Texts, numbers: dict[tuple[int, str], int], *, grows: bool) -> Bag:
    words: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    firsts, origins = [0], np.zeros((len(texts), 2), dtype=np.int64)
    origin = 0
    for place, fields in enumerate(texts):
        for field, text in enumerate(fields):
            origins[place, field] = origin
            for span in word_spans(text):
                word = (field, text[span.start : span.end].lower())
                words.append(numbers.setdefault(word, len(numbers)) if grows else numbers.get(word, UNKNOWN))
                starts.append(origin + span.start)
                ends.append(origin + span.end)
            origin += len(text) + 1
        firsts.append(len(words))
    return Bag(_ints(words), _ints(starts), _ints(ends), _ints(firsts), origins, len(numbers))


def _spans(hints: Sequence[Hint | None]) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """All spans with a weight: number of the hint, field, start, end, weight."""
    empty = np.zeros((0, 3), dtype=np.int64), np.zeros(0)
    marked = [empty if hint is None else _marked(hint) for hint in hints]
    numbers = np.repeat(np.arange(len(marked)), [len(weights) for _, weights in marked])
    field, start, end = np.concatenate([places for places, _ in marked]).T
    return numbers, field, start, end, np.concatenate([weights for _, weights in marked])


_MARKED: WeakKeyDictionary[Hint, tuple[Ints, Floats]] = WeakKeyDictionary()


def _marked(hint: Hint) -> tuple[Ints, Floats]:
    """Field, start and end of the spans with a weight, and the weights; cached, since many runs share a hint."""
    if hint not in _MARKED:
        weights = np.asarray(hint.weights, dtype=np.float64)
        chosen = np.flatnonzero(weights > 0)
        spans = spans_of([hint.spans[number] for number in chosen.tolist()])
        places = _ints([(span.field, span.start, span.end) for span in spans]).reshape(-1, 3)
        _MARKED[hint] = places, weights[chosen]
    return _MARKED[hint]


def _ints(values: Sequence[object]) -> Ints:
    return np.array(values, dtype=np.int64)


def _members(firsts: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Members of the chosen texts: which of the chosen each belongs to, and its place among all members."""
    return _ranges(firsts[chosen], firsts[chosen + 1] - firsts[chosen])


def _ranges(begins: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Numbers of ranges, one range after another: which range each is of, and the number."""
    owners = np.repeat(np.arange(len(begins)), sizes)
    before = np.cumsum(sizes) - sizes
    return owners, np.arange(len(owners)) - before[owners] + begins[owners]
