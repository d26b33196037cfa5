"""Judges from metrics: any registered metric that grades a single explanation can choose epochs, weights and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import ParameterError, UnknownNameError
from didact.metrics.base import METRICS
from didact.protocols import Evidence, Metric, Model
from didact.registry import unknown
from didact.trained.judging import Judge
from didact.types import Explanation, Floats

Measure = tuple[str, Mapping[str, object]]
"""A registered metric and its settings."""

_AT_20: Mapping[str, object] = {"percents": (20.0,), "rounding": "floor"}
AML_METRICS: Mapping[str, Measure] = {
    "suff": ("sufficiency", _AT_20),
    "lo": ("log_probability_drop", _AT_20),
    "comp": ("comprehensiveness", _AT_20),
    "aopc_suff": ("sufficiency", {"rounding": "floor"}),
    "aopc_comp": ("comprehensiveness", {"rounding": "floor"}),
}
"""The five metrics of AML: at 20 % of the units, and the mean over 1, 5, 10, 20 and 50 %. Its code divides that sum by
six, the paper and ERASER by five, as is done here."""

PANEL = ("log_odds_difference", "comprehensiveness", "sufficiency", "deletion_area", "insertion_area")
"""Metrics of a learned explainer on held-out texts: of words masked, deleted and kept, few of them and all in turn."""

GIVEN = frozenset({"model", "text", "classes", "rationale"})
"""What a judge has of what metrics need: the model, and the explanation with its text."""


def judge(metric: str, **settings: object) -> Judge:
    """The judge that grades by a metric.

    Args:
        metric: a registered name, or one of AML's five ("suff", "lo", "comp", "aopc_suff", "aopc_comp").
        **settings: of the metric.

    Raises:
        ParameterError: the metric has no direction, measures cost, or needs more than an explanation and the model.
    """
    made = metric_of(metric, **settings)
    card = made.card
    beyond = sorted(card.needs - GIVEN)
    if beyond:
        raise ParameterError(
            f"{metric} cannot choose between explanations of one text, as it needs {' and '.join(beyond)}; {_CURE}"
        )
    if card.higher_is_better is None or card.family == "efficiency":
        why = "has no direction" if card.higher_is_better is None else "measures their cost"
        raise ParameterError(f"{metric} cannot choose between explanations, as it {why}; {_CURE}")
    given = ", ".join(f"{setting}={value}" for setting, value in settings.items())
    shares = tuple(percent / 100 for percent in getattr(made, "percents", ()) if 0 < percent < 100)
    name, lower = f"{metric} ({given})" if given else metric, not card.higher_is_better
    return Judge(name, lower, MetricGrade(made), shares, of_classes="classes" in card.needs)


def panel() -> tuple[Judge, ...]:
    """The judges that a learned explainer is held against its reference by."""
    return tuple(judge(metric) for metric in PANEL)


def metric_of(name: str, **settings: object) -> Metric:
    """A registered metric, or one of AML's five, with its settings checked."""
    if name not in (known := (*AML_METRICS, *METRICS.names())):
        raise UnknownNameError(unknown("metric", name, known))
    registered, own = AML_METRICS.get(name, (name, {}))
    return METRICS.get(registered).configured(**{**own, **settings})


_CURE = f"choose one such as {', '.join(AML_METRICS)}"


@dataclass(frozen=True)
class MetricGrade:
    """The values of a metric as an array; other processes can be given it."""

    metric: Metric

    def __call__(self, model: Model, explanations: Sequence[Explanation]) -> Floats:
        """One value per explanation, NaN where the metric is not defined."""
        grades = self.metric.measure(Evidence(explanations, model))
        return np.array([grade.value for grade in grades], dtype=np.float64)
