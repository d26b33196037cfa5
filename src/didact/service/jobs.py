"""Work that is too costly for one request: kept in SQLite, computed in the background, there after a restart."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from didact.errors import InputError

DAY = 86_400.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, created REAL NOT NULL, ended REAL, state TEXT NOT NULL, body TEXT NOT NULL,
    total INTEGER NOT NULL, failure TEXT
);
CREATE TABLE IF NOT EXISTS parts (
    job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, number INTEGER NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
"""


@dataclass(frozen=True)
class JobStatus:
    """A job as its owner sees it.

    Attributes:
        id: a name that nobody guesses.
        state: "waiting", "running", "done" or "failed".
        done: inputs with a result.
        total: inputs.
        created: seconds since 1970.
        ended: the same, or None.
        failure: why it failed as a whole; None where it did not.
    """

    id: str
    state: str
    done: int
    total: int
    created: float
    ended: float | None
    failure: str | None


class JobStore:
    """Jobs and the results of their inputs in one file; each change is one transaction.

    Args:
        path: created where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._file.executescript(f"PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; {SCHEMA}")
        except (OSError, sqlite3.Error) as problem:
            raise InputError(f"cannot keep jobs in {path}: {problem}; name another file") from None

    def add(self, body: str, total: int) -> str:
        """Keep a new job; returns its id."""
        name = secrets.token_urlsafe(16)
        with self._transaction() as file:
            values = (name, time.time(), "waiting", body, total)
            file.execute("INSERT INTO jobs (id, created, state, body, total) VALUES (?, ?, ?, ?, ?)", values)
        return name

    def status(self, job: str) -> JobStatus | None:
        """How far a job is; None where there is none of this id."""
        with self._transaction() as file:
            row = file.execute(
                "SELECT id, state, (SELECT COUNT(*) FROM parts WHERE job = id), total, created, ended, failure "
                "FROM jobs WHERE id = ?",
                (job,),
            ).fetchone()
        return None if row is None else JobStatus(*row)

    def body(self, job: str) -> str:
        """The request as it was sent."""
        with self._transaction() as file:
            row = file.execute("SELECT body FROM jobs WHERE id = ?", (job,)).fetchone()
        return "" if row is None else str(row[0])

    def results(self, job: str) -> dict[int, str]:
        """Results by the number of their input."""
        with self._transaction() as file:
            return dict(file.execute("SELECT number, result FROM parts WHERE job = ? ORDER BY number", (job,)))

    def unfinished(self) -> list[str]:
        """Jobs with something left to compute, oldest first."""
        query = "SELECT id FROM jobs WHERE state IN ('waiting', 'running') ORDER BY created"
        with self._transaction() as file:
            return [row[0] for row in file.execute(query)]

    def save(self, job: str, results: Sequence[tuple[int, str]]) -> None:
        """Keep results; those of a job that was deleted meanwhile are dropped, and none is kept twice."""
        with self._transaction() as file:
            if file.execute("UPDATE jobs SET state = 'running' WHERE id = ?", (job,)).rowcount:
                rows = [(job, number, result) for number, result in results]
                file.executemany("INSERT OR IGNORE INTO parts VALUES (?, ?, ?)", rows)

    def end(self, job: str, failure: str | None = None) -> None:
        """Mark a job as done or failed."""
        with self._transaction() as file:
            values = ("done" if failure is None else "failed", failure, time.time(), job)
            file.execute("UPDATE jobs SET state = ?, failure = ?, ended = ? WHERE id = ?", values)

    def delete(self, job: str) -> bool:
        """Remove a job with its texts and results; whether there was one."""
        with self._transaction() as file:
            return bool(file.execute("DELETE FROM jobs WHERE id = ?", (job,)).rowcount)

    def expire(self, days: float) -> None:
        """Remove jobs that ended so long ago."""
        with self._transaction() as file:
            file.execute("DELETE FROM jobs WHERE ended < ?", (time.time() - days * DAY,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield self._file
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")
