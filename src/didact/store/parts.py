"""A folder of small tables, each under a key that says what it is the result of.

A run that was killed finds here what it had finished. The key is a hash of everything that decides the content (model,
data, explainer, metric, settings, examples), so two processes that write the same key write the same table, and one
folder may serve many runs at once. A part holds its key too, so that the file of another result is not taken for it.

    FOLDER/3f/3fa0c1….parquet      parts, by the first two digits of the key
    FOLDER/unfinished/             files being written; what a killed process left there is removed after a day
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from didact import disk
from didact.errors import FormatError, InputError, ParameterError
from didact.store import files

KEY = re.compile(r"[0-9a-f]{8,128}")
OWN = b"didact.part"
"""Under this name a part's metadata hold its key."""


class Parts:
    """Tables by key. A part is there whole or not at all.

    Args:
        root: the folder; made when the first part is written.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._unfinished = self.root / "unfinished"
        self._swept = False

    def has(self, key: str) -> bool:
        """Whether the part is finished."""
        return self._path(key).is_file()

    def read(self, key: str) -> pa.Table:
        """The part's table; a damaged or foreign file is named, and can be deleted."""
        path = self._path(key)
        if not path.is_file():
            raise InputError(f"there is no part {key} in {self.root}")
        table = files.read(path, sealed=True)
        metadata = dict(table.schema.metadata or {})
        own = metadata.pop(OWN, b"").decode(errors="replace")
        if own != key:
            given = f"the result {own}" if own else "no key, as an older version wrote it"
            raise FormatError(f"{path} holds {given} instead of {key}; delete it and run again")
        return table.replace_schema_metadata(metadata or None)

    def write(self, key: str, table: pa.Table) -> None:
        """Put the table under the key, in place of what was there."""
        path = self._path(key)
        own = table.replace_schema_metadata({**(table.schema.metadata or {}), OWN: key.encode()})
        data = files.as_bytes(own)
        self._make_room()
        with disk.replacing(path, self._unfinished) as file:
            file.write(data)

    def keys(self) -> Iterator[str]:
        """Keys of all finished parts, sorted."""
        names = (path.stem for path in self.root.glob("[0-9a-f][0-9a-f]/*.parquet"))
        return iter(sorted(key for key in names if KEY.fullmatch(key)))

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ParameterError(f"a key is 8 to 128 hexadecimal digits in lower case, got {key!r}")
        return self.root / key[:2] / f"{key}.parquet"

    def _make_room(self) -> None:
        try:
            self._unfinished.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise disk.refused(self.root, problem) from problem
        if not self._swept:
            self._swept = True
            disk.sweep(self._unfinished)
