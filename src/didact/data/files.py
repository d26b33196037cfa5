"""Reads examples from text files and JSON lines; what is wrong is told with file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from didact.errors import FormatError, InputError
from didact.types import Example, Span

SUFFIXES = (".txt", ".jsonl")


def read_examples(path: Path) -> list[Example]:
    """One example per line: plain text, or for .jsonl an object with "text" and perhaps "text_pair", "label", ..."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a file ({', '.join(SUFFIXES)})")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text; give a {' or '.join(SUFFIXES)} file") from None
    return read_lines(lines, str(path), as_json=path.suffix == ".jsonl")


def read_lines(lines: Iterable[str], source: str, *, as_json: bool = False) -> list[Example]:
    """Examples from non-blank lines; ``source`` names them in messages."""
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            found.append(_from_json(line, f"{source}, line {number}") if as_json else Example(line.strip()))
    if not found:
        raise InputError(f"{source} holds no text")
    return found


def _from_json(line: str, where: str) -> Example:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as problem:
        raise FormatError(f"{where}: not JSON ({problem.msg})") from None
    if not isinstance(data, dict):
        raise FormatError(f"{where}: expected an object with a field 'text', got {type(data).__name__}")
    for name, kinds, needed in (
        ("text", str, True),
        ("text_pair", str, False),
        ("label", (str, int), False),
        ("id", (str, int), False),
    ):
        _check(data, name, kinds, needed, where)
    identity = data.get("id")
    return Example(
        text=data["text"],
        text_pair=data.get("text_pair"),
        label=data.get("label"),
        rationale=_spans(data.get("rationale"), where),
        id=None if identity is None else str(identity),
    )


def _check(data: dict[str, Any], name: str, kinds: Any, needed: bool, where: str) -> None:
    value = data.get(name)
    if value is None and needed:
        raise FormatError(f"{where}: field {name!r} is missing; found {', '.join(sorted(data)) or 'no field'}")
    if value is not None and not isinstance(value, kinds):
        raise FormatError(f"{where}: field {name!r} must be text, got {type(value).__name__}")


def _spans(value: object, where: str) -> tuple[Span, ...] | None:
    if value is None:
        return None
    try:
        return tuple(Span(*(int(number) for number in span)) for span in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise FormatError(f"{where}: field 'rationale' must be a list of [start, end] or [start, end, field]") from None
