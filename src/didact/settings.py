"""Settings of registered things: dataclass fields, checked by type when a user gives them by name."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, Self, TypeVar, get_args, get_origin, get_type_hints

from didact.errors import ParameterError
from didact.registry import Named, unknown
from didact.types import JsonValue

P = ParamSpec("P")
R = TypeVar("R")


ALIASES: Mapping[str, tuple[str, ...]] = {
    "evaluations": ("max_evals", "n_samples", "num_samples", "nsamples", "samples"),
    "samples": ("num_samples", "n_samples", "nsamples", "max_evals", "evaluations"),
    "steps": ("n_steps", "num_steps"),
    "features": ("num_features",),
    "background": ("background_data",),
    "baseline": ("baselines",),
    "absence": ("perturbation", "masking"),
    "span": ("window",),
    "percents": ("percentages",),
    "seed": ("random_state",),
    "signal": ("loss",),
    "signal_settings": ("loss_settings",),
}
"""Setting -> names that other libraries have for it; each stands for the first setting here that its owner has."""


class Configured:
    """Mix-in for dataclasses with a ``card``: the fields are the settings."""

    card: ClassVar[Named]

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """An instance with these settings, or aliases of them; the error for one that does not fit names it."""
        hints = get_type_hints(cls)
        names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
        resolved: dict[str, Any] = {}
        for given, value in settings.items():
            name = resolve_setting(given, names)
            if name not in names:
                aliases = [alias for own in names for alias in ALIASES.get(own, ())]
                raise ParameterError(unknown(f"parameter of {cls.card.name}", given, names, [*names, *aliases]))
            if name in resolved:
                raise ParameterError(f"{name} of {cls.card.name} is given twice, once as {given!r}; give it once")
            _check_type(cls.card.name, name, value, hints[name])
            resolved[name] = value
        return cls(**resolved)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """All settings as plain values."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


def resolve_setting(given: str, names: Sequence[str]) -> str:
    """The setting among ``names`` that ``given`` means: itself, or what it is an alias of; unchanged where none is."""
    if given in names:
        return given
    meant = (name for name, aliases in ALIASES.items() if given in aliases and name in names)
    return next(meant, given)


FILE = {"file": True}
"""Metadata of a dataclass field whose value names a file."""


def file_settings(cls: type) -> list[str]:
    """Settings that name a file, which a service must not take from strangers."""
    return [item.name for item in dataclasses.fields(cls) if item.metadata.get("file")]


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
    if not fits(value, hint):
        raise ParameterError(f"{name} of {owner} must be {' or '.join(allowed(hint))}, got {shown(value)}")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose arguments are held against their annotations; one that does not fit is refused by name.

    The first argument is left to the function, which knows better what it takes; so are annotations that only type
    checkers can read.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _readable_hints(function)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as problem:
            raise ParameterError(f"{function.__name__}(): {problem}") from None
        for name, value in given.items():
            if name in hints and not fits(value, hints[name]) and not fits(_plain(value), hints[name]):
                _refuse_argument(function.__name__, name, hints[name], value)
        return function(*args, **kwargs)

    return call


def _plain(value: object) -> object:
    """Numpy's numbers and arrays as numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value


@functools.cache
def _readable_hints(function: Callable[..., object]) -> dict[str, object]:
    """Annotations by argument after the first, without those that name what is imported for type checkers alone."""
    hints: dict[str, object] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            written = parameter.annotation
            with contextlib.suppress(NameError):
                hints[name] = eval(written, function.__globals__) if isinstance(written, str) else written
    return hints


def _refuse_argument(function: str, name: str, hint: object, value: object) -> None:
    raise ParameterError(f"{name} of {function}() must be {' or '.join(allowed(hint))}, got {shown(value)}")


@dataclasses.dataclass(frozen=True)
class Between:
    """Bounds of a number, or of the numbers in a list: ``Annotated[int, Between(1, 100)]``."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"from {self.least:,} to {self.most:,}"


LARGEST_INT = 2**63 - 1
"""Of whole numbers that arrays can hold."""
LARGEST_FLOAT = 3.4e38
"""Of numbers that networks compute with."""


def fits(value: object, hint: object) -> bool:
    """Whether a plain value has an annotated type; numbers must be finite in 32 bits, lists may stand for tuples."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, parts[0]) and all(_within(value, bounds) for bounds in parts[1:])
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in parts)
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return isinstance(value, (list, tuple)) and all(fits(item, parts[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if parts:
        return any(fits(value, part) for part in parts)
    if hint in (Any, object):
        return True
    if hint is float:
        return (isinstance(value, float) and abs(value) <= LARGEST_FLOAT) or fits(value, int)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT
    return isinstance(hint, type) and isinstance(value, hint)


def _within(value: object, bounds: Between) -> bool:
    numbers = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(one, (int, float)) and bounds.least <= one <= bounds.most for one in numbers)


def allowed(hint: object) -> list[str]:
    """What a value of an annotated type may be, in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return [f"{word} {bounds}" for word, bounds in zip(allowed(parts[0]), parts[1:], strict=False)]
    if origin is Literal:
        return [repr(option) for option in parts]
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return [f"a list, each {' or '.join(allowed(parts[0]))}"]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [f"a table, each entry {' or '.join(allowed(parts[1]))}"]
    if parts:
        return [name for part in parts for name in allowed(part)]
    word = str(getattr(hint, "__name__", hint))
    return ["None" if hint is type(None) else f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"]


def shown(value: object) -> str:
    """A value in a message: shortened, however long or deep it is."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlist, short.maxtuple = 3, 80, 80, 8, 8
    try:
        return short.repr(list(value) if isinstance(value, tuple) else value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return f"a {type(value).__name__}"
