"""Tokenises examples and says which characters each token stands for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.ops.units import TokenSpan, group_words
from didact.types import Example, Level, Span, Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ints = NDArray[np.int64]

RECENT = 1 << 17
"""Tokens of the encodings kept: those of the examples at work, which are asked for at every step of an explanation."""
TOGETHER = 1024
"""Examples that are tokenised in one call."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """One tokenised example.

    Attributes:
        ids: token ids, special tokens included.
        types: segment ids, or None where the model has none.
        tokens: characters of each position, None for special tokens.
    """

    ids: Ints
    types: Ints | None
    tokens: tuple[TokenSpan | None, ...]


class Encoder:
    """A fast tokenizer with a length limit; leaves the tokenizer's own settings as they are."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, limit: int | None, max_truncated: float) -> None:
        self.tokenizer = tokenizer
        self.limit = limit
        self.max_truncated = max_truncated
        self._recent: dict[tuple[str, ...], Encoding] = {}
        self._kept = 0  # tokens of the recent ones

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Tokenise examples, those that were not just now."""
        unknown = {one.texts: one for one in examples if one.texts not in self._recent}
        made = dict(zip(unknown, self._afresh(list(unknown.values())), strict=True))
        found = [made.get(one.texts) or self._recent[one.texts] for one in examples]
        self._keep(made)
        return found

    def units(self, examples: Sequence[Example], level: Level) -> list[Units]:
        """Words or tokens of each example, tokenised afresh."""
        codes = self._afresh(examples)
        self._keep({one.texts: code for one, code in zip(examples, codes, strict=True)})
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
        found: dict[int, Encoding] = {}
        single = [number for number, one in enumerate(examples) if one.text_pair is None]
        double = [number for number, one in enumerate(examples) if one.text_pair is not None]
        for numbers in (single, double):
            for start in range(0, len(numbers), TOGETHER):
                some = numbers[start : start + TOGETHER]
                found |= zip(some, self._encode([examples[number] for number in some]), strict=True)
        return [found[number] for number in range(len(examples))]

    def _encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Tokenise single texts, or pairs, in one call; nothing is padded."""
        pairs = [one.text_pair for one in examples if one.text_pair is not None]
        with settings_kept(self.tokenizer):
            batch = self.tokenizer(
                [one.text for one in examples],
                pairs or None,
                truncation=self.limit is not None,
                max_length=self.limit,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        typed = "token_type_ids" in self.tokenizer.model_input_names
        return [
            Encoding(
                np.array(one.ids),
                np.array(one.type_ids) if typed else None,
                tuple(
                    None if special or field is None else (field, start, end)
                    for field, (start, end), special in zip(
                        one.sequence_ids, one.offsets, one.special_tokens_mask, strict=True
                    )
                ),
            )
            for one in batch.encodings or ()
        ]

    def _units(self, example: Example, code: Encoding, level: Level) -> Units:
        if level == "word":
            spans, positions = group_words(example.texts, code.tokens)
        else:
            found = [(i, token) for i, token in enumerate(code.tokens) if token is not None and token[2] > token[1]]
            spans = [Span(start, end, field) for _, (field, start, end) in found]
            positions = [[i] for i, _ in found]
        if not spans:
            raise InputError(f"the tokenizer finds no word to explain in {example.text!r:.80}")
        truncated = self._truncated(example, code)
        if truncated > self.max_truncated:
            self._refuse(example, truncated)
        return Units(example, level, tuple(spans), tuple(tuple(p) for p in positions), truncated)

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
def settings_kept(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """A call writes its padding and truncation into a fast tokenizer; put back what the user had there."""
    backend = tokenizer.backend_tokenizer
    padding, truncation = backend.padding, backend.truncation
    try:
        yield
    finally:
        if backend.padding != padding:
            backend.enable_padding(**padding) if padding else backend.no_padding()
        if backend.truncation != truncation:
            backend.enable_truncation(**truncation) if truncation else backend.no_truncation()


def _solid(text: str) -> int:
    return len("".join(text.split()))
