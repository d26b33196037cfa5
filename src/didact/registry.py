"""Names for things: one registry per family, filled by the files of one package and by third-party entry points."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

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


@runtime_checkable
class Aliased(Named, Protocol):
    """A card of something that users also know by other names."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names that stand for the registered one."""
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

    def resolve(self, name: str) -> str:
        """The registered name that ``name`` means: itself, or what it is an alias of; case and dashes do not matter.

        Raises:
            UnknownNameError: nothing is called so; the message lists the close names.
        """
        if not isinstance(name, str):
            raise UnknownNameError(f"the name of a {self.kind} is text, got a {type(name).__name__}")
        if name in self._classes or name in (names := self.names()):
            return name
        aliases = self.aliases()
        plain = name.strip().lower().replace("-", "_").replace(" ", "_")
        if plain in names:
            return plain
        if plain in aliases:
            return aliases[plain]
        raise UnknownNameError(unknown(self.kind, name, names, [*names, *aliases]))

    def get(self, name: str) -> type[T]:
        """The class called ``name``, or of which it is an alias; an unknown name's error lists the close ones."""
        registered = self.resolve(name)
        if registered not in self._classes:
            self._load(registered)
        return self._classes[registered]

    def card(self, name: str) -> K:
        """The card of ``name``."""
        self.get(name)
        return self._cards[self.resolve(name)]

    def aliases(self) -> dict[str, str]:
        """Alias -> registered name, of all cards; an alias stands for one thing only."""
        meanings: dict[str, str] = {}
        for card in self.cards():
            for alias in card.aliases if isinstance(card, Aliased) else ():
                if alias in meanings or alias in self._classes:
                    raise ValueError(f"{alias!r}, an alias of the {self.kind} {card.name!r}, is taken already")
                meanings[alias] = card.name
        return meanings

    def cards(self) -> list[K]:
        """All cards, by family and name."""
        return sorted((self.card(name) for name in self.names()), key=lambda card: (card.family, card.name))

    def _load(self, name: str) -> None:
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
        return {entry.name: entry for entry in _installed(self.group, _places())}


@lru_cache(maxsize=32)
def _installed(group: str, _: tuple[tuple[str, int], ...]) -> EntryPoints:
    """What installed packages offer to a group, which takes a while; read again when one was installed or removed."""
    return entry_points(group=group)


def _places() -> tuple[tuple[str, int], ...]:
    """Where packages are looked for, and when each place last changed."""
    return tuple((place, _changed(place)) for place in sys.path)


def _changed(place: str) -> int:
    try:
        return Path(place or ".").stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def unknown(kind: str, name: object, allowed: Sequence[str], suggested: Sequence[str] | None = None) -> str:
    """One sentence for every unknown name: the name, the close names (of ``suggested`` where given), all names."""
    close = close_names(name, allowed if suggested is None else suggested)
    return f"unknown {kind} {name!r}{close}; known: {', '.join(allowed)}"


def close_names(name: object, allowed: Sequence[str]) -> str:
    """For the message about an unknown name: allowed names that begin so or are close, or nothing where none is."""
    plain = str(name).strip().lower()
    begun = [other for other in allowed if len(plain) > 2 and other.lower().startswith(plain)]
    close = list(dict.fromkeys([*begun, *difflib.get_close_matches(str(name), allowed)]))[:3]
    return f" (did you mean {' or '.join(close)}?)" if close else ""
