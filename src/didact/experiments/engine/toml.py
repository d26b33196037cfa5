"""Recipe files: what all kinds of recipes share in reading, checking and writing TOML."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from didact.disk import check_name, safe_name
from didact.errors import FormatError, InputError
from didact.experiments.engine.tables import check_entries, check_table, entry_types
from didact.registry import unknown
from didact.settings import shown
from didact.types import JsonValue

Setting = JsonValue | list[JsonValue] | dict[str, JsonValue]
Plain = dict[str, Any]
"""Values as TOML and JSON have them; checked where they are used."""

Options = Mapping[str, Any]
"""The same, to be read only."""

GRADING = "grading"
"""The kind of a recipe file that names none."""

REMOTE_CODE = "trust_remote_code"
LARGEST = 10_000_000
"""Bytes of a recipe file at most."""


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

    tables_of: ClassVar[Mapping[str, type]] = {}
    """Field that is a table -> the dataclass (``didact.experiments.engine.tables``) of the entries it may have."""

    descriptive: ClassVar[tuple[str, ...]] = ("name", "tables", "figures")
    """Fields that do not decide the results."""

    older_names: ClassVar[Mapping[str, str]] = {}
    """Name that a field had in recipes of older versions, which are still read -> its name now."""

    name: str
    model: Options

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """The recipe of a finished run; sources are not needed again, so their variables may be unknown here."""
        path = folder / "recipe.toml"
        return cls._of_data(_with_bare_names(read_toml(path)), path)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a recipe file; what is wrong in it is named. ``$NAME`` in a source is an environment variable."""
        return cls._of_data(read_toml(path), path)

    @classmethod
    def _of_data(cls, data: Plain, path: Path) -> Self:
        if data.pop("kind", GRADING) != cls.kind:
            raise FormatError(f"{path} is no recipe of {cls.kind}: it does not say kind = {cls.kind!r}")
        return cls.from_dict(named(data, path), str(path))

    @classmethod
    def from_dict(cls, data: Options, where: str = "recipe") -> Self:
        """Make a recipe from plain values; ``where`` names their origin in messages."""
        refuse_remote_code(data, where)
        data = {cls.older_names.get(name, name): value for name, value in data.items()}
        check_names(cls, data, where)
        values = cls.parsed(dict(data), where)
        check_entries(entry_types(cls), values, where)
        lacking = [item.name for item in _needed(cls) if item.name not in values]
        if lacking:
            raise FormatError(f"{where}: {', '.join(lacking)} must be given")
        recipe = cls(**values)
        check_name(recipe.name, f"{where}: name")
        recipe.check(where)
        return recipe

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """The values of the fields from plain values."""
        for name, key in cls.entry_fields.items():
            if name in data and not isinstance(data[name], str):
                data[name] = entries(data[name], key, f"{where}, {name}")
        for name in cls.source_fields:
            if data.get(name) == {}:
                del data[name]  # an empty table is none
            if name in data:
                data[name] = source_of(data[name], f"{where}, [{name}]")
        for name in cls.list_fields:
            if name in data:
                data[name] = _list(data[name], f"{where}: {name}")
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run; by default two entries of one label, and tables with unfitting entries."""
        for name in self.entry_fields:
            value = getattr(self, name)
            if not isinstance(value, str):
                check_labels(value, f"{where}, {name}")
        for name, kind in self.tables_of.items():
            check_table(kind, getattr(self, name), f"{where}, [{name}]")

    def identity(self) -> Plain:
        """What decides the results, entry by entry."""
        plain = {name: value for name, value in self.to_dict().items() if name not in self.descriptive}
        return {"kind": self.kind, **plain}

    def settings_of(self, table: str) -> Plain:
        """The entries of a table that decide results, without where its source lies and what computes."""
        given: Options = getattr(self, table)
        return {name: value for name, value in given.items() if name not in ("source", "device")}

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


def _needed(kind: type) -> list[dataclasses.Field[Any]]:
    """Fields of a dataclass that have no default."""
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    return [item for item in fields if item.default is missing and item.default_factory is missing]


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


def named(data: Options, path: Path) -> Plain:
    """A recipe's entries with the name of its file where it gives none."""
    return {"name": safe_name(path.stem, "run"), **data}


