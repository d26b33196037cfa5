"""Signed-rank test and Holm's correction: against all sign patterns, SciPy, and sums done by hand."""

from itertools import product
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import InputError
from didact.stats.paired import holm, signed_rank, wilcoxon

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
NAN = float("nan")


def by_enumeration(differences: list[float]) -> float:
    """Share of all sign patterns whose rank sum is at least as far from its mean as the one seen."""
    d = np.array([x for x in differences if x != 0])
    size = np.abs(d)
    ranks = np.array([(size < x).sum() + ((size == x).sum() + 1) / 2 for x in size])
    middle = ranks.sum() / 2
    seen = abs(ranks[d > 0].sum() - middle)
    patterns = np.array(list(product([0, 1], repeat=len(d))))
    return float(np.mean(np.abs(patterns @ ranks - middle) >= seen - 1e-9))


def test_a_sample_worked_by_hand() -> None:
    # Differences 8, -3, 5, 2, 9, -1, 4, 10: ranks of their sizes 6, 3, 5, 2, 7, 1, 4, 8. Lower sum: 3 + 1 = 4.
    # Sets of distinct ranks with a sum of at most 4: {}, {1}, {2}, {3}, {1,2}, {4}, {1,3}: 7 of 2^8, on either side.
    found = wilcoxon([8, -3, 5, 2, 9, -1, 4, 10], np.zeros(8))
    assert found.p == 14 / 256
    assert found.effect == (32 - 4) / 36
    assert (found.n, found.zeros, found.dropped, found.difference) == (8, 0, 0, 34 / 8)


@PROPERTY
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_is_exact_with_ties_and_zeros(differences: list[int]) -> None:
    found = wilcoxon(differences, np.zeros(len(differences)))
    assert found.p == pytest.approx(by_enumeration([float(x) for x in differences]), abs=1e-12)
    assert found.zeros == differences.count(0)


@PROPERTY
@given(st.integers(2, 50), st.integers(0, 1000))
def test_equals_scipys_exact_test(n: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).normal([[0.3], [0.0]], size=(2, n))
    assert wilcoxon(a, b).p == pytest.approx(scipy.stats.wilcoxon(a, b, method="exact").pvalue, rel=1e-9)


@PROPERTY
@given(st.integers(80, 300), st.integers(0, 1000))
def test_equals_scipys_approximation_with_ties_and_zeros(n: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 6, size=(2, n)).astype(float)
    theirs = scipy.stats.wilcoxon(a, b, zero_method="wilcox", correction=False, method="asymptotic")
    assert wilcoxon(a, b).p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_approximation_takes_over_without_a_jump() -> None:
    d = np.random.default_rng(5).normal(0.3, 1.0, size=51)
    approximate, exact = wilcoxon(d, np.zeros(51)).p, scipy.stats.wilcoxon(d, method="exact").pvalue
    assert approximate == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(
    ("a", "p", "n", "zeros", "dropped", "effect"),
    [
        ([], NAN, 0, 0, 0, NAN),
        ([NAN, NAN], NAN, 0, 0, 2, NAN),
        ([0.0, 0.0, NAN], 1.0, 2, 2, 1, 0.0),
        ([0.5], 1.0, 1, 0, 0, 1.0),
        ([0.5, 0.0, NAN, -0.5], 1.0, 3, 1, 1, 0.0),
        ([float("inf"), 1, 2, 3, 4, 5], 2 / 64, 6, 0, 0, 1.0),
    ],
)
def test_edges(a: list[float], p: float, n: int, zeros: int, dropped: int, effect: float) -> None:
    found = wilcoxon(a, np.zeros(len(a)))
    assert (found.n, found.zeros, found.dropped) == (n, zeros, dropped)
    assert (found.p, found.effect) == pytest.approx((p, effect), nan_ok=True, abs=0)


def test_zeros_and_nan_change_nothing_but_their_counts() -> None:
    plain = wilcoxon([3.0, 1.0, -2.0, 5.0], np.zeros(4))
    padded = wilcoxon([3.0, 0.0, NAN, 1.0, -2.0, 0.0, 5.0], np.zeros(7))
    assert (padded.p, padded.effect, padded.zeros, padded.dropped) == (plain.p, plain.effect, 2, 1)


@PROPERTY
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=70), st.randoms())
def test_swapping_the_sides_turns_the_effect_and_order_does_not_matter(values: list[int], random: Random) -> None:
    zeros = np.zeros(len(values))
    there, back = wilcoxon(values, zeros), wilcoxon(zeros, values)
    assert (there.p, there.effect) == (back.p, -back.effect)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert wilcoxon(shuffled, zeros) == there


def test_many_tests_at_once_equal_each_alone() -> None:
    rows = np.random.default_rng(0).integers(-3, 4, size=(6, 60)).astype(float)
    rows[2, :30] = NAN
    assert signed_rank(rows) == [wilcoxon(row, np.zeros(60)) for row in rows]


@pytest.mark.parametrize("n", [12, 90])
def test_finds_differences_that_are_none_as_often_as_it_says(n: int) -> None:
    d = np.random.default_rng(0).normal(size=(2000, n))
    assert 0.035 <= np.mean([test.p < 0.05 for test in signed_rank(d)]) <= 0.06


def test_holm_by_hand() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04; never falling: 0.02, 0.03, 0.06, 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_at_the_edges() -> None:
    assert holm([]).tolist() == []
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    # A test that could not be made is not one of the tests: 0.02 counts twice, not three times.
    assert holm([0.02, NAN, 0.03]).tolist() == pytest.approx([0.04, NAN, 0.04], nan_ok=True)
    with pytest.raises(InputError, match=r"between 0 and 1, got \[1.5\]"):
        holm([0.1, 1.5])


@PROPERTY
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_stepwise_rule_rejects(p: list[float]) -> None:
    alpha, rejected = 0.05, set()
    for step, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if not p[place] * (len(p) - step) < alpha:
            break
        rejected.add(place)
    adjusted = holm(p)
    assert {place for place in range(len(p)) if adjusted[place] < alpha} == rejected
    assert (adjusted >= p).all()
