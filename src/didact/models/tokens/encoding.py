"""Tokenises examples, with the characters that each token stands for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError, ModelError
from didact.models.exclusive import exclusive
from didact.ops.units import WORDS, TokenSpan, group_words
from didact.types import Example, Level, Span, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ints = NDArray[np.int64]

RECENT = 1 << 17
"""Tokens of the encodings kept: those of the examples at work, which every step of an explanation needs again."""
TOGETHER = 1024
"""Examples that are tokenised in one call."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """One tokenised example.

    Attributes:
        ids: token ids, special tokens included.
        types: segment ids, or None where the model has none.
        tokens: characters of each position, None for special tokens.
        windows: number of the pass in which each position is read, from 0; None where readers know one pass alone.
        texts: the fields as written.
    """

    ids: Ints
    types: Ints | None
    tokens: tuple[TokenSpan | None, ...]
    windows: Ints | None = None
    texts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def words(self) -> tuple[list[Span], list[list[int]]]:
        """The words of the texts, and the positions of each."""
        return group_words(self.texts, self.tokens)

    @cached_property
    def fields(self) -> Ints:
        """Per position the field that it belongs to, -1 for special tokens."""
        return np.array([-1 if token is None else token[0] for token in self.tokens], dtype=np.int64)

    @cached_property
    def passes(self) -> Ints:
        """Per position the number of its pass; all 0 where there is one."""
        return np.zeros(len(self), dtype=np.int64) if self.windows is None else self.windows

    @cached_property
    def steps(self) -> Ints:
        """Per position its place in its own pass."""
        first = np.searchsorted(self.passes, self.passes)
        return np.arange(len(self), dtype=np.int64) - first


class Encoder:
    """A fast tokenizer with a length limit; leaves the tokenizer's own settings as they are.

    Args:
        tokenizer: of the network that is fed.
        limit: length in tokens.
        max_truncated: largest share of a text that the limit may cut off.
        typed: whether the network takes the segment ids that the tokenizer may make.

    Attributes:
        cuts: whether the tokenizer itself cuts texts at the limit.
    """

    cuts = True

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, limit: int | None, max_truncated: float, *, typed: bool = True
    ) -> None:
        self.tokenizer = tokenizer
        self.typed = typed and "token_type_ids" in tokenizer.model_input_names
        self.limit = limit
        self.max_truncated = max_truncated
        self._recent: dict[tuple[str, ...], Encoding] = {}
        self._kept = 0  # tokens of the recent ones

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Tokenise examples, except those that were tokenised just before."""
        with exclusive(self.tokenizer):
            new = {example.texts: example for example in examples if example.texts not in self._recent}
            made = dict(zip(new, self._afresh(list(new.values())), strict=True))
            texts = [example.texts for example in examples]
            codes = [made[key] if key in made else self._recent[key] for key in texts]
            self._keep(made)
        return codes

    def units(self, examples: Sequence[Example], level: Level) -> list[Units]:
        """Words or tokens of each example, tokenised afresh."""
        with exclusive(self.tokenizer):
            codes = self._afresh(examples)
            self._keep({example.texts: code for example, code in zip(examples, codes, strict=True)})
        return [self._units(example, code, level) for example, code in zip(examples, codes, strict=True)]

    def _keep(self, made: Mapping[tuple[str, ...], Encoding]) -> None:
        """Remember the last encodings made, as many as there is room for."""
        for fields, code in made.items():
            if self._kept + len(code.ids) > RECENT:
                self._recent.clear()
                self._kept = 0
            if fields not in self._recent:
                self._kept += len(code.ids)
            self._recent[fields] = code

    def _afresh(self, examples: Sequence[Example]) -> list[Encoding]:
        codes: dict[int, Encoding] = {}
        single = [number for number, example in enumerate(examples) if example.text_pair is None]
        double = [number for number, example in enumerate(examples) if example.text_pair is not None]
        for numbers in (single, double):
            for start in range(0, len(numbers), TOGETHER):
                some = numbers[start : start + TOGETHER]
                codes |= zip(some, self._encode([examples[number] for number in some]), strict=True)
        return [codes[number] for number in range(len(examples))]

    def _encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Tokenise single texts, or pairs, in one call; nothing is padded."""
        pairs = [example.text_pair for example in examples if example.text_pair is not None]
        with settings_kept(self.tokenizer), _damage_named():
            batch = self.tokenizer(
                [example.text for example in examples],
                pairs or None,
                truncation=self.cuts and self.limit is not None,
                max_length=self.limit,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        return [
            Encoding(
                np.array(row.ids),
                np.array(row.type_ids) if self.typed else None,
                tuple(
                    None if special or field is None else (field, start, end)
                    for field, (start, end), special in zip(
                        row.sequence_ids, row.offsets, row.special_tokens_mask, strict=True
                    )
                ),
                texts=example.texts,
            )
            for row, example in zip(batch.encodings or (), examples, strict=True)
        ]

    def _grouped(self, example: Example, code: Encoding, level: Level) -> tuple[list[Span], list[list[int]]]:
        """Units of a level and the positions of each."""
        if level in WORDS:
            return group_words(example.texts, code.tokens, level)
        written = [(i, token) for i, token in enumerate(code.tokens) if token is not None and token[2] > token[1]]
        return [Span(start, end, field) for _, (field, start, end) in written], [[i] for i, _ in written]

    def _units(self, example: Example, code: Encoding, level: Level) -> Units:
        spans, positions = self._grouped(example, code, level)
        if not spans:
            raise InputError(f"the tokenizer finds no word to explain in {example.text!r:.80}")
        truncated = self._truncated(example, code)
        if truncated > self.max_truncated:
            self._refuse(example, truncated)
        covered = tuple(tuple(p) for p in positions)
        return Units(example, level, tuple(spans), covered, truncated, self._unknown(code))

    def _unknown(self, code: Encoding) -> float:
        """Share of the text's tokens that stand for something that the vocabulary does not have."""
        own = [int(index) for index, token in zip(code.ids, code.tokens, strict=True) if token is not None]
        unknown = self.tokenizer.unk_token_id
        return own.count(unknown) / len(own) if unknown is not None and own else 0.0

    def _truncated(self, example: Example, code: Encoding) -> float:
        """Share of the non-blank characters that no token stands for because the length limit cut them off."""
        if self.limit is None or len(code.ids) < self.limit:
            return 0.0
        lost = total = 0
        for field, text in enumerate(example.texts):
            seen = [token for token in code.tokens if token is not None and token[0] == field]
            first = min((token[1] for token in seen), default=0)
            last = max((token[2] for token in seen), default=0)
            total += _solid(text)
            lost += _solid(text[:first]) + _solid(text[last:])
        return lost / total

    def _refuse(self, example: Example, truncated: float) -> None:
        size = sum(len(text) for text in example.texts)
        raise InputError(
            f"the text has {size:,} characters, but the model's limit of {self.limit} tokens cuts off "
            f"{truncated:.0%} of them, so an explanation would not explain the text; shorten or split it, or allow "
            f"the cut with max_truncated=1 (command line: --truncate)"
        )


