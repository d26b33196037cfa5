"""Turns the rows of any source into examples: which column is which field, and what a column may hold."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from didact.data.images import PackedFile, read_boxes, read_image, read_mask
from didact.data.quality import Masks, read_tags, tagged_spans
from didact.data.rationales import majority, read_annotators, read_rationale
from didact.errors import FormatError, InputError, ParameterError
from didact.registry import close_names
from didact.types import Example, Span
from didact.validation import shown

Fields = Mapping[str, str | Sequence[str] | None]
"""Field of an example -> its column, or columns of which the first that is there counts, or None to leave it out."""

Row = tuple[str, Mapping[str, object] | Example]
"""Where a row stands, for messages, and what it holds."""


MARKED = ("rationale", "annotators", "tags", "tags_pair")
"""Fields that hold what people marked."""


class Cells(dict[str, object]):
    """A row of a table that holds texts only, such as CSV: a label that reads as a number is taken as a number."""


PAIRS = (
    ("text", "text_pair"),
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "context"),
    ("question", "passage"),
    ("query", "passage"),
    ("source", "target"),
)
"""Columns that hold the two texts of a pair, where they stand together."""

USUAL: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "sentence", "review", "content", "document", "comment_text", "tweet", "question", "premise"),
    "text_pair": ("text_pair",),
    "label": ("label", "sentiment", "class", "category", "gold_label"),
    "rationale": ("rationale", "rationales", "evidences"),
    "annotators": ("annotators",),
    "tags": ("source_tags",),
    "tags_pair": ("target_tags",),
    "tokens": ("tokens",),
    "id": ("id", "idx", "guid", "uid"),
    "image": ("image", "img"),
    "mask": ("mask",),
}
"""Columns that are tried where none is given, in this order."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An example, perhaps before its image is read.

    Attributes:
        example: what a sample is drawn by: the example itself, or with the name of its file in place of an image.
        unread: reads the example where that is still to be done.
    """

    example: Example
    unread: Callable[[], Example] | None = None

    def read(self) -> Example:
        """The whole example."""
        return self.example if self.unread is None else self.unread()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that holds no example.

    Attributes:
        problem: why not.
        preview: where it stands.
    """

    problem: FormatError
    preview: str


