"""The grades of a study: every metric on every explanation, with the counts that micro averages are made of."""

from __future__ import annotations

from collections.abc import Sequence

from didact.experiments.engine.toml import Entry
from didact.experiments.masking.judges import metric_of
from didact.protocols import Evidence, Model
from didact.provenance import content_hash
from didact.types import Explanation

COUNTS = ("hits", "selected", "gold")
"""Parts of a grade that are recorded too: their sums give the micro average of an F1."""


class StudyMetrics:
    """Metrics by label.

    Args:
        entries: registered metrics, or AML's five, with their settings.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._metrics = {one.label: metric_of(one.name, **one.settings) for one in entries}

    @property
    def needs_surrogate(self) -> bool:
        """Whether a metric grades with a surrogate of the model."""
        return any("surrogate" in metric.card.needs for metric in self._metrics.values())

    @property
    def identity(self) -> str:
        """Hash of all metrics and their settings."""
        return content_hash([[label, one.card.name, dict(one.parameters)] for label, one in self._metrics.items()])

    def grades(
        self, explained: Sequence[Explanation], model: Model, surrogate: Model | None = None
    ) -> dict[str, list[float]]:
        """Label -> one value per explanation; counts as "LABEL: COUNT"."""
        evidence = Evidence(explained, model, surrogate=surrogate)
        columns: dict[str, list[float]] = {}
        for label, metric in self._metrics.items():
            grades = metric.measure(evidence)
            columns[label] = [grade.value for grade in grades]
            for part in COUNTS:
                if all(part in grade.parts for grade in grades):
                    columns[count_label(label, part)] = [grade.parts[part] for grade in grades]
        return columns


def count_label(metric: str, part: str) -> str:
    """What a count is called in the records."""
    return f"{metric}: {part}"
