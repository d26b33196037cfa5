"""What a plain function is called with: whole examples and variants of them, of texts here."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

import numpy as np

from didact.errors import InputError, ParameterError
from didact.models.tokens.replacements import word_pool
from didact.ops.masking import KINDS, Absence, draws
from didact.ops.units import word_spans
from didact.types import Example, Keep, Level, Units

TEXTS = (
    "A warm and funny film with a wonderful cast.",
    "The plot is dull and the acting is worse; avoid it.",
    "Shares fell after the bank reported a loss of $3.2 billion.",
    "The team won the final in extra time.",
    "Not bad, but not good either.",
    "Das Essen war kalt und der Service langsam.",
    "Is this the 42nd or the 7th?",
    "no",
)


class FunctionInputs(Protocol):
    """One kind of input of plain functions.

    A variant is anything hashable that stands for one input, so that equal ones are evaluated once; ``made`` turns it
    into what the function gets when its turn has come.
    """

    @property
    def kind(self) -> str:
        """What a function takes: "text" or "image"."""
        ...

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels of units, the default first."""
        ...

    @property
    def default_absence(self) -> str:
        """The operator used when none is named."""
        ...

    @property
    def trial(self) -> Hashable:
        """An input that every function should take, to count its labels."""
        ...

    @property
    def probes(self) -> tuple[Hashable, ...]:
        """Inputs whose answers are part of a function's identity."""
        ...

    def fresh(self) -> Hashable:
        """An input that no function has seen before."""
        ...

    def whole(self, example: Example) -> Hashable:
        """A whole example, refused where it is of another kind."""
        ...

    def units(self, example: Example, level: Level) -> Units:
        """What gets a score."""
        ...

    def absence(self, name: str) -> Absence:
        """The operator of this name; refused where it cannot be shown here."""
        ...

    def variants(self, units: Units, operator: Absence, keep: Keep) -> Iterator[Hashable]:
        """The example under each keep mask."""
        ...

    def made(self, variant: Hashable) -> object:
        """What the function gets."""
        ...

    def size(self, variant: Hashable) -> int:
        """Bytes of memory that ``made`` adds to those of the variant."""
        ...

    def preview(self, variant: Hashable) -> str:
        """An input in a message."""
        ...


class TextInputs:
    """Texts: a variant is the rewritten text itself."""

    kind = "text"
    levels: tuple[Level, ...] = ("word",)
    default_absence = "delete"
    trial = "a short probe"
    probes = TEXTS

    def fresh(self) -> str:
        """A text that was never seen."""
        return f"A text that was never seen: {secrets.token_hex(8)}."

    def whole(self, example: Example) -> str:
        """The text."""
        if len(example.fields) > 1:
            raise InputError("a predict function takes single texts, but a pair was given")
        return example.text

    def units(self, example: Example, level: Level) -> Units:
        """The words; a function shows no tokens."""
        text = self.whole(example)
        spans = word_spans(text)
        if not spans:
            raise InputError(f"there is no word to explain in {text!r:.80}")
        return Units(example, level, tuple(spans))

    def absence(self, name: str) -> Absence:
        """By rewriting the text."""
        operator = Absence.parse(name, KINDS)
        if operator.kind not in ("delete", "token", "sample"):
            raise ParameterError(
                "a predict function sees only text; use the perturbation absence='delete', 'token:X' or 'sample:SEED', "
                f"not {name!r}"
            )
        return operator

    def variants(self, units: Units, operator: Absence, keep: Keep) -> Iterator[str]:
        """Texts with absent units replaced; a deleted unit takes the blanks before it along."""
        text = units.example.text
        ends = [0, *(span.end for span in units.spans)]
        gaps = [text[end : span.start] for end, span in zip(ends, units.spans, strict=False)]
        pieces = [text[end : span.end] for end, span in zip(ends, units.spans, strict=False)]  # with the gaps before
        for kept, words in zip(keep.tolist(), _replacements(units, operator, len(keep)), strict=True):
            if words is None:
                shown = "".join(itertools.compress(pieces, kept))
            else:
                shown = "".join(
                    piece if own else gap + word
                    for piece, own, gap, word in zip(pieces, kept, gaps, words, strict=True)
                )
            yield text if all(kept) else (shown + text[ends[-1] :]).strip()

    def made(self, variant: Hashable) -> object:
        """The text itself."""
        return variant

    def size(self, variant: Hashable) -> int:
        """A text is there already."""
        return 0

    def preview(self, variant: Hashable) -> str:
        """How it begins."""
        return f"{variant!r:.60}"


def _replacements(units: Units, operator: Absence, rows: int) -> Iterator[Sequence[str] | None]:
    """What stands for each unit when it is absent, variant by variant; None takes absent units out."""
    if operator.kind == "sample":
        pool = word_pool(operator.token)
        for row in draws(operator, units.example, np.arange(rows), len(units), len(pool)):
            yield [pool[i] for i in row]
    else:
        words = None if operator.token is None else [operator.token] * len(units)
        yield from itertools.repeat(words, rows)
