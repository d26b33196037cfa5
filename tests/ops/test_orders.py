"""Orders of units: random one by one, balanced together."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.ops.orders import FIVES, balanced_orders, order_likeness, prefixes

PROPERTY = settings(deadline=None, derandomize=True)


def test_orders_with_their_reverses_pass_through_complements() -> None:
    orders = balanced_orders(6, 50, np.random.default_rng(0)).reshape(-1, 6)
    assert (np.sort(orders, axis=1) == np.arange(6)).all()
    forth, back = prefixes(orders), prefixes(orders[:, ::-1])
    assert forth.shape == (len(orders), 5, 6)
    np.testing.assert_array_equal(forth, ~back[:, ::-1])
    for order, rows in zip(orders, forth, strict=True):
        assert [set(np.flatnonzero(row)) for row in rows] == [set(order[:k]) for k in range(1, 6)]


def distinct(orders: np.ndarray) -> int:
    both = np.concatenate([orders, orders[..., ::-1]]).reshape(-1, orders.shape[-1])
    return len(np.unique(prefixes(both).reshape(-1, orders.shape[-1]), axis=0))


@settings(PROPERTY, max_examples=30)  # each is a search
@given(st.integers(2, 16), st.integers(2, 900), st.integers(0, 5))
def test_the_prefixes_of_the_orders_fit_into_the_budget(n: int, samples: int, seed: int) -> None:
    samples = min(samples, 2**n - 3)  # with more, all coalitions are known
    orders = balanced_orders(n, samples, np.random.default_rng(seed))
    assert distinct(orders) <= max(samples, 2 * n - 2)
    assert orders.shape[0] * orders.shape[1] >= max(1, samples // (2 * n - 2))  # sharing makes room for more
    np.testing.assert_array_equal(orders, balanced_orders(n, samples, np.random.default_rng(seed)))


@pytest.mark.parametrize(
    ("n", "samples", "shape"), [(1, 2, (1, 1)), (2, 9, (1, 1)), (3, 4, (1, 1)), (400, 500, (1, 1))]
)
def test_few_and_many_units_have_orders_too(n: int, samples: int, shape: tuple[int, int]) -> None:
    orders = balanced_orders(n, samples, np.random.default_rng(0))
    assert orders.shape == (*shape, n)
    assert sorted(orders[0, 0]) == list(range(n))


def test_every_order_of_a_design_is_uniformly_random_on_its_own() -> None:
    drawn = [balanced_orders(4, 12, np.random.default_rng(seed)) for seed in range(2400)]
    assert {orders.shape for orders in drawn} == {(1, 2, 4)}
    for place in range(2):
        counts = Counter(tuple(orders[0, place].tolist()) for orders in drawn)
        assert len(counts) == 24  # expected 100 times each, give or take 10
        assert 55 <= min(counts.values()) <= max(counts.values()) <= 145


@pytest.mark.parametrize(
    ("n", "samples"), [(12, 62), (13, 94), (16, 94), (18, 62), (20, 62), (20, 94), (16, 498), (40, 500)]
)
def test_orders_of_a_design_make_up_for_each_others_errors(n: int, samples: int) -> None:
    (orders,) = balanced_orders(n, samples, np.random.default_rng(0))
    independent = 1 / (samples // (2 * n - 2))  # of the mean of so many
    assert order_likeness(orders, orders).mean() <= 0.85 * independent


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_likeness_is_the_correlation_of_the_errors_about_interactions(n: int) -> None:
    rng = np.random.default_rng(n)
    some = rng.permuted(np.tile(np.arange(n), (5, 1)), axis=1)
    everything = np.array(list(permutations(range(n))))
    found = order_likeness(some, everything)
    wanted = correlations(some, everything, 3)
    if n >= 5:
        wanted = (1 - FIVES) * wanted + FIVES * correlations(some, everything, 5)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.diag(order_likeness(some, some)), 1)


def correlations(some: np.ndarray, everything: np.ndarray, size: int) -> np.ndarray:
    """Of the errors about products of ``size`` signs, summed over all of them, by walking through the orders."""
    together, own = np.zeros((len(some), len(everything))), np.zeros((len(some), 1))
    for chosen in combinations(range(some.shape[1]), size):
        truth = np.mean([contributions(order, chosen) for order in everything], axis=0)
        errors = np.array([contributions(order, chosen) - truth for order in some])
        others = np.array([contributions(order, chosen) - truth for order in everything])
        together, own = together + errors @ others.T, own + (errors**2).sum(axis=1, keepdims=True)
    return together / own


def contributions(order: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    gains = np.zeros(len(order))
    for way in (order, order[::-1]):
        sign = (-1.0) ** len(chosen)
        for unit in way:
            if unit in chosen:
                gains[unit] -= sign  # half of the step from sign to -sign
                sign = -sign
    return gains / 2
