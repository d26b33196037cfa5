"""A metric as training and refinement see it: how good explanations are, one value each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from didact.protocols import Model
from didact.types import Explanation, Floats


@dataclass(frozen=True)
class Judge:
    """Compares explanations of a model by a metric, which is passed in since this package knows none.

    Attributes:
        name: of the metric.
        lower_is_better: its direction.
        grade: one value per explanation, NaN where it is not defined.
    """

    name: str
    lower_is_better: bool
    grade: Callable[[Model, Sequence[Explanation]], Floats]
