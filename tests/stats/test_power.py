"""How many examples are needed: against the formula, and by running the test that many times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from didact.errors import ParameterError
from didact.stats.paired import signed_rank
from didact.stats.power import comparisons_needed, examples_needed, raters_needed

PROPERTY = settings(max_examples=50, deadline=None, derandomize=True)
NAN = float("nan")


def pilot(mean: float, deviation: float) -> np.ndarray:
    """Two differences with exactly this mean and standard deviation."""
    return mean + deviation * np.array([-1, 1]) / np.sqrt(2)


@pytest.mark.parametrize(("size", "needed"), [(0.5, 34), (0.8, 15), (0.2, 199)])
def test_the_numbers_of_the_textbook(size: float, needed: int) -> None:
    # Cohen's small, medium and large effect, paired t-test, two-sided 0.05, power 0.8.
    assert examples_needed(pilot(size, 1.0)) == needed


def test_small_differences_by_the_normal_formula() -> None:
    # ((1.959964 + 0.841621) / 0.02)^2 = 2.801585^2 / 0.0004 = 19622.2
    assert examples_needed(pilot(0.02, 1.0)) == 19623


@pytest.mark.parametrize(("size", "power"), [(0.5, 0.8), (0.3, 0.9)])
def test_so_many_examples_find_the_difference_so_often(size: float, power: float) -> None:
    needed = examples_needed(pilot(size, 1.0), power=power)
    assert needed is not None
    rng = np.random.default_rng(0)
    experiments = rng.normal(size, 1.0, size=(2000, needed))
    t = experiments.mean(axis=1) / (experiments.std(axis=1, ddof=1) / np.sqrt(needed))
    found = np.mean(np.abs(t) > student.ppf(0.975, needed - 1))
    assert found == pytest.approx(power, abs=0.03)
    # The signed-rank test loses little.
    assert np.mean([test.p < 0.05 for test in signed_rank(experiments)]) > power - 0.04


def test_never_fewer_than_the_signed_rank_test_needs() -> None:
    # n differences of one sign have p = 2 / 2^n: 0.0625 for five, 0.03125 for six; 0.0078 for eight at level 0.01.
    assert examples_needed([3.0, 3.0, 3.0]) == 6
    assert examples_needed([3.0, 3.0], alpha=0.01) == 8


@pytest.mark.parametrize("differences", [[], [0.3], [NAN, 0.3], [0.0, 0.0], [1.0, -1.0], [1.0, float("inf")]])
def test_a_pilot_that_says_nothing(differences: list[float]) -> None:
    assert examples_needed(differences) is None


@PROPERTY
@given(st.floats(0.05, 3), st.floats(0.1, 3), st.sampled_from([-1, 1]))
def test_half_the_difference_needs_about_four_times_the_examples(mean: float, deviation: float, sign: int) -> None:
    needed, more = examples_needed(pilot(sign * mean, deviation)), examples_needed(pilot(sign * mean / 2, deviation))
    assert needed is not None
    assert more is not None
    assert needed <= more <= 4 * needed + 1


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(ParameterError, match="power must lie between 0 and 1, got 80"):
        examples_needed([1.0, 2.0], power=80)
    with pytest.raises(ParameterError, match="power must be larger than alpha"):
        examples_needed([1.0, 2.0], power=0.05, alpha=0.1)


def test_raters_needed_finds_the_preference_as_often_as_it_promises() -> None:
    needed, rng = comparisons_needed(0.65), np.random.default_rng(0)
    wins = rng.binomial(needed, 0.65, size=4000) / needed
    z = (2 * wins - 1) / np.sqrt((1 - (2 * wins - 1) ** 2) / needed)
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.04)
    assert raters_needed(0.65, 1, likeness=0.3) == needed
    assert raters_needed(0.65, 20, likeness=0.0) == -(-needed // 20)
    assert raters_needed(0.65, 60, likeness=1.0) == needed
    assert raters_needed(0.99, 60) == 3


@pytest.mark.parametrize("share", [0.5, 1.0, 0.2])
def test_a_share_that_is_no_preference_is_refused(share: float) -> None:
    with pytest.raises(ParameterError, match=r"share must lie between 0\.5"):
        comparisons_needed(share)
