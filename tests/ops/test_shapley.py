"""Shapley values from pairs and from orders: against systems written out, and the honesty of their standard errors."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.ops.coalitions import different_pairs, shapley_pair_weights, shapley_pairs
from didact.ops.orders import prefixes
from didact.ops.shapley import (
    ShapleyEstimate,
    exact_fit,
    informative_pairs,
    linear_fit,
    mean_contributions,
    prior_fit,
    smooth_fit,
)

PROPERTY = settings(max_examples=50, deadline=None, derandomize=True)
FITS = {"linear": linear_fit, "smooth": smooth_fit}


def shapley(table: np.ndarray) -> np.ndarray:
    """By the definition; unit i is bit i of the place in the table."""
    n = len(table).bit_length() - 1
    found = np.zeros(n)
    for unit in range(n):
        others = [1 << other for other in range(n) if other != unit]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for chosen in combinations(others, size):
                found[unit] += weight * (table[sum(chosen) | 1 << unit] - table[sum(chosen)])
    return found


def at(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return table[rows.astype(int) @ (1 << np.arange(rows.shape[-1]))]


def saturating(n: int, seed: int) -> np.ndarray:
    """A probability in which few units matter and some pairs act on each other, as in a sentence."""
    rng = np.random.default_rng(seed)
    z = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    alone, together = rng.standard_t(3, size=n), rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.1)
    total = z @ alone + ((z @ together) * z).sum(axis=1)
    return 1 / (1 + np.exp(total.mean() - total))


def fitted(fit: str, table: np.ndarray, pairs: int, seed: int) -> ShapleyEstimate:
    n = len(table).bit_length() - 1
    rows = shapley_pairs(n, pairs, np.random.default_rng(seed))
    return FITS[fit](rows, at(table, rows) - at(table, ~rows), table[-1] - table[0])


def ordered(table: np.ndarray, pairs: int, seed: int) -> ShapleyEstimate:
    n = len(table).bit_length() - 1
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (pairs, 1)), axis=1)
    both = np.stack([orders, orders[:, ::-1]], axis=1)
    return mean_contributions(both, at(table, prefixes(both)), table[0], table[-1])


@PROPERTY
@given(st.integers(1, 7), st.integers(0, 1000))
def test_all_pairs_give_the_exact_values(n: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=1 << n)
    rows = shapley_pairs(n, 2 ** (n - 1) - 1, np.random.default_rng(seed)) if n > 1 else np.zeros((0, 1), dtype=bool)
    found = exact_fit(rows, at(table, rows) - at(table, ~rows), table[-1] - table[0])
    np.testing.assert_allclose(found.values, shapley(table), atol=1e-9)
    assert not found.errors.any()


@PROPERTY
@given(st.integers(3, 9), st.integers(0, 1000))
def test_the_linear_fit_equals_the_system_with_a_multiplier_over_both_halves_of_each_pair(n: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=1 << n)
    rows = shapley_pairs(n, n + (n > 4) * n, np.random.default_rng(seed))
    weights = np.tile(shapley_pair_weights(rows), 2)
    z = np.concatenate([rows, ~rows]).astype(float)
    system = np.zeros((n + 1, n + 1))  # stationarity of w (y - empty - z.c)^2 + 2 lambda (1.c - d), and 1.c = d
    system[:n, :n] = z.T @ (weights[:, None] * z)
    system[:n, n] = system[n, :n] = 1
    gap = table[-1] - table[0]
    right = np.append(z.T @ (weights * (at(table, z) - table[0])), gap)
    found = linear_fit(rows, at(table, rows) - at(table, ~rows), gap)
    np.testing.assert_allclose(found.values, np.linalg.solve(system, right)[:n], atol=1e-8)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("n", [3, 5, 12, 60])
def test_an_additive_function_is_found_from_the_fewest_pairs(fit: str, n: int) -> None:
    truth = np.random.default_rng(n).normal(size=n)
    rows = shapley_pairs(n, n, np.random.default_rng(0))
    found = FITS[fit](rows, (2.0 * rows - 1) @ truth, truth.sum())
    assert found.values.sum() == pytest.approx(truth.sum())
    tolerance = 1e-9 if fit == "linear" else 0.05  # its prior allows for interactions
    np.testing.assert_allclose(found.values, truth, atol=tolerance * np.abs(truth).max())


@pytest.mark.parametrize("fit", FITS)
def test_scores_add_up_and_a_constant_function_gets_zeros(fit: str) -> None:
    found = fitted(fit, saturating(10, 0), 30, 0)
    table = saturating(10, 0)
    assert found.values.sum() == pytest.approx(table[-1] - table[0], abs=1e-12)
    nothing = fitted(fit, np.full(1 << 10, 0.7), 30, 0)
    np.testing.assert_allclose(nothing.values, 0, atol=1e-12)
    np.testing.assert_allclose(nothing.errors, 0, atol=1e-12)


def test_the_smooth_fit_is_the_posterior_mean_of_the_process_it_states() -> None:
    n = 6
    table = saturating(n, 4)
    rows = shapley_pairs(n, 14, np.random.default_rng(0))
    found = smooth_fit(rows, at(table, rows) - at(table, ~rows), table[-1] - table[0])
    z = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(bool)
    every = 2.0 * z - 1
    x = np.concatenate([np.ones((1, n)), 2.0 * rows - 1])
    y = np.concatenate([[table[-1] - table[0]], at(table, rows) - at(table, ~rows)])
    alone = np.abs(y[1 : n + 1] + y[0]) / 2
    reach = alone / alone.max() + 0.05
    reach /= reach.sum()
    means, deviations = [], []
    for rough in (0.1, 0.5, 1.0, 2.0):
        for noise in (1e-4, 1e-2, 1.0):
            a = np.arctanh(np.minimum(rough * reach, 0.9))
            scale = np.sinh(a.sum())
            seen = np.sinh((x * a) @ x.T) / scale + np.diag([1e-8] + [noise] * len(rows))
            across = np.sinh((every * a) @ x.T) / scale
            whole = np.sinh((every * a) @ every.T) / scale
            value = across @ np.linalg.solve(seen, y)  # D of every coalition; a game worth D has twice the values
            means.append(shapley(value) / 2)
            left = (whole - across @ np.linalg.solve(seen, across.T)) * (y @ np.linalg.solve(seen, y)) / len(y)
            functional = np.stack([shapley(unit) / 2 for unit in np.eye(1 << n)], axis=1)  # (n, 2^n)
            deviations.append(np.sqrt(np.diag(functional @ left @ functional.T)))
    distance = [np.abs(found.values - mean).max() for mean in means]
    best = int(np.argmin(distance))
    assert distance[best] < 1e-5
    np.testing.assert_allclose(found.errors, deviations[best], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("pairs", [30, 60, 120])
def test_the_errors_of_a_fit_are_as_large_as_it_says(fit: str, pairs: int) -> None:
    off, said = [], []
    for game in range(6):
        table = saturating(12, game)
        truth = shapley(table)
        for seed in range(12):
            found = fitted(fit, table, pairs, seed)
            off.append((found.values - truth) ** 2)
            said.append(found.errors**2)
    assert 0.6 < np.sqrt(np.mean(off) / np.mean(said)) < 1.5


def test_the_errors_of_the_linear_fit_are_its_spread_over_seeds() -> None:
    runs = [fitted("linear", saturating(12, 1), 100, seed) for seed in range(150)]
    spread = np.std([run.values for run in runs], axis=0, ddof=1)
    said = np.sqrt(np.mean([run.errors**2 for run in runs], axis=0))
    np.testing.assert_allclose(spread / said, 1, atol=0.4)


def test_orders_are_unbiased_and_their_errors_are_their_spread_over_seeds() -> None:
    table = saturating(9, 2)
    runs = [ordered(table, 8, seed) for seed in range(600)]
    values = np.array([run.values for run in runs])
    spread = values.std(axis=0, ddof=1)
    assert (np.abs(values.mean(axis=0) - shapley(table)) < 4 * spread / np.sqrt(len(runs))).all()
    said = np.sqrt(np.mean([run.errors**2 for run in runs], axis=0))
    np.testing.assert_allclose(said / spread, 1, atol=0.2)
    np.testing.assert_allclose(values.sum(axis=1), table[-1] - table[0], atol=1e-12)


def test_one_pair_of_orders_says_nothing_about_its_error() -> None:
    assert len(ordered(saturating(9, 2), 1, 0).errors) == 0


def test_the_smooth_fit_is_better_than_the_linear_one_and_that_than_orders() -> None:
    errors = dict.fromkeys(["smooth", "linear", "orders"], 0.0)
    for game in range(8):
        table = saturating(12, game)
        truth = shapley(table)
        for seed in range(4):
            errors["smooth"] += np.abs(fitted("smooth", table, 66, seed).values - truth).mean()
            errors["linear"] += np.abs(fitted("linear", table, 66, seed).values - truth).mean()
            errors["orders"] += np.abs(ordered(table, 6, seed).values - truth).mean()  # 132 evaluations as well
    assert errors["smooth"] < 0.9 * errors["linear"] < 0.9 * errors["orders"]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), pairs=st.integers(1, 100), seed=st.integers(0, 9))
def test_informative_pairs_are_as_many_as_wanted_and_all_different(n: int, pairs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.normal(size=n) * rng.integers(0, 2)  # or nothing is expected
    wanted = min(pairs, (1 << (n - 1)) - 1)
    rows = informative_pairs(prior, wanted, rng)
    assert rows.shape == (wanted, n)
    both = {row.tobytes() for row in rows} | {(~row).tobytes() for row in rows}
    assert len(both) == 2 * wanted
    assert not {np.ones(n, dtype=bool).tobytes(), np.zeros(n, dtype=bool).tobytes()} & both


class Expected:
    """A game of 12 units whose effects fade where they add up, with Shapley values and what was expected of them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.slopes = self.rng.normal(size=12) * np.exp(1.2 * self.rng.normal(size=12))
        self.level = np.abs(self.slopes).sum() / 4
        self.total = float(self.gaps(np.ones((1, 12)))[0])
        every = shapley_pairs(12, (1 << 11) - 1, np.random.default_rng(0))
        self.true = exact_fit(every, self.gaps(every), self.total).values
        spread = np.abs(self.true).mean() + np.abs(self.true)
        self.prior = self.true + 0.4 * self.rng.normal(size=12) * spread

    def gaps(self, rows: np.ndarray) -> np.ndarray:
        """f(S) - f(complement), which is odd."""
        found: np.ndarray = 2 * self.level * np.tanh((2 * rows - 1) @ self.slopes / self.level)
        return found

    def lost(self, rows: np.ndarray) -> float:
        """Mean absolute error of the values that these pairs give."""
        return float(np.abs(prior_fit(rows, self.gaps(rows), self.total, self.prior).values - self.true).mean())


def test_informative_pairs_beat_pairs_that_are_drawn_where_few_units_matter() -> None:
    games = [Expected(seed) for seed in range(40)]
    chosen = np.array([game.lost(informative_pairs(game.prior, 8, game.rng)) for game in games])
    drawn = np.array([game.lost(different_pairs(12, 8, game.rng)) for game in games])
    assert chosen.mean() < 0.85 * drawn.mean()
    assert (chosen < drawn).mean() > 0.65


def test_few_evaluations_of_a_model_without_noise_are_taken_for_interactions() -> None:
    games = [Expected(seed) for seed in range(40)]
    found = np.mean([game.lost(informative_pairs(game.prior, 16, game.rng)) for game in games])
    expected = np.mean([np.abs(game.prior + (game.total - game.prior.sum()) / 12 - game.true).mean() for game in games])
    assert found < 0.285 * expected  # 0.31 where all candidates count alike before the evaluations