@contextlib.contextmanager
def _damage_named() -> Iterator[None]:
    """A tokenizer whose rules contradict each other stops with a panic, which is no ``Exception``."""
    try:
        yield
    except BaseException as problem:
        if type(problem).__module__ != "pyo3_runtime":
            raise
        raise ModelError(f"the tokenizer cannot read the text ({problem}); is its tokenizer.json damaged?") from None


@contextlib.contextmanager
def settings_kept(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """A call writes its padding and truncation into a fast tokenizer; put back what the user had there."""
    backend = tokenizer.backend_tokenizer
    with exclusive(tokenizer):
        padding, truncation = backend.padding, backend.truncation
        try:
            yield
        finally:
            if backend.padding != padding:
                backend.enable_padding(**padding) if padding else backend.no_padding()
            if backend.truncation != truncation:
                backend.enable_truncation(**truncation) if truncation else backend.no_truncation()


def length_limit(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, given: int | None) -> int | None:
    """The smallest of the given, the tokenizer's and the position table's limits; None where there is none."""
    limits = [given, tokenizer.model_max_length if tokenizer.model_max_length < 1_000_000 else None]
    table = getattr(network.config, "max_position_embeddings", None)
    if isinstance(table, int) and table > 0:
        # RoBERTa and its kin count positions from behind the number of padding.
        padding = getattr(getattr(network.base_model, "embeddings", None), "padding_idx", None)
        limits.append(table if padding is None else table - (padding + 1))
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _solid(text: str) -> int:
    return len("".join(text.split()))
