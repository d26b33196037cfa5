"""Texts as bags of words: sparse features of lessons and exam, and what hints give to each word.

A word is the same in upper and lower case, and another one in the second text of a pair than in the first.
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
from didact.students.base import Course, Hint, Ints
from didact.students.channels.prior import PriorChannel
from didact.types import Example, Floats

Weighting = Literal["tfidf", "binary"]
Texts = tuple[tuple[str, ...], ...]

UNKNOWN = -1


class BagOfWords:
    """Bags of words as features of a closed-form student.

    Args:
        pool: texts of the lessons.
        exam: texts that are asked about.
        least: lessons that a word must stand in.
        weighting: "tfidf" or "binary".
        device: where products are taken.
    """

    def __init__(
        self, pool: Sequence[Example], exam: Sequence[Example], *, least: int, weighting: Weighting, device: str
    ) -> None:
        self._bags = read(pool, exam)
        self._least, self._weighting, self._device = least, weighting, device
        self._subset: Subset | None = None  # the last one asked for; courses on the same lessons come together

    def view(self, course: Course, prior: PriorChannel | None) -> WordView:
        """A course's lessons and the exam, each word by its prior standard deviation."""
        if self._subset is None or not np.array_equal(self._subset.lessons, course.lessons):
            self._subset = Subset(self._bags, course.lessons, self._least, self._weighting)
            self._train, self._exam = self._subset.train.to(self._device), self._subset.exam.to(self._device)
        if prior is None or course.weight == 0:
            variances = torch.ones(self._subset.width, dtype=torch.float64)
        else:
            variances = prior.variances(*self._subset.told(course.hints), course.weight)
        return WordView(self._train, self._exam, variances[:, None].to(self._device))


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
    def turned(self) -> Tensor:
        """As a dense tensor (width, rows)."""
        return self.sparse.to_dense().T.contiguous()

    def times(self, matrix: Tensor) -> Tensor:
        """Product with a narrow matrix (width, few)."""
        return embedding_bag(self.columns, matrix, self.firsts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True, eq=False)
class WordView:
    """Words of lessons (n, V) and exam (items, V), and the variances of their weights (V, 1)."""

    train: SparseRows
    exam: SparseRows
    variances: Tensor

    def kernel(self) -> Tensor:
        """Products of lessons with lessons (n, n)."""
        found: Tensor = torch.sparse.mm(self.train.sparse, self.train.turned * self.variances)
        return found

    def answers(self, duals: Tensor) -> Tensor:
        """Products of the exam with lessons, summed up with these duals (n, targets) -> (items, targets)."""
        return self.exam.times((self.train.turned @ duals) * self.variances)


