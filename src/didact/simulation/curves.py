"""Learning curves: how well students imitate the teacher during their training, and which of their epochs counts.

One number for a whole curve is its area (``didact.stats.curves``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.simulation.scoring import LOWER_IS_BETTER, item_scores
from didact.stats.crossed import pearson_values
from didact.students.base import CurvePoint, LabelledExample, StudentOutcome
from didact.types import AnswerKind

AREA = "area"
"""The metric of whole curves; ``area_of`` reads names such as "pearson_area"."""


def area_of(metric: str, usual: str) -> tuple[str, bool]:
    """The metric of a single time, and whether the area of its curve is meant.

    Args:
        metric: "area", the name of a metric, or one with "_area" behind it.
        usual: the metric whose area is called "area".

    >>> area_of("area", "accuracy"), area_of("pearson_area", "squared_error"), area_of("rmse", "squared_error")
    (('accuracy', True), ('pearson', True), ('rmse', False))
    """
    if metric == AREA:
        return usual, True
    suffix = f"_{AREA}"
    return metric.removesuffix(suffix), metric.endswith(suffix)


def points(outcome: StudentOutcome) -> tuple[CurvePoint, ...]:
    """A student's learning curve; one point for students that are not trained in epochs."""
    return outcome.curve or (CurvePoint(1, 1, outcome.answers),)


def best_point(
    curve: Sequence[CurvePoint], validation: Sequence[LabelledExample], kind: AnswerKind, metric: str
) -> int:
    """Number of the point with the best answers to the validation texts, which come first; the earliest of equals.

    Numbers are compared by their correlation with the teacher's, everything else by the metric.
    """
    values = [_validation_score(point, validation, kind, metric) for point in curve]
    return int(np.argmax(np.nan_to_num(values, nan=-np.inf)))


def _validation_score(point: CurvePoint, validation: Sequence[LabelledExample], kind: AnswerKind, metric: str) -> float:
    answers = point.answers[: len(validation)]
    if kind == "number":
        truth = [labelled.answer for labelled in validation]
        return float(pearson_values(np.asarray(answers)[None], np.asarray(truth, dtype=np.float64)).mean())
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    return sign * float(item_scores(kind, answers, validation, metric).mean())
