"""Human rationales as people store them: character spans, token masks, quoted passages, several annotators."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import TypeGuard

from didact.data.alignment import align
from didact.errors import FormatError
from didact.types import Example, Span
from didact.validation import parse_json

FORMS = (
    "a list of [start, end] or [start, end, field], a list of links [[start, end], [start, end]] from the text to its "
    "pair, a list of 0 and 1 for each token, or a list of quoted passages"
)


def read_rationale(value: object, example: Example, tokens: Sequence[str] | None = None) -> tuple[Span, ...]:
    """The spans that one person marked.

    Args:
        value: spans (numbers of characters), links of a span of the text with one of its pair, a mask with one 0 or 1
            per token, or passages as they stand in the text; or any of these as JSON text, as in a CSV cell.
        example: the texts it is about; a mask of a pair goes on from the first text to the second.
        tokens: the tokens a mask counts; words between blanks unless given.
    """
    if isinstance(value, str):
        value = _from_cell(value)
    if not isinstance(value, Sequence):
        raise FormatError(f"must be {FORMS}; got {type(value).__name__}")
    if all(isinstance(part, str) for part in value):
        return tuple(_passage(part, example) for part in value)
    if all(isinstance(part, Sequence) for part in value):
        return tuple(
            span for part in value for span in (read_link(part, example) if _is_link(part) else (_span(part, example),))
        )
    return _from_mask(value, example, tokens)


def read_link(part: object, example: Example) -> tuple[Span, Span]:
    """A phrase of the text and one of its pair that belong together."""
    if not _is_link(part):
        raise FormatError(f"a link is [[start, end], [start, end]], in the text and in its pair; got {part!r:.60}")
    first, second = part
    return _span([*first, 0], example), _span([*second, 1], example)


def read_annotators(
    value: object, example: Example, tokens: Sequence[str] | None = None
) -> tuple[tuple[Span, ...], ...]:
    """What each of several people marked, each as ``read_rationale`` takes it."""
    if isinstance(value, str):
        value = _from_cell(value)
    if not isinstance(value, Sequence):
        raise FormatError(f"must be a list with one rationale per annotator, each {FORMS}; got {type(value).__name__}")
    rationales = []
    for number, marked in enumerate(value):
        try:
            rationales.append(read_rationale(marked, example, tokens))
        except FormatError as problem:
            raise FormatError(f"annotator {number}: {problem}") from None
    return tuple(rationales)


def majority(annotators: Sequence[Sequence[Span]]) -> tuple[Span, ...]:
    """The characters that at least half of the annotators marked: for two of them the union, for three any two."""
    changes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))  # field -> character -> votes gained
    for marked in annotators:
        for span in _merged(marked):
            changes[span.field][span.start] += 1
            changes[span.field][span.end] -= 1
    agreed: list[Span] = []
    for field, votes in sorted(changes.items()):
        count, start = 0, None
        for character, gained in sorted(votes.items()):
            count += gained
            if 2 * count >= len(annotators) and start is None:
                start = character
            elif 2 * count < len(annotators) and start is not None:
                agreed.append(Span(start, character, field))
                start = None
    return tuple(agreed)


def _from_cell(text: str) -> object:
    try:
        return parse_json(text)
    except FormatError:
        raise FormatError(f"must be {FORMS}, as JSON where it is text; got {text!r:.60}") from None


def _is_link(part: object) -> TypeGuard[Sequence[Sequence[object]]]:
    return _is_list(part) and len(part) == 2 and all(_is_list(end) and len(end) == 2 for end in part)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _span(part: Sequence[object], example: Example) -> Span:
    if len(part) not in (2, 3) or not all(isinstance(n, int) and not isinstance(n, bool) for n in part):
        hint = "; masks of several annotators go into the field 'annotators'" if len(part) > 3 else ""
        raise FormatError(f"a span is [start, end] or [start, end, field], all whole, got {list(part)!r:.60}{hint}")
    span = Span(*part)  # type: ignore[arg-type]
    if not 0 <= span.field < len(example.texts):
        raise FormatError(f"span {list(part)} is in field {span.field}, but there are {len(example.texts)} (from 0)")
    size = len(example.texts[span.field])
    if not 0 <= span.start < span.end <= size:
        raise FormatError(f"span {list(part)} does not lie in the text, which has {size} characters")
    return span


def _from_mask(mask: Sequence[object], example: Example, tokens: Sequence[str] | None) -> tuple[Span, ...]:
    if not all(isinstance(mark, int | float) and mark in (0, 1) for mark in mask):
        raise FormatError(f"must be {FORMS}; got {list(mask)!r:.60}")
    places = _words(example) if tokens is None else align(example, tokens)
    if len(mask) != len(places):
        counted = "words between blanks" if tokens is None else "tokens"
        raise FormatError(f"the mask has {len(mask)} entries for {len(places)} {counted}")
    # One span per run of marked tokens of a field; special tokens have no place and carry no mark.
    marks = [(span, bool(mark)) for span, mark in zip(places, mask, strict=True) if span is not None]
    runs = groupby(marks, key=lambda pair: (pair[0].field, pair[1]))
    marked_spans = []
    for (field, marked), run in runs:
        spans = [span for span, _ in run]
        if marked:
            marked_spans.append(Span(spans[0].start, spans[-1].end, field))
    return tuple(marked_spans)


def _words(example: Example) -> list[Span | None]:
    return [Span(*word.span(), field) for field, text in enumerate(example.texts) for word in re.finditer(r"\S+", text)]


def _passage(passage: str, example: Example) -> Span:
    """The first place where a passage stands; any blank stands for any other."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in passage.split()))
    for field, text in enumerate(example.texts):
        match = pattern.search(text) if passage.strip() else None
        if match is not None:
            return Span(*match.span(), field)
    raise FormatError(f"the passage {passage!r:.60} does not stand in the text")


def _merged(spans: Sequence[Span]) -> list[Span]:
    """The same characters without overlaps, so that an annotator votes once."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.field, span.start, span.end)):
        last = merged[-1] if merged else None
        if last is not None and last.field == span.field and span.start <= last.end:
            merged[-1] = Span(last.start, max(last.end, span.end), span.field)
        else:
            merged.append(span)
    return merged
