"""Judges: how a measure of explanations reaches training, which knows no metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import ParameterError
from didact.protocols import Model
from didact.types import Explanation, Floats


@dataclass(frozen=True)
class Judge:
    """Grades explanations; epochs, and maps of one text, are compared by it.

    Attributes:
        name: of the measure, for the explainer's card and for details of explanations.
        lower_is_better: its direction.
        grade: model and explanations -> a value each, NaN where the measure is not defined.
        shares: of the units that the measure takes out or keeps; empty where it does nothing of the kind.
        of_classes: whether it is about probabilities of classes, and grades no other predictions.
    """

    name: str
    lower_is_better: bool
    grade: Callable[[Model, Sequence[Explanation]], Floats]
    shares: tuple[float, ...] = ()
    of_classes: bool = False

    def grades(self, model: Model, explanations: Sequence[Explanation]) -> Floats:
        """One value per explanation; refused where the measure returns another number of values."""
        values = np.asarray(self.grade(model, explanations), dtype=np.float64)
        if values.shape != (len(explanations),):
            raise ParameterError(
                f"{self.name} must return a value per explanation, {len(explanations)} in all; got an array of shape "
                f"{values.shape}"
            )
        return values

    def mean(self, model: Model, explanations: Sequence[Explanation]) -> float:
        """Mean over the explanations on which the measure is defined; NaN where it is on none."""
        values = self.grades(model, explanations)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def selected_on_text(measure: str, maps: int) -> str:
    """The warning of an explanation that a measure chose on the explained text itself."""
    return (
        f"Selected on this text by {measure}, out of {maps} maps: it flatters this explanation, so compare it by that "
        "measure only with explainers that may choose in the same way."
    )
