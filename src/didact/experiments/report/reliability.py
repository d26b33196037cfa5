"""How well metrics rank explanations of known quality, as it was measured on planted truth: for the foot of reports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RECORD = Path(__file__).with_name("reliability.json")
"""What was measured, by kind of text and metric; ``python -m benchmarks.metric_quality`` writes it."""


@dataclass(frozen=True)
class Reliability:
    """How well a metric ranks explanations of known quality.

    Attributes:
        metric: its name.
        ordered: mean over texts of the share of pairs in the right order.
        low: lower end of its 95 % interval; NaN where there are too few texts.
        high: upper end.
        n: texts with pairs to compare.
    """

    metric: str
    ordered: float
    low: float
    high: float
    n: int


def notes(metrics: Iterable[str]) -> tuple[str, ...]:
    """What is known of these metrics, for the notes of a report; none where none was graded."""
    graded = sentence(metrics)
    return (graded,) if graded else ()


def sentence(metrics: Iterable[str]) -> str:
    """The same as a sentence, which is empty where none was graded."""
    known = {metric: _known(metric) for metric in dict.fromkeys(metrics)}
    shown = [f"{metric} {' and '.join(f'{v:.2f}' for v in values)}" for metric, values in known.items() if values]
    if not shown:
        return ""
    kinds = " and ".join(record())
    return (
        f"How often metrics order explanations of known quality rightly, on {kinds} (planted truth; chance 0.50): "
        f"{', '.join(shown)}."
    )


@cache
def record() -> dict[str, dict[str, Reliability]]:
    """What was measured when this version was made: kind of text -> metric -> its reliability."""
    if not RECORD.is_file():
        return {}
    kinds = json.loads(RECORD.read_text(encoding="utf-8"))["kinds"]
    return {kind: {row["metric"]: _read(row) for row in rows} for kind, rows in kinds.items()}


def _read(row: dict[str, object]) -> Reliability:
    """A row of the record; NaN in place of None."""
    return Reliability(**{name: math.nan if value is None else value for name, value in row.items()})  # type: ignore[arg-type]


def _known(metric: str) -> list[float]:
    """Of a metric on every kind of text; empty where it was not graded on all."""
    rows = [known[metric] for known in record().values() if metric in known]
    return [row.ordered for row in rows] if len(rows) == len(record()) else []
