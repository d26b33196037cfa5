"""JSON objects that runs write: manifests, summaries, extras."""

from __future__ import annotations

import json
from pathlib import Path

from didact.errors import FormatError, InputError
from didact.experiments.engine.toml import Plain


def read_object(path: Path, missing: str) -> Plain:
    """The object that a JSON file holds.

    Args:
        path: of the file.
        missing: the message where there is no such file.

    Raises:
        InputError: the file is missing.
        FormatError: it holds something else than a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(missing) from None
    except ValueError as problem:
        raise FormatError(f"{path} is not JSON ({problem}); run the recipe again") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} holds a {type(content).__name__} instead of an object; run the recipe again")
    return content
