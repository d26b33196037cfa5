"""Which keep masks perturbation methods evaluate (their weights: tests/reference/test_kernel_shap.py)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.ops.coalitions import leave_one_out, lime_samples, shapley_count, shapley_samples

PROPERTY = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_row_lacks_its_own_unit(n: int) -> None:
    rows = leave_one_out(n)
    assert rows.dtype == np.bool_
    assert rows.tolist() == [[column != row for column in range(n)] for row in range(n)]


@PROPERTY
@given(st.integers(1, 20), st.integers(2, 60), st.integers(0, 5))
def test_limes_rows_lack_something_but_the_first(n: int, samples: int, seed: int) -> None:
    rows = lime_samples(n, samples, np.random.default_rng(seed))
    assert rows.shape == (samples, n)
    assert rows.dtype == np.bool_
    assert rows[0].all()
    assert not rows[1:].all(axis=1).any()
    np.testing.assert_array_equal(rows, lime_samples(n, samples, np.random.default_rng(seed)))


@PROPERTY
@given(st.integers(2, 14), st.integers(2, 300), st.integers(0, 5))
def test_shapley_coalitions_are_distinct_paired_and_neither_empty_nor_full(n: int, samples: int, seed: int) -> None:
    budget = shapley_count(n, samples)
    rows, weights = shapley_samples(n, budget, np.random.default_rng(seed))
    assert len(rows) == len(weights) <= budget
    assert rows.dtype == np.bool_
    assert (weights > 0).all()
    sizes = rows.sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.max() <= n - 1
    held = {row.tobytes() for row in rows}
    assert len(held) == len(rows)
    assert {(~row).tobytes() for row in rows} == held
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(rows)), rows])) >= n  # enough to solve for n values


@pytest.mark.parametrize(
    ("n", "samples", "wanted"), [(2, 500, 2), (3, 500, 6), (8, 500, 254), (9, 500, 500), (300, 500, 600), (5, 2, 10)]
)
def test_the_budget_is_all_there_are_or_at_least_two_per_unit(n: int, samples: int, wanted: int) -> None:
    assert shapley_count(n, samples) == wanted


def test_a_long_text_does_not_enumerate_what_cannot_be() -> None:
    rows, weights = shapley_samples(400, shapley_count(400, 900), np.random.default_rng(0))
    assert rows.shape == (900, 400)
    assert weights.shape == (900,)
