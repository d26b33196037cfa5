"""Metrics graded on planted truth: what is known to be right, wrong or chance comes out so."""

from dataclasses import dataclass

import numpy as np
import pytest

from didact.attribution.human import Human
from didact.experiments.grading.planted_truth import (
    LABELS,
    _reliability,
    degraded,
    gradable,
    measure,
    needle_predict,
    needle_texts,
)
from didact.experiments.masking.judges import PANEL
from didact.experiments.report import reliability
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.protocols import Evidence, Model
from didact.types import Grade, MetricCard


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(needle_predict, labels=LABELS)


def test_good_metrics_order_needles_and_plausibility_is_a_check(model: Model) -> None:
    rows = {row.metric: row for row in measure(model, needle_texts(25), ["comprehensiveness", "rationale_auc"])}
    assert rows["comprehensiveness"].ordered > 0.8
    assert rows["rationale_auc"].ordered > 0.9
    assert rows["rationale_auc"].n <= 25


@dataclass(frozen=True)
class Constant:
    """Says the same of all explanations."""

    card = MetricCard("constant", "faithfulness", "A constant.", "nowhere")

    def measure(self, evidence: Evidence) -> list[Grade]:
        return [Grade(1.0)] * len(evidence.explanations)


def test_a_metric_that_says_nothing_has_chance(model: Model) -> None:
    truth = Human().explain(model, needle_texts(12))
    steps = [degraded(truth, 1.0, 0), degraded(truth, 0.0, 1)]
    quality = np.stack([np.ones(12), np.zeros(12)])
    assert _reliability(Constant(), model, steps, quality).ordered == 0.5  # type: ignore[arg-type]
    wrong = METRICS.get("sufficiency").configured()
    turned = _reliability(wrong, model, steps[::-1], quality)
    assert turned.ordered < 0.3  # the better one is called the worse


def test_truth_that_is_kept_keeps_its_order_and_degraded_truth_the_same_scores(model: Model) -> None:
    truth = Human().explain(model, needle_texts(5))
    kept, lost = degraded(truth, 1.0, 0), degraded(truth, 0.0, 0)
    for one, same, other in zip(truth, kept, lost, strict=True):
        assert np.round(same.array).tolist() == one.array.tolist()
        assert sorted(np.round(other.array)) == sorted(one.array)


def test_what_was_measured_is_told_in_reports() -> None:
    assert {"comprehensiveness", "sufficiency", "deletion_area", "rationale_auc"} <= set(gradable())
    assert not {"robust_sufficiency", "neighbour_iou", "seconds"} & set(gradable())
    told = reliability.sentence(["comprehensiveness", "seconds", "comprehensiveness"])
    assert told.count("comprehensiveness") == 1
    assert "chance 0.50" in told
    assert reliability.sentence(["seconds"]) == ""
    assert all(set(PANEL) <= set(rows) <= set(gradable()) for rows in reliability.record().values())
