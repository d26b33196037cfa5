"""Rank correlation: by counting pairs, against SciPy, and at the edges."""

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import InputError
from didact.stats.correlation import kendall, kendall_matrix, spearman, spearman_matrix, tau

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
NAN = float("nan")
PAIRS_OF_NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15)


def by_counting(a: list[float], b: list[float]) -> float:
    agree = untied_a = untied_b = 0
    for i, j in combinations(range(len(a)), 2):
        one, other = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
        agree += int(one * other)
        untied_a += int(one != 0)
        untied_b += int(other != 0)
    return agree / math.sqrt(untied_a * untied_b) if untied_a and untied_b else NAN


def test_kendall_with_ties_by_hand() -> None:
    # a = 1 2 2 3, b = 1 3 2 2. Pairs (12)(13)(14)(23)(24)(34): a says + + + 0 + +, b says + + + - - 0.
    # Agreeing 3, opposed 1 (the 24), so 2; five pairs untied in a, five in b: 2 / 5.
    assert kendall([1, 2, 2, 3], [1, 3, 2, 2]) == 0.4


def test_spearman_with_ties_by_hand() -> None:
    # Ranks 1 2.5 2.5 4 and 1 4 2.5 2.5, less their mean: -1.5 0 0 1.5 and -1.5 1.5 0 0.
    # Product 2.25, squares 4.5 each: 2.25 / 4.5.
    assert spearman([1, 2, 2, 3], [1, 3, 2, 2]) == 0.5


@PROPERTY
@given(PAIRS_OF_NUMBERS)
def test_kendall_is_what_counting_gives(pairs: list[tuple[int, int]]) -> None:
    a, b = (list(map(float, side)) for side in zip(*pairs, strict=True))
    assert kendall(a, b) == pytest.approx(by_counting(a, b), nan_ok=True, abs=1e-12)


@PROPERTY
@given(st.integers(3, 400), st.integers(0, 1000))
def test_both_equal_scipys(n: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 40, size=(2, n)).astype(float)
    if np.ptp(a) and np.ptp(b):
        assert kendall(a, b) == pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-12)
        assert spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12)


@pytest.mark.parametrize("correlation", [kendall, spearman])
def test_edges(correlation: Callable[..., float]) -> None:
    of = correlation
    assert math.isnan(of([], []))
    assert math.isnan(of([1.0], [2.0]))
    assert math.isnan(of([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))
    assert math.isnan(of(np.ones(400), np.arange(400)))
    assert of(np.arange(400), np.arange(400) ** 3) == pytest.approx(1.0)
    assert of([1, 2, NAN, 3], [5, 6, 0, NAN]) == 1.0
    assert of([1, 2, float("inf"), float("inf")], [4, 3, 2, 2]) == pytest.approx(-1.0)
    with pytest.raises(InputError, match="one length, got 2 and 3"):
        of([1, 2], [1, 2, 3])


@pytest.mark.parametrize(("matrix", "pair"), [(kendall_matrix, kendall), (spearman_matrix, spearman)])
def test_a_matrix_holds_every_pair(matrix: Callable[..., np.ndarray], pair: Callable[..., float]) -> None:
    rows = np.random.default_rng(0).integers(0, 6, size=(5, 20)).astype(float)
    rows[3] = 1.0
    rows[4, 2] = NAN
    found = matrix(rows)
    for i, j in combinations(range(4), 2):
        assert [found[i, j], found[j, i]] == pytest.approx([pair(rows[i], rows[j])] * 2, nan_ok=True)
    assert np.diagonal(found)[:3].tolist() == pytest.approx([1, 1, 1])
    assert np.isnan(found[4]).all()


def test_tau_of_two_rankings() -> None:
    # One neighbouring pair of six turned round: (5 - 1) / 6. Of the 24 orders, 4 have at most one turn (1 + 3) and 4 at
    # most one pair left; p = 8 / 24.
    found = tau(["lime", "ig", "attention", "random"], ["ig", "lime", "attention", "random"])
    assert (found.value, found.p, found.n) == pytest.approx((4 / 6, 8 / 24, 4))


def test_rankings_may_be_numbers_by_name_and_need_share_only_some_names() -> None:
    found = tau({"lime": 0.9, "ig": 0.8, "random": 0.1, "human": NAN}, ["lime", "other", "ig", "random", "human"])
    assert (found.value, found.n) == (pytest.approx(1.0), 3)
    assert math.isnan(tau({"lime": 0.5, "ig": 0.5}, ["lime", "ig"]).value)
    assert math.isnan(tau(["lime"], ["ig"]).value)
    with pytest.raises(InputError, match="each thing once"):
        tau(["lime", "lime"], ["lime"])
