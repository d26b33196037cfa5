"""Checks on data that comes from outside: JSON texts, and the values in them.

Each check returns the value as what it has to be, or refuses it with its name, so that a reader is a list of what it
expects.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from didact.errors import FormatError, InputError

DEEPEST = 100
"""Levels of lists and objects in each other that are read; what people write has a handful."""


def parse_json(text: str | bytes, where: str = "") -> object:
    """The value of a JSON text.

    Args:
        text: the whole document.
        where: what it is and where it stands, for the message.

    Raises:
        FormatError: it is not JSON, is nested too deeply, or has a number of thousands of digits.
    """
    start = f"{where}: " if where else ""
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as problem:
        raise FormatError(f"{start}not JSON ({problem.msg} at line {problem.lineno}, {problem.colno})") from None
    except RecursionError:
        raise FormatError(f"{start}JSON nested deeper than {DEEPEST} levels cannot be read") from None
    except ValueError as problem:  # a whole number of thousands of digits, or bytes in another encoding
        raise FormatError(f"{start}not JSON that can be read ({problem})") from None
    if _is_deep(value):
        raise FormatError(f"{start}JSON nested deeper than {DEEPEST} levels cannot be read")
    return value


def dump_json(value: object, *, indent: int | None = None) -> str:
    """Plain values as JSON that can be written and printed anywhere.

    Other scripts stay readable; halves of surrogate pairs, which no file takes, and control characters, which may act
    on a terminal, are escaped. Numbers of numpy are written as the numbers they are.

    Raises:
        FormatError: there is a value that JSON does not have, or lists that are nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, default=_number)
    except (TypeError, ValueError, RecursionError) as problem:
        raise FormatError(
            f"this cannot be written as JSON ({problem}); give texts, numbers, lists and mappings"
        ) from None
    return re.sub("[\x7f-\x9f\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _number(value: object) -> object:
    """A number of numpy as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"there is a {type(value).__name__}")


def check_unicode(text: str, what: str) -> None:
    """Refuse half of a surrogate pair, which no tokenizer, hash or file can take; its place is named."""
    if not isinstance(text, str):
        raise InputError(f"{what} must be text, got {shown(text)}")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            f"{what} is not valid Unicode: character {problem.start} is half of a surrogate pair "
            f"(U+{ord(text[problem.start]):04X}); read it with the right encoding, or replace it: "
            "text.encode('utf-8', 'replace').decode()"
        ) from None


def text_value(value: object, name: str) -> str:
    """A string of valid Unicode."""
    if not isinstance(value, str):
        raise FormatError(f"{name} must be text, got {shown(value)}")
    try:
        check_unicode(value, name)
    except InputError as problem:
        raise FormatError(str(problem)) from None
    return value


def whole_number(value: object, name: str, low: int = 0) -> int:
    """A whole number that is not smaller than ``low``; true and false are none."""
    if type(value) is not int or value < low:
        raise FormatError(f"{name} must be a whole number, at least {low}, got {shown(value)}")
    return value


def finite_number(value: object, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number within a range, as a float; true and false are none."""
    bounds = "" if low == -math.inf else f" from {low:g}" + ("" if high == math.inf else f" to {high:g}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and low <= number <= high:
            return number
    raise FormatError(f"{name} must be a finite number{bounds}, got {shown(value)}")


def truth_value(value: object, name: str) -> bool:
    """True or false, and nothing that stands for it."""
    if not isinstance(value, bool):
        raise FormatError(f"{name} must be true or false, got {shown(value)}")
    return value


def list_value(value: object, name: str) -> Sequence[object]:
    """A list (or a tuple), no text."""
    if not isinstance(value, (list, tuple)):
        raise FormatError(f"{name} must be a list, got {shown(value)}")
    return value


def object_value(
    value: object, name: str, needed: Sequence[str] = (), optional: Sequence[str] | None = None
) -> Mapping[str, object]:
    """A mapping with text keys.

    Args:
        value: what was read.
        name: of the value, for the message.
        needed: keys that must be there.
        optional: keys that may be there besides; any when not given.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise FormatError(f"{name} must be an object with named entries, got {shown(value)}")
    missing = [key for key in needed if key not in value]
    if missing:
        raise FormatError(f"{name}: field {missing[0]!r} is missing")
    known = None if optional is None else (*needed, *optional)
    unknown = [] if known is None else sorted(value.keys() - set(known))
    if known is not None and unknown:
        raise FormatError(f"{name}: unknown field {unknown[0]!r:.60}; known are {', '.join(known)}")
    return value


def plain_value(value: object, name: str) -> str | int | float | bool | None:
    """A text, a finite number, true, false or null."""
    if value is None or isinstance(value, bool) or type(value) is int:
        return value
    return text_value(value, name) if isinstance(value, str) else finite_number(value, name)


def shown(value: object) -> str:
    """A value for a message: its type and the beginning of it, however large or deep it is."""
    try:
        return f"{type(value).__name__} {value!r:.60}"
    except (RecursionError, ValueError):  # nested too deeply, or thousands of digits
        return type(value).__name__


def _is_deep(value: object) -> bool:
    """Whether lists and objects are nested deeper than ``DEEPEST``; level by level, so that no depth is a problem."""
    level = [value]
    for _ in range(DEEPEST + 1):
        containers = [one for one in level if isinstance(one, (dict, list))]
        if not containers:
            return False
        level = [inner for outer in containers for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return True
