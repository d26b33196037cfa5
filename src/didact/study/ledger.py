"""Events of a study in SQLite: appended, never changed, each at most once.

Every event has a key, and no two events have the same one: an answer that is sent twice, from two tabs or again after a
broken connection, is stored once. A write is one transaction that has reached the disk when it returns (write-ahead
log, full synchronisation), so a killed process loses nothing that was acknowledged and leaves nothing half done.
Triggers refuse to change an event; one is deleted only in ``erase``, which overwrites its bytes.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didact.errors import FormatError, InputError, StorageError

PATIENCE = 20.0
"""Seconds that a write waits for another process."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events(
  number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE,
  rater TEXT NOT NULL, page TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_rater ON events(rater, kind);
CREATE INDEX IF NOT EXISTS by_kind ON events(kind);
CREATE TABLE IF NOT EXISTS erased(number INTEGER PRIMARY KEY);
CREATE TRIGGER IF NOT EXISTS unchanged BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER IF NOT EXISTS kept BEFORE DELETE ON events
  WHEN OLD.number NOT IN (SELECT number FROM erased)
  BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
"""


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        number: events count upwards.
        time: seconds since 1970.
        kind: "invited", "registered", "joined", "session", "shown", "answered" or "erased".
        key: no two events have the same.
        rater: whose; "" where it is nobody's.
        page: of the rater; "" where it is about none.
        body: plain values.
    """

    number: int
    time: float
    kind: str
    key: str
    rater: str
    page: str
    body: dict[str, Any]


class Ledger:
    """The events of one study.

    Args:
        path: of the database; made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        with self.writing() as events:
            events.create()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Events]:
        """Events to read and append to: all of it is stored at the end of the block, or nothing."""
        db = self._connection()
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as problem:
            raise self._refused(problem) from None
        try:
            yield Events(db)
            db.execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back(db)
            raise self._refused(problem) from None
        except BaseException:
            self._roll_back(db)
            raise

    def reading(self) -> Events:
        """Events to read; what others write meanwhile may be among them."""
        return Events(self._connection())

    def erase(self, numbers: Sequence[int], note: tuple[str, dict[str, Any]]) -> None:
        """Delete events for good and append a note that something was deleted.

        Args:
            numbers: of the events.
            note: key and body of the event that takes their place.
        """
        with self.writing() as events:
            events.delete(numbers)
            events.append("erased", note[0], body=note[1])
        # The log still holds the deleted bytes; afterwards neither file does.
        self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close this thread's connection."""
        db = getattr(self._local, "db", None)
        if db is not None:
            db.close()
            self._local.db = None

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._connect()
        return db

    def _connect(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            db.execute(f"PRAGMA busy_timeout={int(1000 * PATIENCE)}")
            (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA secure_delete=ON")
        except sqlite3.Error as problem:
            raise self._refused(problem) from None
        if mode != "wal":
            raise InputError(
                f"{self.path} lies where SQLite cannot keep a write-ahead log; move the study to a local disk"
            )
        return db

    def _refused(self, problem: sqlite3.Error) -> InputError | FormatError:
        if isinstance(problem, sqlite3.OperationalError):
            return StorageError(f"cannot write {self.path}: {problem}; nothing was stored, try again")
        return FormatError(f"{self.path} is damaged or no database of a study ({problem}); restore a copy")

    @staticmethod
    def _roll_back(db: sqlite3.Connection) -> None:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")


class Events:
    """The table of events over one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def create(self) -> None:
        """Make what is missing of the schema."""
        for statement in _SCHEMA.replace("; END", "\x00 END").split(";"):
            if statement.strip():
                self._db.execute(statement.replace("\x00", ";"))

    def append(
        self, kind: str, key: str, *, rater: str = "", page: str = "", body: dict[str, Any] | None = None
    ) -> bool:
        """Append an event, unless there is one of this key; whether it was appended."""
        row = (time.time(), kind, f"{kind}:{key}", rater, page, json.dumps(body or {}, ensure_ascii=False))
        added = self._db.execute(
            "INSERT OR IGNORE INTO events(time, kind, key, rater, page, body) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        return added.rowcount == 1

    def get(self, kind: str, key: str) -> Event | None:
        """The event of this kind and key."""
        return next(self._select("key = ?", f"{kind}:{key}"), None)

    def all(self, *kinds: str, rater: str | None = None) -> list[Event]:
        """Events of some kinds in the order in which they came, of one rater or of all."""
        marks = ", ".join("?" * len(kinds))
        if rater is None:
            return list(self._select(f"kind IN ({marks})", *kinds))
        return list(self._select(f"rater = ? AND kind IN ({marks})", rater, *kinds))

    def newest(self) -> int:
        """The number of the newest event; 0 where there is none."""
        (number,) = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM events").fetchone()
        return int(number)

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete events."""
        rows = [(number,) for number in numbers]
        self._db.executemany("INSERT OR IGNORE INTO erased VALUES (?)", rows)
        self._db.executemany("DELETE FROM events WHERE number = ?", rows)
        self._db.execute("DELETE FROM erased")

    def _select(self, where: str, *values: str) -> Iterator[Event]:
        query = f"SELECT number, time, kind, key, rater, page, body FROM events WHERE {where} ORDER BY number"
        for number, moment, kind, key, rater, page, body in self._db.execute(query, values):
            yield Event(number, moment, kind, key.partition(":")[2], rater, page, json.loads(body))
