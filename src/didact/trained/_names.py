"""Which classes the files of a package define, by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from inspect import isabstract
from typing import TypeVar

from didact.errors import UnknownNameError
from didact.registry import unknown

T = TypeVar("T")


def defined_in(package: str, paths: Iterable[str], base: type[T]) -> dict[str, type[T]]:
    """Name -> class, of every subclass of ``base`` with a ``name`` that a file of the package defines."""
    found: dict[str, type[T]] = {}
    for file in pkgutil.iter_modules(paths):
        module = importlib.import_module(f"{package}.{file.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, base) and cls.__module__ == module.__name__:
                name = getattr(cls, "name", None)
                if isinstance(name, str) and not isabstract(cls):
                    if name in found:
                        raise ValueError(f"two classes are called {name!r}: {found[name]!r} and {cls!r}")
                    found[name] = cls
    return dict(sorted(found.items()))


def one_of(kind: str, name: str, known: dict[str, type[T]]) -> type[T]:
    """The class called ``name``; an unknown name's error lists the close ones."""
    if name not in known:
        raise UnknownNameError(unknown(kind, name, list(known)))
    return known[name]