@dataclass(frozen=True, eq=False)
class Bag:
    """The words of some texts, one occurrence after another and one text after another.

    Attributes:
        words: number of each occurrence's word; UNKNOWN for those that are not in the pool (occurrences,).
        starts: its first character, counted on through all texts (occurrences,).
        ends: the character behind its last one, likewise (occurrences,).
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


def read(pool: Sequence[Example], exam: Sequence[Example]) -> tuple[Bag, Bag]:
    """The words of all texts; those of the pool are the known ones. The last two results are kept."""
    return _read(tuple(example.fields for example in pool), tuple(example.fields for example in exam))


class Subset:
    """Features of one subset of the pool, shared by all courses on it.

    Rows have length 1. Words that stand in fewer lessons than ``least`` are left out; "tfidf" weighs a word with
    (1 + log count) * log(lessons / lessons with it), "binary" with 1. The lessons alone decide all of that.

    Attributes:
        train: of the lessons (n, V).
        exam: of the exam (items, V).
    """

    def __init__(self, bags: tuple[Bag, Bag], lessons: Ints, least: int, weighting: Weighting) -> None:
        self.pool, exam = bags
        self.lessons = lessons
        firsts, words, _ = self.pool.counted
        _, places = _members(firsts, lessons)
        lessons_with = np.bincount(words[places], minlength=self.pool.known)
        kept = np.flatnonzero(lessons_with >= least)
        self._columns = np.full(self.pool.known + 1, -1)  # the last one is that of UNKNOWN
        self._columns[kept] = np.arange(len(kept))
        self._scale = np.log(len(lessons) / lessons_with[kept]) if weighting == "tfidf" else np.ones(len(kept))
        self._weighting, self.width = weighting, len(kept)
        # Every occurrence in the lessons: its lesson and its column, and how many a lesson has.
        self._rows, places = _members(self.pool.firsts, lessons)
        self._occurring = self._columns[self.pool.words[places]]
        self._sizes = self.pool.firsts[lessons + 1] - self.pool.firsts[lessons]
        self.train = self._features(self.pool, lessons)
        self.exam = self._features(exam, np.arange(len(exam)))

    def told(self, hints: Sequence[Hint | None]) -> tuple[Tensor, Tensor]:
        """What hints gave to each word, and its occurrences in lessons with a hint, both (V,).

        An occurrence takes the largest weight of the spans that it shares a character with; a text's weights are then
        made to add up to its number of words.
        """
        shares = self._shares(hints)
        sums = np.bincount(self._rows, shares, minlength=len(self.lessons))
        says = sums > 0
        with np.errstate(invalid="ignore"):  # a weight that is not finite spoils its student, who is then reported
            shares = shares * (self._sizes / np.where(says, sums, 1.0))[self._rows]
        kept = says[self._rows] & (self._occurring >= 0)
        columns = self._occurring[kept]
        given = np.bincount(columns, shares[kept], minlength=self.width)
        seen = np.bincount(columns, minlength=self.width).astype(np.float64)
        return torch.from_numpy(given), torch.from_numpy(seen)

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
        """Weight of every occurrence in the lessons."""
        pool = self.pool
        lesson, field, start, end, weight = _spans(hints)
        text = self.lessons[lesson]
        start, end = pool.origins[text, field] + start, pool.origins[text, field] + end
        first = np.maximum(np.searchsorted(pool.ends, start, side="right"), pool.firsts[text])
        last = np.minimum(np.searchsorted(pool.starts, end, side="left"), pool.firsts[text + 1])
        before = np.cumsum(self._sizes) - self._sizes
        spans, touched = _ranges(first - pool.firsts[text] + before[lesson], np.maximum(last - first, 0))
        shares = np.zeros(len(self._rows))
        np.maximum.at(shares, touched, weight[spans])
        return shares


@lru_cache(maxsize=2)
def _read(pool: Texts, exam: Texts) -> tuple[Bag, Bag]:
    numbers: dict[tuple[int, str], int] = {}
    first = _bag(pool, numbers, grows=True)
    return first, _bag(exam, numbers, grows=False)


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
    """Spans with a weight: lesson, field, start, end, weight."""
    said = [(np.zeros((0, 3), dtype=np.int64), np.zeros(0)) if hint is None else _said(hint) for hint in hints]
    lesson = np.repeat(np.arange(len(said)), [len(weights) for _, weights in said])
    field, start, end = np.concatenate([places for places, _ in said]).T
    return lesson, field, start, end, np.concatenate([weights for _, weights in said])


_SAID: WeakKeyDictionary[Hint, tuple[Ints, Floats]] = WeakKeyDictionary()


def _said(hint: Hint) -> tuple[Ints, Floats]:
    """Field, start and end of the spans with a weight, and the weights; kept, since many courses share a hint."""
    found = _SAID.get(hint)
    if found is None:
        weights = np.asarray(hint.weights, dtype=np.float64)
        says = np.flatnonzero(weights > 0)
        spans = [hint.spans[place] for place in says.tolist()]
        places = _ints([(span.field, span.start, span.end) for span in spans]).reshape(-1, 3)
        found = _SAID[hint] = places, weights[says]
    return found


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
