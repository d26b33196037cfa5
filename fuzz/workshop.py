"""What the cases of one process share: a scratch folder, and things that are made once."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.cases import LIMIT


@dataclass
class Workshop:
    """A scratch folder that is removed at the end.

    Attributes:
        root: of everything that cases write.
        limit: seconds that a process may take which a case starts.
    """

    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="fuzz-")))
    limit: float = LIMIT
    _made: int = 0

    def fresh(self) -> Path:
        """A new empty folder."""
        self._made += 1
        folder = self.root / f"case-{self._made}"
        folder.mkdir(parents=True)
        return folder

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A new empty folder as working directory; it is removed afterwards, also where a case made it read-only."""
        place, before = self.fresh(), Path.cwd()
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)
            shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.root, ignore_errors=True)
