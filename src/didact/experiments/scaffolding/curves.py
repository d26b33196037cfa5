"""Measures of students, the end and the area of their learning curves, and the curves as they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.simulation.gains import scores
from didact.simulation.simulability import Setting, Simulation
from didact.stats.crossed import pearson_values
from didact.types import Floats

AREA, END = "area", "end"


@dataclass(frozen=True)
class DrawnCurve:
    """The metric at every test on the way, over students.

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
    epochs: tuple[int, ...]
    means: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def drawn_curves(simulation: Simulation) -> list[DrawnCurve]:
    """Curves of every setting and method; empty where students were tested at the end alone."""
    curves = simulation.curves
    tables = curves.scores if simulation.truth is None else curves.answers
    drawn = []
    for setting, table in tables.items():
        for method, values in table.items():
            points = _by_student(values, simulation.truth)
            kept = points[np.isfinite(points).all(axis=1)]
            if len(kept):
                rows = (kept.mean(axis=0), *np.percentile(kept, [25, 75], axis=0))
                drawn.append(
                    DrawnCurve(setting, method, curves.epochs[setting], *(tuple(row.tolist()) for row in rows))
                )
    return drawn


def value_matrices(simulation: Simulation, measures: Sequence[str]) -> dict[Setting, dict[str, dict[str, Floats]]]:
    """Setting -> method -> measure -> matrix (students, test texts) whose mean is the measure."""
    end, area = (simulation.metric, AREA) if simulation.truth is None else ("pearson", f"pearson_{AREA}")
    tables = {measure: scores(simulation, end if measure == END else area) for measure in measures}
    return {
        setting: {method: {measure: tables[measure][setting][method] for measure in measures} for method in table}
        for setting, table in tables[END].items()
    }


def _by_student(values: Floats, truth: Floats | None) -> Floats:
    """The metric of every student at every point (students, points), from (students, points, texts)."""
    if truth is None:
        return np.asarray(values.mean(axis=-1))
    points = [pearson_values(values[:, at], truth).mean(axis=-1) for at in range(values.shape[1])]
    return np.stack(points, axis=1)
