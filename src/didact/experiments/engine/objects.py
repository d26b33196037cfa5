"""JSON objects that runs write: manifests, summaries, extras."""

from __future__ import annotations

import json
from pathlib import Path

from didact import checksums, disk
from didact.errors import FormatError, InputError
from didact.experiments.engine.toml import Options, Plain


def write_object(path: Path, values: Options) -> None:
    """Write a JSON object with its checksum."""
    disk.write_text(path, json.dumps(checksums.sealed(values), indent=1, ensure_ascii=False, default=list) + "\n")


def read_object(path: Path, missing: str, cure: str = "run the recipe again") -> Plain:
    """The object that a JSON file holds, without its checksum; older files have none.

    Args:
        path: of the file.
        missing: the message where there is no such file.
        cure: what to do about a damaged one, for the message.

    Raises:
        InputError: the file is missing.
        FormatError: it is damaged, or holds something else than a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(missing) from None
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise FormatError(f"{path} is not JSON ({problem}); {cure}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} holds a {type(content).__name__} instead of an object; {cure}")
    checksums.check_sealed(content, path, cure)
    content.pop(checksums.ENTRY, None)
    return content
