"""Comparison of one explainer's scores with each other explainer's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from didact.errors import InputError
from didact.metrics._words import mean_defined, shared_scores
from didact.protocols import Evidence
from didact.types import Explanation, Floats, Grade


def with_each_other(
    name: str, evidence: Evidence, magnitude: bool, compare: Callable[[Floats, Floats], float]
) -> list[Grade]:
    """One grade per explanation: the mean over the other explainers, each of them a part.

    Args:
        name: of the metric, for messages.
        evidence: with ``others``.
        magnitude: compare absolute scores.
        compare: judges two scores per word.
    """
    for label, others in evidence.others.items():
        if len(others) != len(evidence.explanations):
            raise InputError(
                f"{name}: {len(evidence.explanations)} explanations, but {len(others)} by {label}; "
                "explain the same texts with both"
            )

    def value(first: Explanation, second: Explanation) -> float:
        a, b = shared_scores(first, second)
        return compare(np.abs(a), np.abs(b)) if magnitude else compare(a, b)

    grades = []
    for number, explanation in enumerate(evidence.explanations):
        parts = {label: value(explanation, others[number]) for label, others in evidence.others.items()}
        grades.append(Grade(mean_defined(parts.values()), parts))
    return grades
