"""What trained students answered, as parts under content-hash keys: a run that was killed finds the answers again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.store.parts import Parts

Answers = NDArray[np.generic]
Curve = tuple[tuple[int, int, Answers], ...]
"""Answers during the training: epoch, steps, answers."""
_DETAILS = b"didact.outcome"


class PointLike(Protocol):
    """What is kept of one time of a student's training."""

    @property
    def epoch(self) -> int:
        """Epochs until then."""
        ...

    @property
    def steps(self) -> int:
        """Steps until then."""
        ...

    @property
    def answers(self) -> Answers:
        """As those of the outcome."""
        ...


class OutcomeLike(Protocol):
    """What is kept of a student."""

    @property
    def answers(self) -> Answers:
        """One per test example: class numbers or numbers (examples,), or first and last character (examples, 2)."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the answers do not count; None where they do."""
        ...

    @property
    def details(self) -> Mapping[str, float]:
        """Numbers about the training."""
        ...

    @property
    def curve(self) -> Sequence[PointLike]:
        """Answers during the training; empty where there was no test."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=OutcomeLike)


class OutcomeStore(Generic[OutcomeT]):
    """Outcomes in a folder of parts.

    Args:
        parts: where they are kept.
        make: builds an outcome from answers, the reason why they do not count, details, and the learning curve.
    """

    def __init__(
        self, parts: Parts, make: Callable[[Answers, str | None, Mapping[str, float], Curve], OutcomeT]
    ) -> None:
        self.parts = parts
        self._make = make

    def get(self, key: str) -> OutcomeT | None:
        """The outcome, or None where there is none yet."""
        if not self.parts.has(key):
            return None
        table = self.parts.read(key)
        about = json.loads((table.schema.metadata or {}).get(_DETAILS, b"{}"))
        times = about.get("curve", [])
        columns = [table.column(name).to_numpy() for name in table.column_names]
        width = len(columns) // (1 + len(times))
        answers, *points = (_joined(columns[at : at + width]) for at in range(0, len(columns), width))
        curve = tuple((epoch, steps, own) for (epoch, steps), own in zip(times, points, strict=True))
        return self._make(answers, about.get("trouble"), about.get("details", {}), curve)

    def put(self, key: str, outcome: OutcomeT) -> None:
        """Keep an outcome."""
        columns = _columns(outcome.answers, "")
        for point in outcome.curve:
            columns |= _columns(point.answers, f"@{point.epoch}")
        details = {name: float(value) for name, value in outcome.details.items()}
        about: dict[str, object] = {"trouble": outcome.failure, "details": details}
        if outcome.curve:
            about["curve"] = [[point.epoch, point.steps] for point in outcome.curve]
        table = pa.table({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})
        self.parts.write(key, table.replace_schema_metadata({_DETAILS: json.dumps(about).encode()}))


def _columns(answers: Answers, suffix: str) -> dict[str, Answers]:
    rows = np.asarray(answers)
    if rows.ndim == 1:
        return {f"answer{suffix}": rows}
    return {f"first{suffix}": rows[:, 0], f"last{suffix}": rows[:, 1]}


def _joined(columns: Sequence[Answers]) -> Answers:
    return np.stack(columns, axis=1) if len(columns) > 1 else columns[0]
