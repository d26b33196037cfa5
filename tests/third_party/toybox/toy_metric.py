"""A metric: what the target loses without the unit of the highest score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="toy_metric",
        family="faithfulness",
        summary="Drop of the target without the unit of the highest score.",
        reference="a test",
        needs=frozenset({"model"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class TopDrop(BaseMetric):
    """Value of the whole example - value without its top unit, on the scale that was explained."""

    def grade(self, evidence: Evidence) -> list[Grade]:
        explained = evidence.explanations
        keep = [np.arange(len(one.units))[None] != int(np.argmax(one.scores)) for one in explained]
        assert evidence.model is not None
        values = evidence.model.score([one.units for one in explained], [one.target for one in explained], keep)
        pairs = zip(explained, values, strict=True)
        return [Grade(float(one.prediction.value(one.target) - own[0])) for one, own in pairs]
