"""From the units of a text to the numbers of embeddings: a vocabulary of words, or the pieces of a tokenizer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from didact import disk
from didact.errors import FormatError, ParameterError
from didact.models.tokens.encoding import Encoder, Encoding
from didact.ops.units import TokenSpan
from didact.types import Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

PAD, UNKNOWN = 0, 1
"""Numbers that every reader keeps free: padding, and what has no number of its own."""

_NOWHERE = (-1, 0, 0)
"""In place of the field, start and end of a special token."""


class UnitReader(ABC):
    """Gives the units of an example their numbers, and can be kept in a folder."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are, ``PAD`` and ``UNKNOWN`` included."""

    @abstractmethod
    def read(self, texts: Sequence[Units]) -> list[tuple[Ints, Ints]]:
        """Per text numbers (pieces,) in its order, and the unit that each belongs to; every unit has a piece."""

    @abstractmethod
    def vocabulary(self) -> Sequence[str]:
        """Words that have a number, frequent ones first as far as that is known."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what ``load`` needs."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote."""


class Vocabulary(UnitReader):
    """One number per unit: that of its text in lower case.

    Args:
        words: the known ones, none twice; the first gets number 2.
        lower: whether units are lower-cased before they are looked up.
    """

    name = "words"

    def __init__(self, words: Sequence[str], *, lower: bool = True) -> None:
        self.words = tuple(words)
        self.lower = lower
        self._numbers = {word: number for number, word in enumerate(self.words, start=UNKNOWN + 1)}
        if len(self._numbers) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise FormatError(f"a vocabulary has every word once, but {twice!r} comes twice")

    @classmethod
    def of(cls, units: Iterable[Units], *, min_count: int = 2, lower: bool = True) -> Vocabulary:
        """The words of some texts, frequent ones first.

        Words rarer than ``min_count`` are read as unknown, also in training: with 1 nothing would ever teach the
        network what to do with a word that it meets for the first time.
        """
        if min_count < 1:
            raise ParameterError(f"min_count of a vocabulary must be at least 1, got {min_count!r}")
        counts = Counter(word for unit in units for word in _spelled(unit, lower))
        kept = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
        return cls(kept, lower=lower)

    @property
    def size(self) -> int:
        """Padding, unknown and the words."""
        return len(self.words) + UNKNOWN + 1

    def read(self, texts: Sequence[Units]) -> list[tuple[Ints, Ints]]:
        """One piece per unit."""
        numbers = [[self._numbers.get(word, UNKNOWN) for word in _spelled(units, self.lower)] for units in texts]
        return [(np.array(own, dtype=np.int32), np.arange(len(own), dtype=np.int32)) for own in numbers]

    def vocabulary(self) -> Sequence[str]:
        """The words."""
        return self.words

    def save(self, folder: Path) -> None:
        """Write vocabulary.json."""
        text = json.dumps({"lower": self.lower, "words": self.words}, ensure_ascii=False, indent=0)
        disk.write_text(folder / "vocabulary.json", text + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read vocabulary.json."""
        path = folder / "vocabulary.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls([str(word) for word in data["words"]], lower=bool(data["lower"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FormatError(f"{path} does not hold a vocabulary: {problem}") from None


class Pieces(UnitReader):
    """The tokens of a fast tokenizer, mostly that of the explained model; a unit has one or more.

    Tokens find their unit by their characters, so units of other models and hand-marked ones can be read too. What no
    unit covers (special tokens, a part that the explained model cuts off) is left out; a unit that has no token to
    itself, because one token covers several units, is read as unknown.

    Args:
        tokenizer: a fast tokenizer; its settings stay as they are.
    """

    name = "tokens"

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._encoder = Encoder(tokenizer, None, 1.0)
        self._size = len(tokenizer) + UNKNOWN + 1

    @property
    def size(self) -> int:
        """Padding, unknown and all tokens."""
        return self._size

    def read(self, texts: Sequence[Units]) -> list[tuple[Ints, Ints]]:
        """The tokens of each unit, unit by unit."""
        if not texts:
            return []
        codes = self._encoder.encode([units.example for units in texts])
        read = []
        for units, code, owners in zip(texts, codes, _by_characters(texts, codes), strict=True):
            exact = _by_position(units, code)
            read.append(_in_order(code.ids, owners if exact is None else exact, len(units)))
        return read

    def vocabulary(self) -> Sequence[str]:
        """Tokens that are whole words, in the order of their numbers, which mostly is that of their frequency."""
        numbered = sorted(self.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        words = (token.lstrip("\u0120\u2581") for token, _ in numbered)  # signs that tokenizers write for a blank
        return [word for word in dict.fromkeys(words) if word.isalpha()]

    def save(self, folder: Path) -> None:
        """Write the tokenizer into a folder of its own."""
        self.tokenizer.save_pretrained(str(folder / "tokenizer"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the tokenizer."""
        from transformers import PreTrainedTokenizerFast

        try:
            return cls(PreTrainedTokenizerFast.from_pretrained(str(folder / "tokenizer")))
        except (OSError, ValueError) as problem:
            raise FormatError(f"{folder / 'tokenizer'} does not hold a tokenizer: {problem}") from None


READERS: dict[str, type[UnitReader]] = {reader.name: reader for reader in (Vocabulary, Pieces)}


def _spelled(units: Units, lower: bool) -> tuple[str, ...]:
    return tuple(text.lower() for text in units.texts) if lower else units.texts


def _by_position(units: Units, code: Encoding) -> Longs | None:
    """Owners of tokens that are units themselves; None unless this tokenizer made them.

    Several tokens can stand for one character, and then only their positions tell them apart.
    """
    if units.level != "token" or len(units.positions) != len(units):
        return None
    owners = np.full(len(code.ids), -1)
    for number, (span, positions) in enumerate(zip(units.spans, units.positions, strict=True)):
        if len(positions) != 1 or positions[0] >= len(code.tokens):
            return None
        if code.tokens[positions[0]] != (span.field, span.start, span.end):
            return None
        owners[positions[0]] = number
    return owners


def _by_characters(texts: Sequence[Units], codes: Sequence[Encoding]) -> list[Longs]:
    """Per token the first unit that it shares a character with, or -1; of all texts in one search."""
    spans = _places([[(span.field, span.start, span.end) for span in units.spans] for units in texts])
    tokens = _places([[_NOWHERE if token is None else token for token in code.tokens] for code in codes])
    order = np.lexsort((spans.ends, spans.fields))
    field, start, end, number = (c[order] for c in (spans.fields, spans.starts, spans.ends, spans.numbers))
    far = 1 + max(spans.ends.max(initial=0), tokens.ends.max(initial=0))
    first = np.searchsorted(field * far + end, tokens.fields * far + tokens.starts, side="right")
    met = first < len(end)
    met[met] = (field[first[met]] == tokens.fields[met]) & (start[first[met]] < tokens.ends[met])
    owners = np.full(len(first), -1)
    owners[met] = number[first[met]]
    return np.split(owners, np.cumsum([len(code.tokens) for code in codes])[:-1])


@dataclass(frozen=True, eq=False)
class _Places:
    """Spans of many texts one after the other; every field of every text has a number."""

    fields: Longs
    starts: Longs
    ends: Longs
    numbers: Longs
    """Of the span within its text."""


def _places(texts: Sequence[Sequence[TokenSpan]]) -> _Places:
    counts = np.array([len(spans) for spans in texts], dtype=np.int64)
    table = np.array([span for spans in texts for span in spans], dtype=np.int64).reshape(-1, 3)
    own = np.repeat(np.arange(len(texts)), counts)
    fields = np.where(table[:, 0] < 0, -1, 2 * own + table[:, 0])
    return _Places(
        fields, table[:, 1], table[:, 2], np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
    )


def _in_order(ids: Longs, owners: Longs, units: int) -> tuple[Ints, Ints]:
    """The tokens that have an owner, owner by owner, and an unknown one for each unit that owns none."""
    bare = np.flatnonzero(np.bincount(owners[owners >= 0], minlength=units) == 0)
    numbers = np.concatenate([ids[owners >= 0] + UNKNOWN + 1, np.full(len(bare), UNKNOWN)])
    owners = np.concatenate([owners[owners >= 0], bare])
    order = np.argsort(owners, kind="stable")
    return numbers[order].astype(np.int32), owners[order].astype(np.int32)
