"""From the units of a text to the numbers of embeddings: a vocabulary of words, or the pieces of a tokenizer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from didact.errors import FormatError, ParameterError
from didact.models.encoding import Encoder, Encoding
from didact.types import Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ints = NDArray[np.int32]

PAD, UNKNOWN = 0, 1
"""Numbers that every reader keeps free: padding, and what has no number of its own."""


class Reader(ABC):
    """Gives the units of an example their numbers, and can be kept in a folder."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are, ``PAD`` and ``UNKNOWN`` included."""

    @abstractmethod
    def read(self, units: Units) -> tuple[Ints, Ints]:
        """Numbers (pieces,) in the order of the text, and the unit that each belongs to; every unit has a piece."""

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


class Vocabulary(Reader):
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

    def read(self, units: Units) -> tuple[Ints, Ints]:
        """One piece per unit."""
        numbers = [self._numbers.get(word, UNKNOWN) for word in _spelled(units, self.lower)]
        return np.array(numbers, dtype=np.int32), np.arange(len(units), dtype=np.int32)

    def vocabulary(self) -> Sequence[str]:
        """The words."""
        return self.words

    def save(self, folder: Path) -> None:
        """Write vocabulary.json."""
        text = json.dumps({"lower": self.lower, "words": self.words}, ensure_ascii=False, indent=0)
        (folder / "vocabulary.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read vocabulary.json."""
        path = folder / "vocabulary.json"
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return cls([str(word) for word in data["words"]], lower=bool(data["lower"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FormatError(f"{path} does not hold a vocabulary: {problem}") from None


class Pieces(Reader):
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

    def read(self, units: Units) -> tuple[Ints, Ints]:
        """The tokens of each unit, unit by unit."""
        (code,) = self._encoder.encode([units.example])
        owners = _by_position(units, code)
        if owners is None:
            owners = _by_characters(units, code)
        ids, owners = code.ids[owners >= 0] + UNKNOWN + 1, owners[owners >= 0]
        bare = np.setdiff1d(np.arange(len(units)), owners)
        ids = np.concatenate([ids, np.full(len(bare), UNKNOWN)])
        owners = np.concatenate([owners, bare])
        order = np.argsort(owners, kind="stable")
        return ids[order].astype(np.int32), owners[order].astype(np.int32)

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


READERS: dict[str, type[Reader]] = {reader.name: reader for reader in (Vocabulary, Pieces)}


def _spelled(units: Units, lower: bool) -> tuple[str, ...]:
    return tuple(text.lower() for text in units.texts) if lower else units.texts


def _by_position(units: Units, code: Encoding) -> NDArray[np.int64] | None:
    """Owners of tokens that are units themselves; None unless it is this tokenizer that found them.

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


def _by_characters(units: Units, code: Encoding) -> NDArray[np.int64]:
    """Per token the first unit that it shares a character with, or -1."""
    owners = np.full(len(code.ids), -1)
    for field in range(len(units.example.fields)):
        held = [number for number, span in enumerate(units.spans) if span.field == field]
        held.sort(key=lambda number: units.spans[number].end)
        starts = np.array([units.spans[number].start for number in held], dtype=np.int64)
        ends = np.array([units.spans[number].end for number in held], dtype=np.int64)
        for position, token in enumerate(code.tokens):
            if token is None or token[0] != field:
                continue
            first = int(np.searchsorted(ends, token[1], side="right"))
            if first < len(held) and starts[first] < token[2]:
                owners[position] = held[first]
    return owners