def read_toml(path: Path) -> Plain:
    """A recipe file's plain values."""
    try:
        if path.stat().st_size > LARGEST:
            raise FormatError(f"{path} has {path.stat().st_size:,} bytes; a recipe has at most {LARGEST:,}")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no recipe {path}") from None
    except OSError as problem:
        raise InputError(f"cannot read the recipe {path}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:  # no UTF-8, no TOML, or numbers of thousands of digits
        raise FormatError(f"{str(path)!r} is not TOML: {problem!s:.200}") from None


def refuse_remote_code(data: Options, where: str) -> None:
    """Refuse a recipe that wants a model to run code of its own, in whatever table it says so."""
    waiting: list[tuple[str, object]] = [("", data)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, Mapping):
            for name, inner in value.items():
                if str(name).replace("-", "_").lower() == REMOTE_CODE:
                    raise FormatError(
                        f"{where}: {place}{name} cannot be set by a recipe: only whoever starts a run may let a model "
                        "run code of its own, with --trust-remote-code; leave it out"
                    )
                waiting.append((f"{place}{name}.", inner))
        elif isinstance(value, (list, tuple)):
            waiting.extend((place, inner) for inner in value)


def _list(given: object, where: str) -> tuple[Any, ...]:
    """The values of a list, none of them twice."""
    if not isinstance(given, (list, tuple)):
        raise FormatError(f"{where} must be a list, got {shown(given)}")
    seen = Counter(value for value in given if isinstance(value, (str, int, float)))
    twice = [value for value, count in seen.items() if count > 1]
    if twice:
        raise FormatError(f"{where} has {shown(twice[0])} twice; name each once")
    return tuple(given)


def entry(given: object, key: str, where: str = "recipe") -> Entry:
    """From ``"lime"`` or ``{"method": "lime", "label": ..., settings}`` to an entry."""
    if isinstance(given, str):
        return Entry(checked_label(given, where), given)
    if not isinstance(given, Mapping) or not isinstance(given.get(key), str):
        raise FormatError(f"{where}: an entry is a name, or a table with {key!r} and settings; got {shown(given)}")
    rest = {name: value for name, value in given.items() if name not in (key, "label") and value is not None}
    return Entry(checked_label(given.get("label", given[key]), where), given[key], rest)


def checked_label(given: object, where: str) -> str:
    """What something is called in records and reports."""
    if not isinstance(given, str) or not 0 < len(given) <= 100 or not given.isprintable():
        raise FormatError(f"{where}: a label is a text of 1 to 100 printable characters, got {shown(given)}")
    return given


def entries(given: object, key: str, where: str) -> tuple[Entry, ...]:
    """A list of entries."""
    if not isinstance(given, (list, tuple)):
        raise FormatError(f"{where}: expected a list, got {type(given).__name__}")
    return tuple(entry(one, key, where) for one in given)


def check_labels(given: Sequence[Entry], where: str) -> None:
    """Refuse two entries of one label."""
    for label, count in Counter(one.label for one in given).items():
        if count > 1:
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


def _with_bare_names(value: Any) -> Any:
    """Plain values in which ``$NAME`` of an unknown variable is ``NAME``."""
    if isinstance(value, dict):
        return {name: _with_bare_names(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_bare_names(inner) for inner in value]
    if isinstance(value, str) and value.startswith("$") and os.path.expandvars(value) == value:
        return value[1:]
    return value


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        items = [f"{key if _BARE.fullmatch(key) else _string(key)} = {toml_value(v)}" for key, v in value.items()]
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):  # JSON writes NaN and Infinity, TOML nan and inf
        return str(value)
    return _string(value) if isinstance(value, str) else json.dumps(value)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _string(text: str) -> str:
    """As JSON writes it, but for a character that TOML does not take as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
