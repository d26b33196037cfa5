"""Closed-form least squares against normal equations, written out."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.ops.regression import weighted_ridge


def problem(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((rows, columns)) < 0.5, rng.normal(size=rows), rng.random(rows) + 0.1


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(5, 40), st.integers(1, 60), st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 1000))
def test_ridge_solves_the_normal_equations(rows: int, columns: int, alpha: float, seed: int) -> None:
    x, y, w = problem(rows, columns, seed)
    coefficients, intercept, fit = weighted_ridge(x, y, w, alpha)
    design = np.column_stack([np.ones(rows), x])
    system = design.T @ np.diag(w) @ design + alpha * np.diag([0.0] + [1.0] * columns)
    np.testing.assert_allclose(
        np.append(intercept, coefficients), np.linalg.solve(system, design.T @ (w * y)), atol=1e-8
    )
    residual = y - intercept - x @ coefficients
    spread = y - np.average(y, weights=w)
    assert fit == pytest.approx(1 - (w @ residual**2) / (w @ spread**2), abs=1e-9)


def test_without_penalty_a_linear_function_is_found_exactly() -> None:
    x, _, w = problem(30, 4, 0)
    truth = np.array([1.0, -2.0, 0.0, 0.5])
    coefficients, intercept, fit = weighted_ridge(x, 3.0 + x @ truth, w, 0.0)
    np.testing.assert_allclose(coefficients, truth, atol=1e-10)
    assert intercept == pytest.approx(3.0)
    assert fit == pytest.approx(1.0)


def test_the_penalty_pulls_coefficients_but_not_the_intercept_to_zero() -> None:
    x, y, w = problem(30, 4, 0)
    coefficients, intercept, fit = weighted_ridge(x, y + 100, w, 1e9)
    np.testing.assert_allclose(coefficients, 0, atol=1e-6)
    assert intercept == pytest.approx(np.average(y + 100, weights=w), abs=1e-6)
    assert fit == pytest.approx(0.0, abs=1e-6)


def test_rows_that_weigh_nothing_play_no_part() -> None:
    x, y, w = problem(30, 3, 1)
    w[20:] = 0
    changed = y.copy()
    changed[20:] = 1e6
    one, other = weighted_ridge(x, y, w, 1.0), weighted_ridge(x, changed, w, 1.0)
    np.testing.assert_allclose(one[0], other[0], atol=1e-9)
    assert one[1:] == pytest.approx(other[1:], abs=1e-9)


def test_a_constant_function_gets_zeros() -> None:
    x, _, w = problem(20, 3, 2)
    coefficients, intercept, _ = weighted_ridge(x, np.full(20, 2.5), w, 1.0)
    np.testing.assert_allclose(coefficients, 0, atol=1e-12)
    assert intercept == pytest.approx(2.5)


def test_a_constant_function_is_fitted_perfectly() -> None:
    fits = []
    for seed in range(50):
        x, _, w = problem(20, 3, seed)
        fits.append(weighted_ridge(x, np.full(20, 0.7), w, 1.0)[2])
    assert fits == pytest.approx([1.0] * 50)


def test_a_column_that_never_changes_gets_nothing_even_without_penalty() -> None:
    x, y, w = problem(20, 3, 3)
    x[:, 1] = True
    coefficients, _, _ = weighted_ridge(x, y, w, 0.0)
    assert np.isfinite(coefficients).all()
    assert coefficients[1] == pytest.approx(0.0, abs=1e-10)


def test_without_penalty_more_columns_than_rows_get_the_shortest_solution() -> None:
    x, y, w = problem(12, 40, 4)
    coefficients, intercept, fit = weighted_ridge(x, y, w, 0.0)
    centred = (x - np.average(x, axis=0, weights=w)) * np.sqrt(w)[:, None]
    shortest = np.linalg.pinv(centred, rcond=1e-10) @ ((y - np.average(y, weights=w)) * np.sqrt(w))
    np.testing.assert_allclose(coefficients, shortest, atol=1e-8)
    assert fit == pytest.approx(1.0)
    assert intercept == pytest.approx(np.average(y - x @ coefficients, weights=w))


def test_time_grows_with_the_columns_and_not_with_their_cube() -> None:
    def seconds(columns: int) -> float:
        x, y, w = problem(100, columns, 5)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            weighted_ridge(x, y, w, 1.0)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(8000) < 40 * seconds(1000)  # eight times as many; the cube would be 512 times
