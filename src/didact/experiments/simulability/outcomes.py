"""Simulations on disk: what each student answered as a part, and all scores as one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from didact.errors import FormatError, InputError
from didact.simulation.simulability import NONE, Failure, Setting, Simulation
from didact.store import files
from didact.store.parts import Parts
from didact.students.base import StudentOutcome
from didact.types import Floats

TEACHER = "teacher"
"""The row of a table of numbers that holds the teacher's own."""

SCHEMA = pa.schema(
    [
        pa.field("student", pa.string(), nullable=False),
        pa.field("channel", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("control", pa.bool_(), nullable=False),
        pa.field("subset", pa.int64(), nullable=False),
        pa.field("scores", pa.list_(pa.float64())),
        pa.field("answers", pa.list_(pa.float64())),
        pa.field("trouble", pa.string()),
    ]
)
"""A row per student and channel: its score on every exam text, or why it does not count; "none" is repeated for each
channel. ``answers`` are kept of numbers only."""

_METRIC = b"didact.metric"


class OutcomeStore:
    """Outcomes in a folder of parts; a run that was killed finds them again."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def get(self, key: str) -> StudentOutcome | None:
        """The outcome, or None where there is none yet."""
        if not self.parts.has(key):
            return None
        table = self.parts.read(key)
        told = json.loads((table.schema.metadata or {}).get(b"didact.outcome", b"{}"))
        columns = [table.column(name).to_numpy() for name in table.column_names]
        answers = np.stack(columns, axis=1) if len(columns) > 1 else columns[0]
        return StudentOutcome(answers, told.get("trouble"), told.get("details", {}))

    def put(self, key: str, outcome: StudentOutcome) -> None:
        """Keep an outcome."""
        rows = np.asarray(outcome.answers)
        columns = {"answer": rows} if rows.ndim == 1 else {"first": rows[:, 0], "last": rows[:, 1]}
        told = {"trouble": outcome.failure, "details": {name: float(v) for name, v in outcome.details.items()}}
        table = pa.table({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})
        self.parts.write(key, table.replace_schema_metadata({b"didact.outcome": json.dumps(told).encode()}))


def write(path: Path, simulation: Simulation) -> None:
    """All scores as a table."""
    table = pa.Table.from_pylist(list(_rows(simulation)), SCHEMA)
    files.write(path, table.replace_schema_metadata({_METRIC: simulation.metric.encode()}))


def read(path: Path) -> Simulation:
    """The simulation that ``write`` wrote; a file that holds something else is named."""
    table = files.read(path)
    if table.schema.names != SCHEMA.names:
        raise FormatError(f"{path} is no table of students: its columns are {', '.join(table.schema.names)}")
    metric = (table.schema.metadata or {}).get(_METRIC, b"accuracy").decode()
    rows = table.to_pylist()
    truth = next((np.array(row["answers"]) for row in rows if row["method"] == TEACHER and not row["student"]), None)
    rows = [row for row in rows if row["student"]]
    if not rows:
        raise InputError(f"{path} holds no student")
    troubles = tuple(
        Failure(_setting(row), row["method"], row["subset"], row["trouble"])
        for row in rows
        if row["trouble"] is not None
    )
    controls = frozenset(row["method"] for row in rows if row["control"])
    answers = _matrices(rows, "answers") if truth is not None else {}
    return Simulation(_matrices(rows, "scores"), troubles, controls, metric, answers, truth)


def _rows(simulation: Simulation) -> Iterator[dict[str, Any]]:
    troubles = {(one.setting, one.method, one.subset): one.why for one in simulation.failures}
    if simulation.truth is not None:
        empty = {"student": "", "channel": "", "size": 0, "method": TEACHER, "control": False, "subset": 0}
        yield empty | {"scores": None, "answers": simulation.truth.tolist(), "trouble": None}
    for setting, table in simulation.scores.items():
        for method, matrix in table.items():
            for subset, scores in enumerate(matrix):
                why = troubles.get((setting, method, subset))
                given = simulation.answers[setting][method][subset] if simulation.answers else None
                counts = bool(np.isfinite(scores).all())
                if counts or why is not None:
                    yield {
                        **vars(setting),
                        "method": method,
                        "control": method in simulation.controls,
                        "subset": subset,
                        "scores": scores.tolist() if counts else None,
                        "answers": given.tolist() if counts and given is not None else None,
                        "trouble": why,
                    }


def _matrices(rows: list[dict[str, Any]], column: str) -> dict[Setting, dict[str, Floats]]:
    items = next((len(row[column]) for row in rows if row[column] is not None), 0)
    found: dict[Setting, dict[str, Floats]] = {}
    subsets: dict[Setting, int] = {}
    for row in rows:
        subsets[_setting(row)] = max(subsets.get(_setting(row), 0), row["subset"] + 1)
    for row in rows:
        setting = _setting(row)
        table = found.setdefault(setting, {NONE: np.full((subsets[setting], items), np.nan)})
        matrix = table.setdefault(row["method"], np.full((subsets[setting], items), np.nan))
        if row[column] is not None:
            matrix[row["subset"]] = row[column]
    return found


def _setting(row: dict[str, Any]) -> Setting:
    return Setting(row["student"], row["channel"], row["size"])
