"""A recipe: which model, data, explainers, metrics and seeds make an experiment, as a TOML file a person can read."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from didact.errors import FormatError, InputError
from didact.registry import unknown
from didact.types import JsonValue

Setting = JsonValue | list[JsonValue]
Null = Literal["shuffle", "labels"]
NULLS: tuple[Null, ...] = get_args(Null)

GRADING = "grading"
"""The kind of a recipe that says none."""

ALL = "all"
"""Instead of a list: everything registered that the model and the data allow."""

DEFAULT = "default"
"""Instead of a list of metrics: a few of each family that the data allow."""


@dataclass(frozen=True)
class Entry:
    """A registered explainer or metric with its settings, under a label of its own."""

    label: str
    name: str
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """What an experiment is made of.

    Attributes:
        name: of the experiment; its folder is called so unless another is given.
        model: "source" (anything ``load_model`` reads from a string) and options of ``load_model``.
        data: "source" and options of ``load_data`` (split, limit, seed, fields).
        explainers: what is graded; "all" for every method that model and data allow.
        metrics: what grades it; "default" or "all".
        seeds: seeded explainers are run once with each.
        nulls: broken copies of every explanation that are graded beside it; none to leave them out.
        chunk: examples that are explained or graded together; at most one chunk is lost when a run is killed.
        surrogate: data on which the surrogate of robust metrics is fine-tuned, and options of its training.
    """

    name: str = "evaluation"
    model: Mapping[str, Any] = field(default_factory=lambda: {"source": "default"})
    data: Mapping[str, Any] = field(default_factory=lambda: {"source": "corpus"})
    explainers: tuple[Entry, ...] | str = ALL
    metrics: tuple[Entry, ...] | str = DEFAULT
    seeds: tuple[int, ...] = (0,)
    nulls: tuple[str, ...] = NULLS
    chunk: int = 32
    surrogate: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a recipe file; what is wrong in it is named. ``$NAME`` in a source is an environment variable."""
        data = read_toml(path)
        if data.pop("kind", GRADING) != GRADING:
            raise FormatError(f"{path} is no recipe of grading; didact run carries out every kind")
        return cls.from_dict({"name": path.stem} | data, str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "recipe") -> Self:
        """Make a recipe from plain values; ``where`` names them in messages."""
        check_names(cls, data, where)
        parts: dict[str, Any] = dict(data)
        for name, key in (("explainers", "method"), ("metrics", "metric")):
            if name in parts and not isinstance(parts[name], str):
                parts[name] = entries(parts[name], key, f"{where}, {name}")
        for name in ("model", "data", "surrogate"):
            if name in parts:
                parts[name] = source_of(parts[name], f"{where}, [{name}]")
        for name in ("seeds", "nulls"):
            if name in parts:
                parts[name] = tuple(parts[name])
        recipe = cls(**parts)
        recipe.check(where)
        return recipe

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        words = {"explainers": (ALL,), "metrics": (ALL, DEFAULT)}
        for name, allowed in words.items():
            value = getattr(self, name)
            if isinstance(value, str) and value not in allowed:
                raise FormatError(f"{where}: {name} must be a list or {' or '.join(map(repr, allowed))}, got {value!r}")
            if not value:
                raise FormatError(f"{where}: {name} is empty; name at least one")
            if not isinstance(value, str):
                check_labels(value, f"{where}, {name}")
        if not self.seeds or not all(type(seed) is int and seed >= 0 for seed in self.seeds):
            raise FormatError(f"{where}: seeds must be one or more numbers of at least 0, got {list(self.seeds)}")
        for null in self.nulls:
            if null not in NULLS:
                raise FormatError(f"{where}: {unknown('null', null, NULLS)}")
        if type(self.chunk) is not int or self.chunk < 1:
            raise FormatError(f"{where}: chunk must be a number of at least 1, got {self.chunk!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in the file."""
        plain: dict[str, Any] = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name, key in (("explainers", "method"), ("metrics", "metric")):
            if not isinstance(plain[name], str):
                plain[name] = [
                    {"label": entry.label, key: entry.name, **entry.settings} for entry in getattr(self, name)
                ]
        for name in ("model", "data", "surrogate"):
            plain[name] = {key: value for key, value in plain[name].items() if value is not None}
        return plain | {"seeds": list(self.seeds), "nulls": list(self.nulls)}

    def to_toml(self) -> str:
        """The recipe as a file that ``from_toml`` reads."""
        plain = self.to_dict()
        lists = [name for name in ("explainers", "metrics") if not isinstance(plain[name], str)]
        tables = [name for name in ("model", "data", "surrogate") if plain[name]]
        rest = [name for name in plain if name not in (*lists, "model", "data", "surrogate")]
        lines = [f"{name} = {toml_value(plain[name])}" for name in rest]
        for name in tables:
            lines += ["", f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in plain[name].items())]
        for name in lists:
            for entry in plain[name]:
                lines += ["", f"[[{name}]]", *(f"{key} = {toml_value(value)}" for key, value in entry.items())]
        return "\n".join(lines) + "\n"


def check_names(kind: type, data: Mapping[str, Any], where: str) -> None:
    """Refuse entries that a kind of recipe, a dataclass, does not have."""
    known = [item.name for item in dataclasses.fields(kind)]
    for name in data:
        if name not in known:
            raise FormatError(f"{where}: {unknown('entry', name, known)}")


def read_toml(path: Path) -> dict[str, Any]:
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


def source_of(given: object, where: str) -> dict[str, Any]:
    """A table with a source, environment variables in it filled in."""
    if not isinstance(given, Mapping):
        raise FormatError(f"{where}: expected a table with 'source', got {type(given).__name__}")
    found = dict(given)
    if isinstance(found.get("source"), str):
        found["source"] = os.path.expandvars(found["source"])
        if found["source"].startswith("$"):
            name = found["source"].split("/")[0]
            raise InputError(f"{where}: source is {found['source']!r}, but the environment variable {name} is not set")
    return found


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, float) and value != value:  # JSON writes NaN, TOML nan
        return "nan"
    return json.dumps(value, ensure_ascii=False)
