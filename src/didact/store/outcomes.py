"""What trained students answered, as parts under content-hash keys: a run that was killed finds the answers again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.store.parts import Parts

Answers = NDArray[np.generic]
_DETAILS = b"didact.outcome"


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


OutcomeT = TypeVar("OutcomeT", bound=OutcomeLike)


class OutcomeStore(Generic[OutcomeT]):
    """Outcomes in a folder of parts.

    Args:
        parts: where they are kept.
        make: builds an outcome from answers, the reason why they do not count, and details.
    """

    def __init__(self, parts: Parts, make: Callable[[Answers, str | None, Mapping[str, float]], OutcomeT]) -> None:
        self.parts = parts
        self._make = make

    def get(self, key: str) -> OutcomeT | None:
        """The outcome, or None where there is none yet."""
        if not self.parts.has(key):
            return None
        table = self.parts.read(key)
        about = json.loads((table.schema.metadata or {}).get(_DETAILS, b"{}"))
        columns = [table.column(name).to_numpy() for name in table.column_names]
        answers = np.stack(columns, axis=1) if len(columns) > 1 else columns[0]
        return self._make(answers, about.get("trouble"), about.get("details", {}))

    def put(self, key: str, outcome: OutcomeT) -> None:
        """Keep an outcome."""
        rows = np.asarray(outcome.answers)
        columns = {"answer": rows} if rows.ndim == 1 else {"first": rows[:, 0], "last": rows[:, 1]}
        details = {name: float(value) for name, value in outcome.details.items()}
        about = json.dumps({"trouble": outcome.failure, "details": details})
        table = pa.table({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})
        self.parts.write(key, table.replace_schema_metadata({_DETAILS: about.encode()}))
