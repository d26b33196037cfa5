"""Where a result came from: library versions and content hashes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("didact", "torch", "transformers", "numpy")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide a score."""
    installed = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            installed[library] = version(library)
        except PackageNotFoundError:
            installed[library] = "not installed"
    return installed


def content_hash(parts: Iterable[object]) -> str:
    """Short hash of JSON-able parts, the same in every process."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:16]


def display_name(name: str) -> str:
    """A name for reports: of an absolute path only its last part, since the rest holds on one machine only."""
    return Path(name).name if Path(name).is_absolute() else name
