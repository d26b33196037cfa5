"""Where a result came from: library versions and content hashes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FINGERPRINT = 32
"""Letters of a model's fingerprint."""

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


def content_hash(parts: Iterable[object], length: int = 16) -> str:
    """Short hash of JSON-able parts, the same in every process; 4 bits per letter."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:length]


def fingerprint(parts: Iterable[object]) -> str:
    """Hash of everything that decides a model's predictions."""
    return content_hash(parts, FINGERPRINT)


def is_sampled(given: str) -> bool:
    """Whether a stored fingerprint was made by an earlier version, from a sample of the weights and the path."""
    return len(given) == 16 and set(given) <= set("0123456789abcdef")


def display_name(name: str) -> str:
    """A name for reports: of an absolute path only its last part, since the rest holds on one machine only."""
    return Path(name).name if Path(name).is_absolute() else name
