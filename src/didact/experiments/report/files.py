"""Writing a report in the formats chosen."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from didact import disk
from didact.errors import ParameterError

F = TypeVar("F")


def write_files(
    findings: F, folder: Path, files: Mapping[str, tuple[str, Callable[[F], str]]], formats: Sequence[str]
) -> list[Path]:
    """Write findings into a folder and return the paths of the files, in the order of ``files``.

    Args:
        findings: what the report shows.
        folder: of the run.
        files: format -> name of its file, and what turns findings into its text.
        formats: which of them to write.
    """
    for form in formats:
        if form not in files:
            raise ParameterError(f"a report cannot be written as {form!r}; allowed are {', '.join(files)}")
    written = []
    for form, (name, writer) in files.items():
        if form in formats:
            path = folder / name
            disk.write_text(path, writer(findings))
            written.append(path)
    return written


def json_text(values: object) -> str:
    """Plain values as JSON, null where there is no number."""
    return json.dumps(without_nan(values), indent=1, ensure_ascii=False) + "\n"


def without_nan(values: object) -> object:
    """Plain values with None in place of numbers that are not finite; tuples become lists."""
    if isinstance(values, Mapping):
        return {key: without_nan(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [without_nan(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values
