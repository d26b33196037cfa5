"""Recipe files: what all kinds of recipes share in reading, checking and writing TOML."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from didact.errors import FormatError, InputError
from didact.registry import unknown
from didact.types import JsonValue

Setting = JsonValue | list[JsonValue]
Plain = dict[str, Any]
"""Values as TOML and JSON have them; checked where they are used."""

Options = Mapping[str, Any]
"""The same, to be read only."""

GRADING = "grading"
"""The kind of a recipe file that names none."""


@dataclass(frozen=True)
class Entry:
    """A registered thing (explainer, metric, student, channel) with its settings, under a label of its own."""

    label: str
    name: str
    settings: Mapping[str, Setting] = field(default_factory=dict)


class TomlRecipe:
    """Mix-in for frozen dataclasses whose fields are the entries of a recipe file.

    A kind of recipe names its fields of each sort in the class variables; what needs more is read in ``parsed`` and
    checked in ``check``.
    """

    kind: ClassVar[str]
    entry_fields: ClassVar[Mapping[str, str]] = {}
    """Field that lists registered things -> the key that names one in a table, as in ``{ method = "lime" }``."""
    source_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are tables with a "source", in which environment variables are filled in."""
    list_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are lists of plain values, kept as tuples."""

    older_names: ClassVar[Mapping[str, str]] = {}
    """Name that a field had in recipes of older versions, which are still read -> its name now."""

    name: str
    model: Options

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a recipe file; what is wrong in it is named. ``$NAME`` in a source is an environment variable."""
        data = read_toml(path)
        if data.pop("kind", GRADING) != cls.kind:
            raise FormatError(f"{path} is no recipe of {cls.kind}: it does not say kind = {cls.kind!r}")
        return cls.from_dict({"name": path.stem} | data, str(path))

    @classmethod
    def from_dict(cls, data: Options, where: str = "recipe") -> Self:
        """Make a recipe from plain values; ``where`` names their origin in messages."""
        data = {cls.older_names.get(name, name): value for name, value in data.items()}
        check_names(cls, data, where)
        recipe = cls(**cls.parsed(dict(data), where))
        recipe.check(where)
        return recipe

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """The values of the fields from plain values."""
        for name, key in cls.entry_fields.items():
            if name in data and not isinstance(data[name], str):
                data[name] = entries(data[name], key, f"{where}, {name}")
        for name in cls.source_fields:
            if name in data:
                data[name] = source_of(data[name], f"{where}, [{name}]")
        for name in cls.list_fields:
            if name in data:
                data[name] = tuple(data[name])
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run; by default two entries of one label."""
        for name in self.entry_fields:
            value = getattr(self, name)
            if not isinstance(value, str):
                check_labels(value, f"{where}, {name}")

    def to_dict(self) -> Plain:
        """Plain values, as in the file; what was left out stays out."""
        plain: Plain = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}  # type: ignore[arg-type]
        for name, key in self.entry_fields.items():
            if not isinstance(plain[name], str):
                plain[name] = [{"label": one.label, key: one.name, **one.settings} for one in plain[name]]
        for name in self.source_fields:
            plain[name] = {key: value for key, value in plain[name].items() if value is not None}
        for name in self.list_fields:
            plain[name] = list(plain[name])
        return {name: value for name, value in plain.items() if value is not None}

    def to_toml(self) -> str:
        """The recipe as a file that ``from_toml`` reads."""
        plain = self.to_dict()
        rest = [name for name in plain if name not in self.source_fields]
        lines = [f"kind = {toml_value(self.kind)}", *(f"{name} = {toml_value(plain[name])}" for name in rest)]
        for name in self.source_fields:
            if plain[name]:
                lines += ["", f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in plain[name].items())]
        return "\n".join(lines) + "\n"

    def on_device(self, device: str | None) -> Self:
        """The same with the explained model on this device; unchanged where none is given."""
        if device is None:
            return self
        return dataclasses.replace(self, model={**self.model, "device": device})  # type: ignore[type-var]


def check_names(kind: type, data: Options, where: str) -> None:
    """Refuse entries that a kind of recipe, a dataclass, does not have."""
    known = [item.name for item in dataclasses.fields(kind)]
    for name in data:
        if name not in known:
            raise FormatError(f"{where}: {unknown('entry', name, known)}")


def check_choice(what: str, given: object, allowed: Sequence[str], where: str) -> None:
    """Refuse a value that is none of the allowed ones."""
    if given not in allowed:
        raise FormatError(f"{where}: {unknown(what, given, allowed)}")


def read_toml(path: Path) -> Plain:
    """A recipe file's plain values."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no recipe {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise FormatError(f"{path} is not TOML: {problem}") from None


def entry(given: object, key: str, where: str = "recipe") -> Entry:
    """From ``"lime"`` or ``{"method": "lime", "label": ..., settings}`` to an entry."""
    if isinstance(given, str):
        return Entry(given, given)
    if not isinstance(given, Mapping) or not isinstance(given.get(key), str):
        raise FormatError(f"{where}: an entry is a name, or a table with {key!r} and settings; got {given!r}")
    rest = {name: value for name, value in given.items() if name not in (key, "label") and value is not None}
    return Entry(str(given.get("label", given[key])), given[key], rest)


def entries(given: object, key: str, where: str) -> tuple[Entry, ...]:
    """A list of entries."""
    if not isinstance(given, Sequence):
        raise FormatError(f"{where}: expected a list, got {type(given).__name__}")
    return tuple(entry(one, key, where) for one in given)


def check_labels(given: Sequence[Entry], where: str) -> None:
    """Refuse two entries of one label."""
    labels = [one.label for one in given]
    for label in labels:
        if labels.count(label) > 1:
            raise FormatError(f"{where}: two entries are called {label!r}; give each a 'label' of its own")


def source_of(given: object, where: str) -> Plain:
    """A table with a source, environment variables in it filled in."""
    if not isinstance(given, Mapping):
        raise FormatError(f"{where}: expected a table with 'source', got {type(given).__name__}")
    filled = dict(given)
    if isinstance(filled.get("source"), str):
        filled["source"] = os.path.expandvars(filled["source"])
        if filled["source"].startswith("$"):
            name = filled["source"].split("/")[0]
            raise InputError(f"{where}: source is {filled['source']!r}, but the environment variable {name} is not set")
    return filled


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        items = [f"{key if key.isidentifier() else json.dumps(key)} = {toml_value(v)}" for key, v in value.items()]
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, float) and value != value:  # JSON writes NaN, TOML nan
        return "nan"
    return json.dumps(value, ensure_ascii=False)
