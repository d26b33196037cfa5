"""Names for things: one registry per family, filled by the files of one package and by third-party entry points."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from didact.errors import UnknownNameError


class Named(Protocol):
    """What a card has at least."""

    @property
    def name(self) -> str:
        """Registered name."""
        ...

    @property
    def family(self) -> str:
        """Heading under which lists show it."""
        ...


T = TypeVar("T")
K = TypeVar("K", bound=Named)
C = TypeVar("C", bound=type)


class Registry(Generic[T, K]):
    """Classes by name, each with a card.

    A name is the name of its file in ``package`` or in one of its folders, so the list of names is known without
    importing anything heavy; a file is imported when its class is first needed.

    Args:
        kind: what is registered, for messages ("method").
        package: dotted name of the package whose files register themselves.
        paths: the package's ``__path__``.
        group: entry-point group for third parties; the entry's name is the registered name.
    """

    def __init__(self, kind: str, package: str, paths: Sequence[str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._package = package
        self._paths = [str(Path(path)) for path in paths]
        self._cards: dict[str, K] = {}
        self._classes: dict[str, type[T]] = {}

    def register(self, card: K) -> Callable[[C], C]:
        """Class decorator that files the class under ``card.name``; a name can be taken only once."""

        def decorate(cls: C) -> C:
            known = self._classes.get(card.name)
            if known is not None and known.__module__ != cls.__module__:
                raise ValueError(f"{self.kind} {card.name!r} is registered twice: {known!r} and {cls!r}")
            self._classes[card.name] = cls
            self._cards[card.name] = card
            cls.card = card  # type: ignore[attr-defined]
            return cls

        return decorate

    def names(self) -> list[str]:
        """All names, ours and third parties', without importing them."""
        return sorted(set(self._modules()) | set(self._entry_points()) | set(self._classes))

    def get(self, name: str) -> type[T]:
        """The class called ``name``; an unknown name's error lists the close ones."""
        if not isinstance(name, str):
            raise UnknownNameError(f"the name of a {self.kind} is text, got a {type(name).__name__}")
        if name not in self._classes:
            self._load(name)
        return self._classes[name]

    def card(self, name: str) -> K:
        """The card of ``name``."""
        self.get(name)
        return self._cards[name]

    def cards(self) -> list[K]:
        """All cards, by family and name."""
        return sorted((self.card(name) for name in self.names()), key=lambda card: (card.family, card.name))

    def _load(self, name: str) -> None:
        if name not in self.names():
            raise UnknownNameError(unknown(self.kind, name, self.names()))
        external = self._entry_points().get(name)
        if external is not None:
            external.load()
        else:
            importlib.import_module(self._modules()[name])
        if name not in self._classes:
            origin = external.value if external is not None else self._modules()[name]
            raise ValueError(f"{origin} was loaded but registered no {self.kind} called {name!r}")

    def _modules(self) -> dict[str, str]:
        """Name -> module, over the package and its folders."""
        modules: dict[str, str] = {}
        for root in map(Path, self._paths):
            for folder in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
                package = self._package if folder == root else f"{self._package}.{folder.name}"
                for module in pkgutil.iter_modules([str(folder)]):
                    if not (module.ispkg or module.name == "base" or module.name.startswith("_")):
                        modules[module.name] = f"{package}.{module.name}"
        return modules

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}


def unknown(kind: str, name: object, allowed: Sequence[str]) -> str:
    """One sentence for every unknown name: the name, the close names, all names."""
    return f"unknown {kind} {name!r}{close_names(name, allowed)}; known: {', '.join(allowed)}"


def close_names(name: object, allowed: Sequence[str]) -> str:
    """For the message about an unknown name: the allowed names that are close, or nothing where none is."""
    close = difflib.get_close_matches(str(name), allowed)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
