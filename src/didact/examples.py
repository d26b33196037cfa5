"""An example: what a model reads, with what people marked in it and what is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from didact.errors import FormatError, InputError
from didact.images import ArrayLike, Image, is_picture
from didact.regions import Box, Mask, Region, RegionT, Span, plain_regions, read_region, read_regions
from didact.validation import check_unicode, list_value, object_value, plain_value, shown, text_value

Field = str | Image
"""What an example is made of: texts and images."""

FieldLike = Field | Path | bytes | ArrayLike
"""What a user may pass as a field: a text as a string, an image as a path, bytes, an array or a PIL image."""

AnswerKind = Literal["class", "number", "span", "text"]
"""What a model predicts, a person marks as right, or a student imitates."""
ANSWER_KINDS: tuple[AnswerKind, ...] = ("class", "number", "span", "text")

Answer = str | int | float | Span | tuple[Span, ...]
"""One answer: a class by its name or number, a number, a span of a field (several where each is right), or a text."""


@dataclass(frozen=True, init=False)
class Example:
    """One thing to explain: a text, a pair of texts, an image, perhaps with a gold answer and a human rationale.

    >>> Example("A dull plot.", label="negative").text
    'A dull plot.'
    >>> Example("Who wrote it?", "Mary Shelley wrote it.", label=Span(0, 12, 1)).text_pair
    'Mary Shelley wrote it.'

    Attributes:
        fields: the texts and images, in the order in which regions count them.
        label: the gold answer: a class by its name or number, a number, or a span (a tuple where each of several is
            right).
        rationale: what people marked; () when they marked nothing, None when nobody marked it. Where several people
            marked, this is what they agree on (data read by didact: what at least half of them marked).
        id: a name for the example, for records.
        annotators: what each of several people marked; empty when there is only ``rationale``.
    """

    fields: tuple[Field, ...]
    label: Answer | None
    rationale: tuple[Region, ...] | None
    id: str | None
    annotators: tuple[tuple[Region, ...], ...]

    def __init__(
        self,
        *given: Field | None,
        fields: Sequence[Field] = (),
        label: Answer | None = None,
        rationale: Sequence[Region] | None = None,
        id: str | None = None,
        annotators: Sequence[Sequence[Region]] = (),
    ) -> None:
        taken = (*fields, *(one for one in given if one is not None))
        label = _plain_number(label)
        if label is not None and not isinstance(label, (str, int, float, Span, tuple)):
            raise InputError(f"the label of an example is a name, a number or a span, got {shown(label)}")
        values = {
            "fields": taken,
            "label": label,
            "rationale": None if rationale is None else tuple(rationale),
            "id": id,
            "annotators": tuple(tuple(marked) for marked in annotators),
        }
        for number, one in enumerate(taken):
            if isinstance(one, str):
                check_unicode(one, "the text" if not number else f"text {number + 1} of the example")
        for name, value in values.items():
            if isinstance(value, str):
                check_unicode(value, f"the {name} of the example")
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """The first field, which must be a text."""
        return self._text(0)

    @property
    def text_pair(self) -> str | None:
        """The second field, where there is one; it must be a text."""
        return self._text(1) if len(self.fields) > 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """All fields, which must be texts."""
        return tuple(self._text(number) for number in range(len(self.fields)))

    @property
    def is_textual(self) -> bool:
        """Whether all fields are texts."""
        return all(isinstance(one, str) for one in self.fields)

    @property
    def preview(self) -> str:
        """The beginning of the first field, for messages."""
        first = self.fields[0] if self.fields else ""
        if not isinstance(first, str):
            return f"an image of {first.size[0]} x {first.size[1]} pixels"
        return repr(first if len(first) <= 60 else f"{first[:57]}...")

    @property
    def fingerprint(self) -> str:
        """Hash of what the model reads, the same in every process."""
        plain = [one if isinstance(one, str) else {"image": one.fingerprint} for one in self.fields]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]

    @classmethod
    def of(cls, given: FieldLike | Sequence[FieldLike] | Example) -> Example:
        """Turn what a user may pass into an example, refusing what cannot be explained.

        A string is a text; a ``Path``, a PIL image, an array and bytes are images, as ``Image.of`` reads them.
        """
        if isinstance(given, Example):
            example = given
        else:
            several = given if _is_several(given) else (given,)
            example = cls(*(Image.of(one) if is_picture(one) else one for one in several))  # type: ignore[union-attr,arg-type]
        if not example.fields:
            raise InputError("an example needs at least one text or image, got none")
        for one in example.fields:
            if not isinstance(one, (str, Image)):
                raise InputError(f"a text must be a string, got {type(one).__name__}: {one!r:.80}")
            if isinstance(one, str) and not one.strip():
                raise InputError("the text is empty or blank: there is nothing to explain; give at least one word")
        return example

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; texts as ``text`` and ``text_pair``, all else as ``fields``."""
        texts = self.is_textual and len(self.fields) in (1, 2)
        plain = [one if isinstance(one, str) else one.to_dict() for one in self.fields]
        return {
            **({"text": plain[0], "text_pair": (*plain, None)[1]} if texts else {"fields": plain}),
            "label": plain_answer(self.label),
            "rationale": None if self.rationale is None else plain_regions(self.rationale),
            "id": self.id,
            "annotators": [plain_regions(marked) for marked in self.annotators],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Example:
        """Inverse of ``to_dict``; texts, answers and marked places are checked."""
        whole = "fields" in object_value(data, "an example")
        needed, optional = (("fields",), ()) if whole else (("text",), ("text_pair",))
        data = object_value(data, "an example", needed, (*optional, "label", "rationale", "id", "annotators"))
        given = list_value(data["fields"], "fields") if whole else (data["text"], data.get("text_pair"))
        fields = tuple(_read_field(one) for one in given if one is not None)
        if not fields:
            raise FormatError("an example needs at least one text or image")
        marked, named = data.get("rationale"), data.get("id")
        each = list_value(data.get("annotators", ()), "annotators")
        return cls(
            fields=fields,
            label=_inside_answer(read_answer(data.get("label"), "label"), "label", fields),
            rationale=None if marked is None else _inside(read_regions(marked, "rationale"), "rationale", fields),
            id=None if named is None else text_value(named, "id"),
            annotators=[_inside(read_regions(one, "annotators"), "annotators", fields) for one in each],
        )

    def _text(self, number: int) -> str:
        text = self.fields[number]
        if not isinstance(text, str):
            raise InputError(f"field {number} of this example is an image, and a text is needed here")
        return text


def _read_span(row: object, name: str) -> Span:
    region = read_region(row, name)
    if not isinstance(region, Span):
        raise FormatError(f"{name} must be a span of 2 or 3 numbers, got {shown(row)}")
    return region


def _read_field(plain: object) -> Field:
    if isinstance(plain, Mapping):
        return Image.from_dict(plain)
    return text_value(plain, "a text")


def _plain_number(label: Any) -> Any:
    """A number of numpy as Python's own; anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def plain_answer(answer: Answer | None) -> Any:
    """An answer as plain JSON values: a span as {"span": ...}, several as {"spans": ...}."""
    if isinstance(answer, Span):
        return {"span": plain_regions([answer])[0]}
    return {"spans": plain_regions(answer)} if isinstance(answer, tuple) else answer


def read_answer(plain: object, name: str) -> Answer | None:
    """The answer of such values; ``name`` says in messages what it is."""
    if not isinstance(plain, Mapping):
        return plain_value(plain, name)
    entries = object_value(plain, name, (), ("span", "spans"))
    if len(entries) != 1:
        raise FormatError(f"{name} must have either 'span' or 'spans', got {shown(plain)}")
    if "span" in entries:
        return _read_span(entries["span"], name)
    return tuple(_read_span(row, name) for row in list_value(entries["spans"], name))


def _inside_answer(answer: Answer | None, name: str, fields: Sequence[Field]) -> Answer | None:
    if isinstance(answer, (Span, tuple)):
        _inside((answer,) if isinstance(answer, Span) else answer, name, fields)
    return answer


def check_regions(regions: Sequence[Region], name: str, fields: Sequence[Field]) -> tuple[Region, ...]:
    """The regions, refused where one lies outside of its field; ``name`` says in messages what they are."""
    return _inside(tuple(regions), name, fields)


def _inside(regions: tuple[RegionT, ...], name: str, fields: Sequence[Field]) -> tuple[RegionT, ...]:
    """The regions, refused where one lies outside of its field."""
    for number, region in enumerate(regions):
        if not 0 <= region.field < len(fields):
            raise FormatError(f"{name} {number} lies in field {region.field}, but the example has {len(fields)}")
        _check_inside(f"{name} {number}", region, fields[region.field])
    return regions


def _check_inside(name: str, region: Region, source: Field) -> None:
    """Refuse a region that lies outside of its field."""
    if isinstance(region, Span) and isinstance(source, str):
        if not 0 <= region.start <= region.end <= len(source):
            raise FormatError(f"{name} covers characters {region.start} to {region.end} of a text of {len(source)}")
    elif isinstance(region, Mask) and isinstance(source, Image):
        if region.size != source.size:
            wide, high = source.size
            raise FormatError(f"{name} is a mask of {region.size[0]} x {region.size[1]} of an image of {wide} x {high}")
    elif isinstance(region, Box) and isinstance(source, Image):
        width, height = source.size
        if not (0 <= region.left <= region.right <= width and 0 <= region.top <= region.bottom <= height):
            raise FormatError(f"{name} covers {region} of an image of {width} x {height} pixels")
    else:
        raise FormatError(f"{name} is a {type(region).__name__}, which does not fit a {type(source).__name__}")


def _is_several(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes)) and len(given) in (1, 2)
