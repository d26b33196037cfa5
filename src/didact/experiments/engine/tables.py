"""The tables of recipe files: which entries each may have, and of which type."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, get_type_hints

from didact.errors import FormatError
from didact.registry import unknown
from didact.settings import Between, allowed, fits, shown

Count = Annotated[int, Between(1, 10_000_000)]
Seed = Annotated[int, Between(0, 2**32 - 1)]
Share = Annotated[float, Between(0, 1)]


@dataclass(frozen=True)
class ModelTable:
    """``[model]``: options of ``load_model`` that a recipe may set. Remote code is none of them."""

    source: str = "default"
    inputs: str | None = None
    labels: Sequence[str] | None = None
    device: str | None = None
    dtype: str | None = None
    max_length: Count | None = None
    max_truncated: Share = 0.5
    batch_tokens: Count | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class DataTable:
    """``[data]``: options of ``load_data``."""

    source: str
    split: str | None = None
    limit: Count | None = None
    seed: Seed = 0
    fields: Mapping[str, str | Sequence[str] | None] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class QuestionTable:
    """``[data]`` of questions: options of ``load_questions``."""

    source: str
    split: str | None = None
    limit: Count | None = None
    seed: Seed = 0
    linked: bool = False


@dataclass(frozen=True)
class StudyTable(DataTable):
    """A source of texts that are only explained: every line as a text, none with fewer words."""

    words: Annotated[int, Between(0, 10_000_000)] = 0
    lines: bool = False


@dataclass(frozen=True)
class SurrogateTable:
    """``[surrogate]``: texts that a surrogate is fine-tuned on, and options of ``fine_tune_masked``."""

    source: str = ""
    split: str | None = None
    limit: Count | None = None
    fields: Mapping[str, str | Sequence[str] | None] = dataclasses.field(default_factory=dict)
    share: Share = 0.1
    epochs: Count = 3
    seed: Seed = 0


def check_table(kind: type, given: object, where: str, needed: Sequence[str] = ()) -> None:
    """Refuse a table that lacks an entry, has an unknown one, or one of another type.

    Args:
        kind: a dataclass whose fields are the entries.
        given: the table.
        where: of the table, for messages.
        needed: entries that must be given.
    """
    if not isinstance(given, Mapping):
        raise FormatError(f"{where}: expected a table, got {shown(given)}")
    names = [item.name for item in dataclasses.fields(kind)]
    check_entries({name: hint for name, hint in entry_types(kind).items() if name in names}, given, where)
    lacking = [name for name in needed if name not in given]
    if lacking:
        raise FormatError(f"{where}: {', '.join(lacking)} must be given")


def check_entries(types: Mapping[str, object], given: Mapping[str, object], where: str) -> None:
    """Refuse entries without a type, and those of another one."""
    for name, value in given.items():
        if name not in types:
            raise FormatError(f"{where}: {unknown('entry', name, list(types))}")
        if not fits(value, types[name]):
            raise FormatError(f"{where}: {name} must be {' or '.join(allowed(types[name]))}, got {shown(value)}")


def entry_types(kind: type) -> dict[str, object]:
    """Fields of a dataclass -> their types, with bounds; anything where a type's name cannot be found."""
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:
        return {item.name: object for item in dataclasses.fields(kind)}
