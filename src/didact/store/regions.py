"""Fields that are not texts and regions that are not spans, as JSON text in columns of their own.

Patches are the same in every image, and an image is the same in every explanation of it: columns that number their
values hold each once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from didact.types import Example, Field, Image, Region, Span, plain_regions, read_regions
from didact.validation import list_value, object_value, parse_json, text_value

Regions = tuple[Region, ...]


def is_plain(example: Example) -> bool:
    """Whether an example is a text or a pair of texts, which have columns of their own."""
    return len(example.fields) in (1, 2) and example.is_textual


def spans_of(regions: Sequence[Region]) -> tuple[Span, ...]:
    """The regions where all are spans; none of them otherwise."""
    spans = tuple(region for region in regions if isinstance(region, Span))
    return spans if len(spans) == len(regions) else ()


def plain_parts(regions: Sequence[Region]) -> str | None:
    """Regions as JSON where they are not all spans; None otherwise."""
    return None if len(spans_of(regions)) == len(regions) else json.dumps(plain_regions(regions))


def read_parts(text: str | None, spans: tuple[Span, ...], name: str) -> Regions:
    """Inverse of ``plain_parts``; the spans where nothing is written."""
    return spans if text is None else read_regions(parse_json(text, name), name)


def plain_lists(several: Sequence[Sequence[Region]]) -> str | None:
    """Regions of each annotator as JSON where they are not all spans; None otherwise."""
    if all(plain_parts(regions) is None for regions in several):
        return None
    return json.dumps([plain_regions(regions) for regions in several])


def read_lists(text: str | None, spans: tuple[tuple[Span, ...], ...]) -> tuple[Regions, ...]:
    """Inverse of ``plain_lists``."""
    if text is None:
        return spans
    return tuple(read_regions(own, "annotators") for own in list_value(parse_json(text, "annotators"), "annotators"))


def plain_fields(example: Example) -> str | None:
    """The fields as JSON where they are more than one or two texts; None otherwise."""
    if is_plain(example):
        return None
    return json.dumps([field if isinstance(field, str) else field.to_dict() for field in example.fields])


def row_fields(row: Mapping[str, str | None]) -> tuple[Field, ...]:
    """The fields of an example from the columns ``fields``, ``text`` and ``text_pair`` of its row."""
    written = row.get("fields")
    if written is None:
        return tuple(text for text in (row["text"], row["text_pair"]) if text is not None)
    return tuple(_read_field(field) for field in list_value(parse_json(written, "fields"), "fields"))


def _read_field(plain: object) -> Field:
    return text_value(plain, "a text") if isinstance(plain, str) else Image.from_dict(object_value(plain, "an image"))
