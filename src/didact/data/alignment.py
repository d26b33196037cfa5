"""Finds tokens in the text they were cut from, where their character offsets are not known."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from didact.errors import FormatError
from didact.types import Example, Span

_MARKS = ("##", "\u0120", "\u2581", "\u010a")
_SPECIAL = frozenset("[CLS] [SEP] [PAD] [MASK] <s> </s> <pad> <mask> <bos> <eos> <cls> <sep> <|endoftext|>".split())  # noqa: SIM905

Folded = list[tuple[str, int]]
"""Characters without case and accents, each with its place in the source."""


def align(example: Example, tokens: Sequence[str]) -> list[Span | None]:
    """Find tokens in the source, one after another; None for tokens that stand for no character (special tokens).

    Case, accents and the usual marks (``##``, ``Ġ``, ``▁``) do not matter. Nothing but blanks may be skipped: a token
    that is not where it should be is an error, since a guess would put scores on the wrong words.
    """
    fields = [_folded(text) for text in example.texts]
    spans: list[Span | None] = []
    number, cursor = 0, 0
    for place, token in enumerate(tokens):
        if _is_special(token, example):
            spans.append(None)
            continue
        while number < len(fields) and _blank_until_end(fields[number], cursor):
            number, cursor = number + 1, 0
        matched = _match(fields[number], cursor, token) if number < len(fields) else None
        if matched is None:
            rest = "" if number >= len(fields) else example.texts[number][_source(fields[number], cursor) :]
            raise FormatError(
                f"token {place} ({token!r}) does not stand at {rest!r:.40} of the text; give character offsets, "
                "or the text that was explained"
            )
        start, end = matched
        spans.append(Span(fields[number][start][1], fields[number][end - 1][1] + 1, number))
        cursor = end
    return spans


def joined(tokens: Sequence[str]) -> str:
    """The text that marked tokens spell: a word begins at a mark, and goes on where there is none."""
    regular = [token for token in tokens if token not in _SPECIAL]
    return "".join(regular).replace("\u0120", " ").replace("\u2581", " ").replace("\u010a", "\n").strip()


def _folded(text: str) -> Folded:
    return [
        (letter, place)
        for place, character in enumerate(text)
        for letter in unicodedata.normalize("NFKD", character).casefold()
        if not unicodedata.combining(letter)
    ]


def _plain(token: str) -> str:
    """A token without its marks, folded as the text is."""
    for mark in _MARKS:
        token = token.replace(mark, "") if len(mark) == 1 else token.removeprefix(mark)
    return "".join(letter for letter, _ in _folded(token.strip()))


def _match(field: Folded, cursor: int, token: str) -> tuple[int, int] | None:
    """Where the token stands, after nothing but blanks; with its marks taken off, or as it is written."""
    while cursor < len(field) and field[cursor][0].isspace():
        cursor += 1
    for wanted in (_plain(token), "".join(letter for letter, _ in _folded(token.strip()))):
        end = cursor + len(wanted)
        if wanted and "".join(letter for letter, _ in field[cursor:end]) == wanted:
            return cursor, end
    return None


def _is_special(token: str, example: Example) -> bool:
    """Whether a token stands for no character: only marks, or a special token that the text does not spell out."""
    return not _plain(token) or (token in _SPECIAL and not any(token in text for text in example.texts))


def _blank_until_end(field: Folded, cursor: int) -> bool:
    return all(letter.isspace() for letter, _ in field[cursor:])


def _source(field: Folded, cursor: int) -> int:
    return field[cursor][1] if cursor < len(field) else 0
