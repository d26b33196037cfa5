"""Settings of registered things: dataclass fields, checked by type when a user gives them by name."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from didact.errors import ParameterError
from didact.registry import Named, unknown
from didact.types import JsonValue


class Configured:
    """Mix-in for dataclasses with a ``card``: the fields are the settings."""

    card: ClassVar[Named]

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """An instance with these settings; the error for an unknown or unfitting setting names it."""
        hints = get_type_hints(cls)
        names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name, value in settings.items():
            if name not in names:
                raise ParameterError(unknown(f"parameter of {cls.card.name}", name, names))
            _check_type(cls.card.name, name, value, hints[name])
        return cls(**settings)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """All settings as plain values."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


def at_least(owner: Configured, **bounds: float) -> None:
    """Refuse settings below their bound."""
    for name, bound in bounds.items():
        value = getattr(owner, name)
        if not value >= bound:
            raise ParameterError(f"{name} of {owner.card.name} must be at least {bound}, got {value!r}")


def at_most(owner: Configured, **bounds: float) -> None:
    """Refuse settings above their bound."""
    for name, bound in bounds.items():
        value = getattr(owner, name)
        if not value <= bound:
            raise ParameterError(f"{name} of {owner.card.name} must be at most {bound}, got {value!r}")


def check_share(owner: Configured, *names: str) -> None:
    """Refuse settings that are not a share: above 0 and at most 1."""
    for name in names:
        value = getattr(owner, name)
        if not 0 < value <= 1:
            raise ParameterError(f"{name} of {owner.card.name} must be above 0 and at most 1, got {value!r}")


def _check_type(owner: str, name: str, value: object, hint: object) -> None:
    if not _fits(value, hint):
        allowed = ", ".join(_allowed(hint))
        raise ParameterError(f"{name} of {owner} must be {allowed}, got {value!r}")


def _fits(value: object, hint: object) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(item, get_args(hint)[0]) for item in value)
    if get_args(hint):
        return any(_fits(value, part) for part in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool))


def _allowed(hint: object) -> list[str]:
    if get_origin(hint) is Literal:
        return [repr(option) for option in get_args(hint)]
    if get_origin(hint) is tuple:
        return [f"a list, each {_allowed(get_args(hint)[0])[0]}"]
    if get_args(hint):
        return [name for part in get_args(hint) for name in _allowed(part)]
    return ["None" if hint is type(None) else f"a {getattr(hint, '__name__', hint)}"]