@dataclass
class RowReader:
    """Reads rows as examples.

    Args:
        fields: columns that differ from the usual ones.
        labels: names of the classes, for labels that are numbers.
        defaults: a preset's columns, which come before the usual ones and need not be there.
        folder: where paths of images begin.
    """

    fields: Fields
    labels: tuple[str, ...] = ()
    defaults: Fields | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in USUAL:
                raise ParameterError(f"fields: unknown field {name!r}; an example has {', '.join(USUAL)}")
        self._columns: dict[tuple[str, ...], dict[str, str]] = {}

    def read(self, rows: Iterable[Row], source: str) -> list[Example]:
        """The examples of all rows; ``source`` names them in messages."""
        return [draft.read() for draft in self.drafts(rows, source)]

    def read_apart(self, rows: Iterable[Row], source: str) -> list[Example | Unreadable]:
        """The examples of all rows, and in place of each row that holds none the reason."""
        made: list[Example | Unreadable] = []
        for where, row in rows:
            try:
                made.append(self._draft(row, where).read())
            except FormatError as problem:
                made.append(Unreadable(problem, where))
        if not made:
            raise FormatError(f"{source} holds no example: it is empty")
        return made

    def drafts(self, rows: Iterable[Row], source: str) -> list[Draft]:
        """The same before images in files are read, to choose among them."""
        drafts = [self._draft(row, where) for where, row in rows]
        if not drafts:
            raise FormatError(f"{source} holds no example: it is empty")
        self._refuse_unused(source)
        return drafts

    def _draft(self, row: Mapping[str, object] | Example, where: str) -> Draft:
        if isinstance(row, Example):
            return Draft(row)
        columns = self._columns_of(row, where)
        image = _value(row, columns, "image")
        if not isinstance(image, (str, Path, PackedFile)):
            return Draft(self._example(row, where))
        name = _identity(row, columns, where) or str(image)
        return Draft(Example(name, label=self._label(row, columns, where)), lambda: self._example(row, where))

    def _columns_of(self, row: Mapping[str, object], where: str) -> dict[str, str]:
        key = tuple(row)
        if key not in self._columns:
            self._columns[key] = self._choose(key, where)
        return self._columns[key]

    def _example(self, row: Mapping[str, object], where: str) -> Example:
        columns = self._columns_of(row, where)
        if _value(row, columns, "image") is not None:
            return self._pictured(row, columns, where)
        text = _text(row, columns, "text", where)
        marked = any(_value(row, columns, field) is not None for field in MARKED)
        tokens = _tokens(row, columns, where) if marked or text is None else None
        if text is None and tokens:
            text = " ".join(tokens)
        if text is None and "text" in columns:
            raise FormatError(
                f"{where}: field {columns['text']!r} holds no text (None or NaN); drop such rows, or fill them in"
            )
        if text is None:
            column = self.fields.get("text") or "text"
            missing = f"field {column!r}" if column == "text" else f"column {column!r} (field 'text')"
            found = ", ".join(sorted(map(str, row))) or "no field"
            raise FormatError(f"{where}: {missing} is missing; found {found}; {_HINT}")
        pair, label = _text(row, columns, "text_pair", where), self._label(row, columns, where)
        try:
            example = Example(text, pair, label=label, id=_identity(row, columns, where))
        except InputError as problem:
            raise FormatError(f"{where}: {problem}") from None
        return _with_rationale(example, row, columns, tokens, where) if marked else example

    def _pictured(self, row: Mapping[str, object], columns: Mapping[str, str], where: str) -> Example:
        """An image, perhaps with a text behind it."""
        with _naming("image", columns, where):
            image = read_image(row[columns["image"]], self.folder)
        texts = (_text(row, columns, field, where) for field in ("text", "text_pair"))
        example = Example(image, *texts, label=self._label(row, columns, where), id=_identity(row, columns, where))
        marked, mask = _value(row, columns, "rationale"), _value(row, columns, "mask")
        if marked is not None:
            with _naming("rationale", columns, where):
                example = dataclasses.replace(example, rationale=read_boxes(marked, example))
        if mask is not None:
            with _naming("mask", columns, where):
                example = dataclasses.replace(example, rationale=(read_mask(mask, example, self.folder),))
        return example

    def _choose(self, present: tuple[str, ...], where: str) -> dict[str, str]:
        """Field -> column, for rows with these columns."""
        defaults = self.defaults or {}
        chosen: dict[str, str] = {}
        for field, usual in USUAL.items():
            columns = self.fields[field] if field in self.fields else defaults.get(field, usual)
            names = () if columns is None else (columns,) if isinstance(columns, str) else columns
            column = next((name for name in names if name in present), None)
            if column is not None:
                chosen[field] = column
        if "text" in chosen and "image" not in self.fields.keys() | defaults.keys():
            chosen.pop("image", None)  # a text with a picture beside it, which nobody wants to be read
        if not {"text", "text_pair"} & (self.fields.keys() | defaults.keys()):
            pair = next((pair for pair in PAIRS if set(pair) <= set(present)), None)
            if pair is not None and ("text" not in present or pair[0] == "text"):
                chosen.update(text=pair[0], text_pair=pair[1])
            elif chosen.get("text", "text") != "text":
                _refuse_several(present, where)
        return chosen

    def _label(self, row: Mapping[str, object], columns: Mapping[str, str], where: str) -> str | int | float | None:
        column = columns.get("label", "")
        value = row.get(column)
        if is_missing(value):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(row, Cells):
            value = _number(str(value)) if isinstance(value, str) else value
        if not isinstance(value, str | int | float) or value in (math.inf, -math.inf):
            raise FormatError(
                f"{where}: field {column!r} must be the name or the number of a class, or a finite number, got "
                f"{_kind(value)}; fields={{'label': None}} leaves it out"
            )
        if isinstance(value, str) or not self.labels:
            return int(value) if isinstance(value, bool) else value
        if isinstance(value, float):
            raise FormatError(f"{where}: field {column!r} is {value}, but the classes are {_numbered(self.labels)}")
        if value == -1:  # how the Hub marks labels that are kept secret
            return None
        if not 0 <= value < len(self.labels):
            raise FormatError(f"{where}: field {column!r} is {value}, but the classes are {_numbered(self.labels)}")
        return self.labels[value]

    def _refuse_unused(self, source: str) -> None:
        present = sorted({column for key in self._columns for column in key})
        used = {field for chosen in self._columns.values() for field in chosen}
        for field, column in self.fields.items():
            if self._columns and column is not None and field not in used:
                raise FormatError(
                    f"{source}: no row has the column {column!r}, given for the field {field!r}"
                    f"{close_names(column, present)}; "
                    f"columns: {', '.join(present)}"
                )


