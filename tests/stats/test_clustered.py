"""Errors of estimates whose observations share raters and items."""

import numpy as np
import pytest

from didact.stats.clustered import drawn_weights, estimated, precision
from didact.stats.crossed import crossed_interval


def influences(values: np.ndarray) -> np.ndarray:
    return ((values - values.mean()) / len(values))[:, None]


@pytest.mark.parametrize(("by_rater", "by_item"), [(1.0, 0.5), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_complete_table_is_as_sure_as_the_analysis_of_variance_says(by_rater: float, by_item: float) -> None:
    rng = np.random.default_rng(3)
    table = by_rater * rng.normal(size=(12, 1)) + by_item * rng.normal(size=(1, 30)) + rng.normal(size=(12, 30))
    raters, items = np.repeat(np.arange(12), 30), np.tile(np.arange(30), 12)
    values = table.ravel()
    draws = drawn_weights(raters, items, 2000, 0)
    means = (draws @ values / draws.sum(axis=1))[:, None]
    (own,) = estimated(np.array([values.mean()]), influences(values), raters, items, means)
    other = crossed_interval(table)
    assert own.value == pytest.approx(other.mean)
    assert own.high - own.low == pytest.approx(other.high - other.low, rel=0.2)


def test_intervals_of_a_table_with_gaps_hold_the_mean() -> None:
    held = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(15, 1)) + rng.normal(size=(1, 25)) + rng.normal(size=(15, 25))
        raters, items = np.nonzero(rng.random((15, 25)) < 0.4)
        values = table[raters, items]
        draws = drawn_weights(raters, items, 200, seed)
        means = (draws @ values / draws.sum(axis=1))[:, None]
        (found,) = estimated(np.array([values.mean()]), influences(values), raters, items, means)
        held.append(found.low <= 0 <= found.high)
    assert 110 <= sum(held) <= 119


def test_few_raters_have_no_error_and_the_order_of_observations_does_not_matter() -> None:
    values = np.array([1.0, 2.0, 0.0, 3.0])
    error, freedom = precision(influences(values), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert np.isnan(error).all()
    assert np.isnan(freedom).all()
    values = np.arange(9.0) ** 2
    raters, items, order = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3), np.random.default_rng(0).permutation(9)
    first = precision(influences(values), raters, items)
    second = precision(influences(values[order]), raters[order], items[order])
    np.testing.assert_allclose(first, second)
