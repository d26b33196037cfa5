"""Tokenises texts inside a prompt: the prompt's tokens are there, and stand for no characters of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from didact.errors import InputError, ModelError
from didact.models.prompting.written import WrittenPrompt
from didact.models.tokens.encoding import Encoder, Encoding, settings_kept
from didact.types import Example, Level, Span, Units

if TYPE_CHECKING:
    from tokenizers import Encoding as Row
    from transformers import PreTrainedTokenizerBase

SHOT = "shot"
"""The level on which each shot of the prompt is a unit."""


class PromptEncoder(Encoder):
    """Tokenises prompt and text as one string, as the model would be called, and cuts a long text, never the prompt.

    Args:
        tokenizer: of the network that is fed.
        written: the prompt.
        shots: the shots as texts, for units that are shots.
        limit: length in tokens, the prompt's included.
        max_truncated: largest share of a text that the limit may cut off.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        written: WrittenPrompt,
        shots: Sequence[str],
        limit: int | None,
        max_truncated: float,
    ) -> None:
        super().__init__(tokenizer, limit, max_truncated, typed=False)
        self.written = written
        self.shots = tuple(shots)

    def spelled(self, example: Example) -> Example:
        """The example with the shots as further fields, so that a region can point to them."""
        return Example(
            fields=(example.text, *self.shots),
            label=example.label,
            rationale=example.rationale,
            id=example.id,
            annotators=example.annotators,
        )

    def continuation(self, word: str) -> list[int]:
        """Token ids of a word behind the prompt: what it adds to the ids of the prompt's end."""
        end = self.written.after
        with settings_kept(self.tokenizer):
            whole, before, alone = (
                list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
                for text in (end + word, end, word)
            )
        ids = whole[len(before) :] if whole[: len(before)] == before else alone
        if not ids:
            raise ModelError(f"the tokenizer has no token for the label words {word!r}")
        return ids

    def _encode(self, examples: Sequence[Example]) -> list[Encoding]:
        written = self.written
        with settings_kept(self.tokenizer):
            batch = self.tokenizer(
                [written.before + example.text + written.after for example in examples],
                add_special_tokens=written.special,
                truncation=False,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        rows = zip(examples, batch.encodings or (), strict=True)
        return [self._cut(self._encoding(row, len(example.text)), example) for example, row in rows]

    def _encoding(self, row: Row, size: int) -> Encoding:
        """Ids up to the last token that was written, and the characters of the text that each token shows."""
        behind = 1 + max(place for place, special in enumerate(row.special_tokens_mask) if not special)
        start = len(self.written.before)
        clipped = [(max(begin - start, 0), min(end - start, size)) for begin, end in row.offsets[:behind]]
        tokens = [(0, begin, end) if begin < end else None for begin, end in clipped]
        return Encoding(np.array(row.ids[:behind]), None, tuple(tokens))

    def _cut(self, code: Encoding, example: Example) -> Encoding:
        """The same without the text's last tokens, where prompt and text are longer than the limit."""
        surplus = 0 if self.limit is None else len(code) - self.limit
        if surplus <= 0:
            return code
        own = [place for place, token in enumerate(code.tokens) if token is not None]
        if surplus >= len(own):
            raise InputError(
                f"the prompt alone has {len(code) - len(own)} tokens, and the model's limit is {self.limit}, so no "
                f"word of the text {example.preview} fits; shorten the prompt or take out shots"
            )
        left = np.delete(np.arange(len(code)), own[-surplus:])
        return Encoding(code.ids[left], None, tuple(code.tokens[place] for place in left))

    def _units(self, example: Example, code: Encoding, level: Level) -> Units:
        if level != SHOT:
            return super()._units(example, code, level)
        offsets = self._prompt_offsets()
        positions = [
            tuple(place for place, (begin, end) in enumerate(offsets) if begin < last and first < end)
            for first, last in self.written.shots
        ]
        regions = tuple(Span(0, len(shot), number) for number, shot in enumerate(self.shots, 1))
        return Units(self.spelled(example), level, regions, tuple(positions), self._truncated(example, code))

    def _prompt_offsets(self) -> list[tuple[int, int]]:
        """Characters of the tokens before the text; a blank at a token's beginning is not counted."""
        written = self.written
        with settings_kept(self.tokenizer):
            whole = written.before + "a" + written.after
            batch = self.tokenizer([whole], add_special_tokens=written.special, verbose=False)
        row = (batch.encodings or [])[0]
        before = [(begin, end) for begin, end in row.offsets if end <= len(written.before)]
        return [(end - len(whole[begin:end].lstrip()), end) for begin, end in before]

    def _truncated(self, example: Example, code: Encoding) -> float:
        return super()._truncated(Example(example.text), code)