_HINT = "name the column of the text with text_column='NAME', or --text-column NAME on the command line"


def _refuse_several(present: Sequence[str], where: str) -> None:
    """Refuse to guess which of several columns holds the text."""
    possible = [name for name in USUAL["text"] if name in present]
    if len(possible) > 1:
        columns = ", ".join(map(str, present))
        raise FormatError(f"{where}: the text may be in {' or '.join(possible)} (columns: {columns}); {_HINT}")


def _with_rationale(
    example: Example, row: Mapping[str, object], columns: Mapping[str, str], tokens: Sequence[str] | None, where: str
) -> Example:
    marked, people = (_value(row, columns, field) for field in ("rationale", "annotators"))
    with _naming("rationale", columns, where):
        spans = None if marked is None else read_rationale(marked, example, tokens)
    with _naming("annotators", columns, where):
        each = () if people is None else read_annotators(people, example, tokens)
    tagged = _tagged(example, row, columns, where)
    if tagged and (spans is not None or each):
        raise FormatError(
            f"{where}: there are tags beside a rationale; fields={{'tags': None, 'tags_pair': None}} leaves them out"
        )
    if len(tagged) == 1:
        return dataclasses.replace(example, rationale=tagged[0])
    each = each or tagged
    rationale = majority(each) if spans is None and each else spans
    return dataclasses.replace(example, rationale=rationale, annotators=each)


def _tagged(
    example: Example, row: Mapping[str, object], columns: Mapping[str, str], where: str
) -> tuple[tuple[Span, ...], ...]:
    """What each annotator tagged BAD; nothing where there are no tags."""
    sides: list[Masks | None] = [None, None]
    for number, field in enumerate(("tags", "tags_pair")):
        value = _value(row, columns, field)
        if value is not None:
            with _naming(field, columns, where):
                sides[number] = read_tags(value, example, number)
    if not any(side is not None for side in sides):
        return ()
    with _naming("tags", columns, where):
        return tagged_spans(sides[: len(example.fields)], example)


@contextlib.contextmanager
def _naming(field: str, columns: Mapping[str, str], where: str) -> Iterator[None]:
    """Errors with the place of the row, the column, and how to leave it out."""
    try:
        yield
    except FormatError as problem:
        hint = f"fields={{{field!r}: None}} leaves it out"
        raise FormatError(f"{where}: field {columns[field]!r}: {problem}; {hint}") from None


def _text(row: Mapping[str, object], columns: Mapping[str, str], field: str, where: str) -> str | None:
    value = _value(row, columns, field)
    if value is None:
        return None
    if not isinstance(value, str):
        cure = "; convert it with str() if it is meant as a text"
        raise FormatError(f"{where}: field {columns[field]!r} must be text, got {_kind(value)}{cure}")
    if not value.strip():
        raise FormatError(f"{where}: field {columns[field]!r} is empty or blank: there is nothing to explain")
    return value


def _tokens(row: Mapping[str, object], columns: Mapping[str, str], where: str) -> list[str] | None:
    value = _value(row, columns, "tokens")
    if isinstance(value, str):
        return value.split()
    if value is None:
        return None
    if not isinstance(value, Sequence) or not all(isinstance(part, str) for part in value):
        raise FormatError(f"{where}: field {columns['tokens']!r} must be a list of texts, got {_kind(value)}")
    return list(value)


def _identity(row: Mapping[str, object], columns: Mapping[str, str], where: str) -> str | None:
    value = _value(row, columns, "id")
    if value is None:
        return None
    if not isinstance(value, str | int):
        raise FormatError(f"{where}: field {columns['id']!r} must be text or a whole number, got {_kind(value)}")
    return str(value)


def _value(row: Mapping[str, object], columns: Mapping[str, str], field: str) -> object:
    value = row.get(columns[field]) if field in columns else None
    return None if is_missing(value) else value


def is_missing(value: object) -> bool:
    """Whether a table means that there is nothing: None, NaN, or what pandas has in their place."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _number(text: str) -> str | int | float:
    """A number where the text reads as one, whole or with a point; else the text."""
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+\.\d+([eE][-+]?\d{1,3})?", text) else text


def _kind(value: object) -> str:
    return shown(value)


def _numbered(labels: Sequence[str]) -> str:
    return ", ".join(f"{number} {label}" for number, label in enumerate(labels))
