"""Writing a report in the formats asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from didact.errors import InputError, ParameterError

Findings = TypeVar("Findings")


def write_files(
    findings: Findings,
    folder: Path,
    files: Mapping[str, tuple[str, Callable[[Findings], str]]],
    formats: Sequence[str],
) -> list[Path]:
    """Write findings into a folder; gives the files in the order of ``files``.

    Args:
        findings: what the report says.
        folder: of the run.
        files: format -> its file and its writer.
        formats: which of them.
    """
    for form in formats:
        if form not in files:
            raise ParameterError(f"a report cannot be written as {form!r}; allowed are {', '.join(files)}")
    written = []
    for form, (name, writer) in files.items():
        if form in formats:
            path = folder / name
            try:
                path.write_text(writer(findings), encoding="utf-8")
            except OSError as problem:
                raise InputError(f"cannot write {path}: {problem.strerror}") from None
            written.append(path)
    return written
