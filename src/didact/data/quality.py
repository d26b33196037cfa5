"""Word tags of translation quality: OK or BAD for each word between blanks, of a text and of its pair.

The words tagged BAD are a rationale: they are what a person says is wrong with the translation, or, in the source, what
was translated wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from didact.data.rationales import read_rationale
from didact.errors import FormatError
from didact.types import Example, Span
from didact.validation import shown

MARKS = {"OK": 0, "BAD": 1}
"""Tag of a word -> whether it belongs to the rationale."""

Masks = list[list[int]]
"""Per annotator, whether each word is tagged BAD."""


def read_tags(value: object, example: Example, field: int) -> Masks:
    """The tags of one text.

    Args:
        value: a tag per word between blanks, as a list or as text; a list of such lists where several people tagged.
        example: the texts.
        field: which of them was tagged.
    """
    if field >= len(example.texts):
        raise FormatError("tags of a second text were given, but there is only one text")
    several = _is_list(value) and len(value) > 0 and all(_is_list(own) for own in value)
    people = value if _is_list(value) and several else [value]
    words = len(example.texts[field].split())
    return [_mask(own, words) for own in people]


def tagged_spans(sides: Sequence[Masks | None], example: Example) -> tuple[tuple[Span, ...], ...]:
    """Per annotator the words tagged BAD, neighbours as one span.

    Args:
        sides: what ``read_tags`` gives for each text; None where a text has no tags.
        example: the texts.
    """
    counts = [len(side) for side in sides if side is not None]
    if len(set(counts)) != 1:
        raise FormatError(f"{counts[0]} annotators tagged the text, but {counts[1]} its pair")
    untagged = [[0] * len(text.split()) for text in example.texts]
    return tuple(
        read_rationale(
            [
                mark
                for side, bare in zip(sides, untagged, strict=True)
                for mark in (bare if side is None else side[person])
            ],
            example,
        )
        for person in range(counts[0])
    )


def _mask(tags: object, words: int) -> list[int]:
    listed = tags.split() if isinstance(tags, str) else tags
    if not _is_list(listed):
        raise FormatError(f"must be a list of tags, OK or BAD, one per word between blanks; got {shown(tags)}")
    wrong = [tag for tag in listed if not isinstance(tag, str) or tag not in MARKS]
    if wrong:
        raise FormatError(f"a tag is OK or BAD, got {shown(wrong[0])}")
    if len(listed) != words:
        raise FormatError(f"there are {len(listed)} tags for {words} words between blanks; each word needs one tag")
    return [MARKS[str(tag)] for tag in listed]


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
