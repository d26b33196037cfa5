"""Agreement of raters against values worked out elsewhere."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from didact.stats.agreement import between, nominal, tau

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, twelve units, gaps.
OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def test_alpha_is_that_of_the_published_example() -> None:
    answers = [(int(c), rater, item) for rater, row in enumerate(OBSERVERS) for item, c in enumerate(row) if c != "."]
    codes, raters, items = (np.array(column) for column in zip(*answers, strict=True))
    assert nominal(codes, raters, items).value == pytest.approx(0.743, abs=0.001)


def test_between_is_the_mean_of_tau_over_pairs_of_raters() -> None:
    rng = np.random.default_rng(0)
    ranks = rng.integers(1, 6, size=(12, 4))
    raters, items = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    pairs = [(a, b) for a in range(12) for b in range(a) if items[a] == items[b]]
    expected = np.mean([kendalltau(ranks[a], ranks[b]).statistic for a, b in pairs])
    found = between(ranks, raters, items)
    assert found.value == pytest.approx(expected)
    assert found.comparisons == len(pairs)
    assert found.low < found.value < found.high
    assert tau(ranks[:1], ranks[1:2])[0] == pytest.approx(kendalltau(ranks[0], ranks[1]).statistic)


def test_a_ranking_without_order_and_a_single_rater_have_no_agreement() -> None:
    assert math.isnan(tau([[1, 1, 1]], [[1, 2, 3]])[0])
    alone = between([[1, 2, 3]], np.array([0]), np.array([0]))
    assert math.isnan(alone.value)
    assert alone.comparisons == 0
    assert math.isnan(nominal(np.array([0, 0]), np.array([0, 1]), np.array([0, 0])).value)  # nothing else is answered
