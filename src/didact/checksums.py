"""Checksums of what is stored, so that a flipped bit or a file of something else is refused and never used.

seal(data), is_whole(data)              files with a head or a foot of their own: the digest stands inside
sealed(values), check_sealed(...)       JSON objects: the digest is one entry more
write_hashes(folder), check_hashes(…)   folders of files that other libraries write: digests in a file beside them
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from didact import disk
from didact.errors import FormatError

MARK = "didact.sha256"
"""Under this name a file's metadata hold the digest."""

BLANK = "0" * 64
"""In the digest's place while it is computed."""

ENTRY = "checksum"
"""The entry of a JSON object that holds its digest."""

HASHES = "checksums.json"
"""The file of a folder that holds the digests of the others."""

_PLACE = re.compile(re.escape(MARK.encode()) + rb"[^0-9a-f]{2,3}([0-9a-f]{64})")


def seal(data: bytes) -> bytes:
    """The file's bytes with their digest in the place that holds ``BLANK`` under ``MARK``."""
    place = _place(data)
    if place is None:
        raise ValueError(f"the metadata hold no {MARK}")
    return data[: place.start(1)] + _digest(data, place).encode() + data[place.end(1) :]


def is_whole(data: bytes) -> bool | None:
    """Whether the digest inside is that of the bytes; None where there is none."""
    if MARK.encode() not in data:
        return None
    place = _place(data)
    return place is not None and place[1].decode() == _digest(data, place)


def read_whole(path: Path, *, needed: bool) -> bytes:
    """The bytes of a file whose digest stands inside.

    Args:
        path: of the file.
        needed: whether a file without a digest, as older versions wrote them, is refused too.

    Raises:
        ValueError: the digest differs, or is missing and needed.
    """
    data = path.read_bytes()
    whole = is_whole(data)
    if whole is False or (needed and whole is None):
        raise ValueError("it is damaged: its checksum differs" if whole is False else "it has no checksum")
    return data


def _place(data: bytes) -> re.Match[bytes] | None:
    """Where the digest stands: the first or the last such place, as metadata stand at either end of a file."""
    last, first = data.rfind(MARK.encode()), data.find(MARK.encode())
    return None if last < 0 else _PLACE.match(data, last) or _PLACE.match(data, first)


def _digest(data: bytes, place: re.Match[bytes]) -> str:
    view = memoryview(data)
    digest = hashlib.sha256(view[: place.start(1)])
    digest.update(BLANK.encode())
    digest.update(view[place.end(1) :])
    return digest.hexdigest()


def sealed(values: Mapping[str, object]) -> dict[str, object]:
    """The values with the digest of all of them as a last entry."""
    plain = {name: value for name, value in values.items() if name != ENTRY}
    return {**plain, ENTRY: _values_digest(plain)}


def check_sealed(values: Mapping[str, object], where: Path, cure: str) -> None:
    """Refuse values that are not those that ``sealed`` was given; without a digest nothing is checked."""
    plain = {name: value for name, value in values.items() if name != ENTRY}
    if ENTRY in values and values[ENTRY] != _values_digest(plain):
        raise FormatError(f"{where} is damaged or was changed: its checksum differs; {cure}")


def _values_digest(plain: Mapping[str, object]) -> str:
    stored = json.loads(json.dumps(plain, default=list))  # as it is read again: tuples are lists
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(folder: Path) -> dict[str, str]:
    """Every file in a folder and the folders in it -> its SHA-256."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_hash(path) for path in paths}


def write_hashes(folder: Path) -> None:
    """Write the digests of all files of a folder beside them."""
    found = {name: digest for name, digest in hashes(folder).items() if name != HASHES}
    disk.write_text(folder / HASHES, json.dumps(sealed({"files": found}), indent=1) + "\n")


def check_hashes(folder: Path, cure: str, *, needed: bool = False) -> None:
    """Refuse a folder whose files are not those that ``write_hashes`` saw.

    Args:
        folder: of the files.
        cure: what to do about it, for the message.
        needed: refuse a folder without digests; otherwise it is not checked.
    """
    path = folder / HASHES
    if not path.is_file():
        if needed:
            raise FormatError(f"{folder} is not complete: {HASHES} is missing; {cure}")
        return
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        files = dict(values["files"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(f"{path} is damaged; {cure}") from None
    if ENTRY not in values:
        raise FormatError(f"{path} is damaged: it has no checksum; {cure}")
    check_sealed(values, path, cure)
    check_files(folder, files.items(), cure)


def check_files(folder: Path, files: Iterable[tuple[str, str]], cure: str) -> None:
    """Refuse files that are missing, lie outside of the folder, or are not the ones whose digests these are."""
    for name, digest in files:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            raise FormatError(f"{folder} names a file outside of itself, {name!r}; {cure}")
        path = folder / name
        if not path.is_file():
            raise FormatError(f"{folder} is not complete: {name} is missing; {cure}")
        if digest != file_hash(path):
            raise FormatError(f"{path} is not the file that was saved: its hash differs; {cure}")
