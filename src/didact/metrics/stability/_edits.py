"""Edits that keep a text's meaning, and which words before and after belong together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from didact.metrics._words import Words
from didact.types import Example, Floats, Region, Span

Kind = Literal["case", "punctuation", "blanks", "contractions", "synonyms"]
Change = tuple[int, int, str]
"""Characters from start to end of a text, and what stands there instead."""

# Neutral words only, and pairs that go with the same article: evidence itself is never swapped.
SYNONYMS = {
    "anybody": "anyone",
    "begin": "start",
    "begins": "starts",
    "children": "kids",
    "completely": "totally",
    "everybody": "everyone",
    "film": "movie",
    "films": "movies",
    "maybe": "perhaps",
    "really": "truly",
    "somebody": "someone",
    "television": "tv",
    "though": "although",
    "toward": "towards",
    "until": "till",
}
_BOTH_WAYS = SYNONYMS | {other: word for word, other in SYNONYMS.items()}
_SYNONYM = re.compile(rf"(?<![\w'’-])(?:{'|'.join(_BOTH_WAYS)})(?![\w'’-])", re.IGNORECASE)
_NOT = re.compile(
    r"(?<![\w'’-])(?:do|does|did|is|was|are|were|could|would|should|have|has|had)(\s?)(n['’]t)(?![\w'’-])",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?<![\w'’-])(?:I|you|we|they)(['’](?:m|re|ve|ll))(?![\w'’-])", re.IGNORECASE)
_VERBS = {"m": " am", "re": " are", "ve": " have", "ll": " will"}


@dataclass(frozen=True, eq=False)
class Edited:
    """An edited example and what was changed in each of its texts."""

    example: Example
    changes: tuple[tuple[Change, ...], ...]

    def moved(self, span: Span) -> Span:
        """Where the characters of a span are now; empty where they are gone."""
        changes = self.changes[span.field]
        return Span(_moved(span.start, changes, False), _moved(span.end, changes, True), span.field)

    def moved_all(self, regions: Sequence[Region]) -> tuple[Region, ...]:
        """The same for marked regions; there are spans alone, since texts are edited."""
        return tuple(self.moved(region) if isinstance(region, Span) else region for region in regions)


def edited(example: Example, kind: Kind) -> Edited | None:
    """The example with one kind of edit made wherever it applies; None where it applies nowhere."""
    changes = tuple(tuple(_RULES[kind](text)) for text in example.texts)
    texts = [_apply(text, own) for text, own in zip(example.texts, changes, strict=True)]
    if tuple(texts) == example.fields or not all(text.strip() for text in texts):
        return None
    unmarked = replace(example, fields=tuple(texts))
    edit = Edited(unmarked, changes)
    marked = replace(
        unmarked,
        rationale=None if example.rationale is None else edit.moved_all(example.rationale),
        annotators=tuple(edit.moved_all(marked) for marked in example.annotators),
    )
    return replace(edit, example=marked)


def matched(before: Words, after: Words, edit: Edited) -> tuple[Floats, Floats]:
    """Scores before and after of what is in both texts.

    A word stands against the word in its place. Where several words took the place of one, or one that of several,
    their scores are summed. Words that came in or went out are left out.
    """
    old = [(edit.moved(span), score, 0) for span, score in zip(before.spans, before.scores, strict=True)]
    new = [(span, score, 1) for span, score in zip(after.spans, after.scores, strict=True)]
    clusters: list[tuple[list[float], list[float]]] = []
    field, end = -1, -1
    for span, score, side in sorted(old + new, key=lambda item: (item[0].field, item[0].start, item[0].end, item[2])):
        if span.start == span.end:
            continue
        if span.field != field or span.start >= end:
            clusters.append(([], []))
            field, end = span.field, span.end
        clusters[-1][side].append(float(score))
        end = max(end, span.end)
    both = [(sum(a), sum(b)) for a, b in clusters if a and b]
    return np.array([a for a, _ in both]), np.array([b for _, b in both])


def _case(text: str) -> Iterator[Change]:
    """The first letter in the other case, unless its word is "I" or written in capitals."""
    word = re.search(r"[^\W\d_]+", text)
    if word and (word[0].islower() or (word[0].istitle() and word[0] != "I")):
        yield word.start(), word.start() + 1, word[0][0].swapcase()


def _punctuation(text: str) -> Iterator[Change]:
    """The full stop at the end taken away, or put there where the text ends in a letter or digit."""
    end = len(text.rstrip())
    if end and text[end - 1].isalnum():
        yield end, end, "."
    elif re.search(r"[\w)\"']\s*\.$", text[:end]):
        yield len(text[: end - 1].rstrip()), end, ""


def _blanks(text: str) -> Iterator[Change]:
    """Single blanks between words doubled."""
    for blank in re.finditer(r"(?<=\S) (?=\S)", text):
        yield blank.start(), blank.end(), "  "


def _contractions(text: str) -> Iterator[Change]:
    """Contractions written out: "don't" and "do n't" as "do not", "we're" as "we are"."""
    changes = [(m.start(2), m.end(2), "not" if m[1] else " not") for m in _NOT.finditer(text)]
    changes += [(m.start(1), m.end(1), _VERBS[m[1][1:].lower()]) for m in _VERB.finditer(text)]
    yield from sorted(changes)


def _synonyms(text: str) -> Iterator[Change]:
    """Listed neutral words swapped for their synonym, in the same case."""
    for word in _SYNONYM.finditer(text):
        other = _BOTH_WAYS[word[0].lower()]
        same = other.upper() if word[0].isupper() else other.capitalize() if word[0][0].isupper() else other
        yield word.start(), word.end(), same


_RULES: dict[Kind, Callable[[str], Iterator[Change]]] = {
    "case": _case,
    "punctuation": _punctuation,
    "blanks": _blanks,
    "contractions": _contractions,
    "synonyms": _synonyms,
}
KINDS: tuple[Kind, ...] = tuple(_RULES)


def _apply(text: str, changes: Sequence[Change]) -> str:
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def _moved(position: int, changes: Sequence[Change], is_end: bool) -> int:
    """A border's new place; inside a changed stretch it goes to that stretch's own border."""
    shift = 0
    for start, end, new in changes:
        if position <= start:
            break
        if position < end:
            return start + shift + (len(new) if is_end else 0)
        shift += len(new) - (end - start)
    return position + shift
