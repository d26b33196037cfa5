"""Results on disk: a file that could not be written where it should be is kept elsewhere."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from didact import disk
from didact.cli import printing
from didact.errors import InputError


def save(data: bytes, path: Path) -> None:
    """Write a result to a file, and print its path."""
    try:
        disk.write_bytes(path, data)
    except InputError as problem:
        raise InputError(f"{problem}; {_rescue(data, path)}") from None
    printing.line(path)


def _rescue(data: bytes, path: Path) -> str:
    """Keep a result that could not be written where it should be."""
    try:
        handle, name = tempfile.mkstemp(suffix=path.suffix, prefix="didact-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError:
        printing.document(data.decode("utf-8", "replace"))
        return "the result was printed instead"
    return f"the result is in {name}"
