"""The summary table against values worked out by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from didact.experiments.grading.summary import Column, ExplainerInfo, MetricInfo, Summary, gather, summarise
from didact.store.records import to_table
from didact.types import Record
from tests.experiments.synthetic import METHODS, record, typical_records

SUBJECTS = [ExplainerInfo("lime", "lime"), ExplainerInfo("ig", "ig"), ExplainerInfo("random", "random", control=True)]
UP = [MetricInfo("m", "m", "faithfulness")]


def rows(explainer: str, values: Sequence[float], metric: str = "m", **more: object) -> list[Record]:
    return [record(explainer, metric, f"e{at}", value, **more) for at, value in enumerate(values)]


def summary(records: Sequence[Record], metrics: Sequence[MetricInfo] = UP) -> Summary:
    return summarise(gather(to_table(records), SUBJECTS, metrics))


def only(records: Sequence[Record], metrics: Sequence[MetricInfo] = UP) -> Column:
    (column,) = summary(records, metrics).columns
    return column


def test_seeds_are_averaged_before_examples_are_counted() -> None:
    found = only([*rows("lime", [0.2, 0.4]), *rows("lime", [0.4, 0.8], seed=1)])
    # Examples: (0.2 + 0.4) / 2 = 0.3 and (0.4 + 0.8) / 2 = 0.6, so the mean is 0.45 over two examples, not four.
    assert found.cells["lime"].mean == pytest.approx(0.45)
    assert found.cells["lime"].n == 2
    assert math.isnan(found.cells["lime"].low)  # two examples have no interval


def test_undefined_values_are_left_out_and_counted() -> None:
    found = only([*rows("lime", [0.2, math.nan, math.nan]), *rows("lime", [math.nan, math.nan, 0.6], seed=1)])
    # The first and the third example have one seed each that is defined.
    assert (found.cells["lime"].mean, found.cells["lime"].n, found.cells["lime"].missing) == (pytest.approx(0.4), 2, 1)


def test_what_differs_and_from_what() -> None:
    lower, higher = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3], [0.5, 0.7, 0.9, 0.6, 0.8, 1.1]
    found = only([*rows("lime", higher), *rows("ig", lower)])
    # Six texts are the fewest with which one comparison can be sure: 2^(1 - 6) < 0.05.
    assert found.p("lime", "ig") == found.p("ig", "lime") < 0.05
    assert (found.best, found.second, found.tied) == ("lime", "ig", ())
    assert found.beats("lime") == ("ig",)
    assert found.beats("ig") == ()


def test_more_comparisons_need_more_texts() -> None:
    lower, higher = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3], [0.5, 0.7, 0.9, 0.6, 0.8, 1.1]
    found = summary([*rows("lime", higher), *rows("ig", lower), *rows("random", lower)])
    # Three pairs need 2^(1 - n) <= 0.05 / 3: seven texts.
    assert (found.tests, found.fewest) == (3, 7)
    assert math.isnan(found.columns[0].p("lime", "ig"))
    assert found.columns[0].tied == ("ig",)


def test_metrics_are_corrected_together() -> None:
    rng = np.random.default_rng(0)
    metrics = [MetricInfo(f"m{at}", f"m{at}", "faithfulness") for at in range(12)]
    shift = rng.normal(size=40)
    shift = 0.42 + (shift - shift.mean()) / shift.std(ddof=1)
    own = [*rows("lime", shift, "m0"), *rows("ig", np.zeros(40), "m0")]
    others = [
        row for at in range(1, 12) for name in ("lime", "ig") for row in rows(name, rng.normal(size=40), f"m{at}")
    ]
    assert only(own, metrics[:1]).beats("lime") == ("ig",)
    assert summary([*own, *others], metrics).columns[0].beats("lime") == ()


def test_lower_is_better_turns_everything_round() -> None:
    down = [MetricInfo("m", "m", "faithfulness", higher_is_better=False)]
    found = only([*rows("lime", [0.9] * 8), *rows("ig", np.linspace(0.1, 0.2, 8))], down)
    assert (found.best, found.tied, found.beats("ig")) == ("ig", (), ("lime",))


def test_without_a_direction_nobody_wins() -> None:
    neutral = [MetricInfo("m", "m", "agreement", higher_is_better=None)]
    found = only([*rows("lime", [0.9] * 8), *rows("ig", np.linspace(0.1, 0.2, 8))], neutral)
    assert (found.best, found.leaders, found.needed) == (None, (), None)
    assert found.beats("lime") == ()


def test_a_control_never_wins() -> None:
    found = only([*rows("random", [0.9] * 8), *rows("ig", np.linspace(0.1, 0.2, 8))])
    assert found.best == "ig"
    assert found.beats("random") == ("ig",)


def test_rankings_of_metrics_are_compared() -> None:
    explainers = [ExplainerInfo(name, name) for name in "abcd"]
    metrics = [MetricInfo("up", "up", "faithfulness"), MetricInfo("down", "down", "faithfulness", False)]
    records = []
    for metric, values in (("up", (4, 3, 2, 1)), ("down", (1, 2, 4, 3))):
        for name, value in zip("abcd", values, strict=True):
            records += rows(name, [value, value], metric=metric)
    found = summarise(gather(to_table(records), explainers, metrics))
    # Orders abcd and abdc: five of six pairs the same way round, (5 - 1) / 6.
    assert found.tau_labels == ("up", "down")
    assert found.taus[0, 1] == pytest.approx(4 / 6)
    assert found.taus[0, 0] == 1


def test_the_order_of_records_does_not_matter() -> None:
    records = typical_records(examples=7)
    shuffled = [records[at] for at in np.random.default_rng(1).permutation(len(records))]
    explainers = [ExplainerInfo(name, name) for name in METHODS]
    metrics = [MetricInfo("comprehensiveness", "comprehensiveness", "faithfulness")]
    first, second = (gather(to_table(each), explainers, metrics) for each in (records, shuffled))
    assert first.examples == second.examples
    assert first.metrics == second.metrics
    for null in ("", "shuffle", "labels"):
        np.testing.assert_allclose(first.values[null], second.values[null], rtol=1e-12)
    for label, (names, values) in first.parts.items():
        place = [second.parts[label][0].index(name) for name in names]
        np.testing.assert_allclose(values, second.parts[label][1][place], rtol=1e-12)


def test_nulls_and_parts_stay_out_of_the_values() -> None:
    records = [
        *rows("lime", [0.5, 0.7]),
        *rows("lime", [9.0, 9.0], null="shuffle"),
        *rows("lime", [7.0, 7.0], part="10%"),
    ]
    measured = gather(to_table(records), SUBJECTS, UP)
    assert measured.values[""][0, 0].tolist() == [0.5, 0.7]
    assert measured.values["shuffle"][0, 0].tolist() == [9.0, 9.0]
    assert measured.parts["m"][0] == ("10%",)
    assert measured.parts["m"][1][0, 0].tolist() == [7.0, 7.0]


def test_labels_that_the_manifest_does_not_know_are_kept_without_a_direction() -> None:
    found = only([*rows("new", [0.1, 0.2], metric="other")])
    assert found.metric.label == "other"
    assert found.best is None
    assert found.cells["new"].n == 2
