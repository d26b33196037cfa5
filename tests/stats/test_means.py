"""Tests of mean differences: against a slow reference, error rates on noise and on skewed values, and few texts."""

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.stats.means import mean_tests
from didact.stats.paired import signed_rank
from didact.stats.power import fewest_texts
from didact.stats.resampling import drawn_counts

NAN = float("nan")


def slowly(rows: np.ndarray, resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """p of each row alone, and after Westfall and Young's step-down, resample by resample and row by row."""
    texts = rows.shape[1]

    def statistic(row: np.ndarray, middle: float, least: float = 0.0) -> float:
        own = row[~np.isnan(row)]
        return abs(own.mean() - middle) / np.sqrt(max(own.var(), least) / (len(own) - 1))

    observed = [statistic(row, 0.0) for row in rows]
    counts = drawn_counts(texts, resamples, (0, texts, 0)).astype(int)
    drawn = np.array(
        [
            [statistic(np.repeat(row, count), float(np.nanmean(row)), 0.25 * np.nanvar(row)) for count in counts]
            for row in rows
        ]
    )
    alone = [(1 + (drawn[at] >= observed[at]).sum()) / (resamples + 1) for at in range(len(rows))]
    order = np.argsort(observed)[::-1]
    adjusted, running = np.empty(len(rows)), 0.0
    for place, at in enumerate(order):
        rest = drawn[order[place:]].max(axis=0)
        running = max(running, (1 + (rest >= observed[at]).sum()) / (resamples + 1))
        adjusted[at] = running
    return np.array(alone), adjusted


def test_is_the_definition() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 25)) + np.array([[0.0], [0.4], [0.6], [0.1]])
    rows[2, :3] = NAN
    ours = mean_tests(rows, resamples=199)
    alone, adjusted = slowly(rows, 199)
    assert ours.p == pytest.approx(alone)
    assert ours.adjusted == pytest.approx(adjusted)
    assert ours.difference == pytest.approx(np.nanmean(rows, axis=1))


@pytest.mark.parametrize("tests", [1, 30])
def test_noise_is_seldom_called_a_difference(tests: int) -> None:
    # 200 reports: a share of 0.05 has a standard error of 0.015.
    rng = np.random.default_rng(1)
    explainers = [rng.normal(size=(tests, 20)) - rng.normal(size=(1, 20)) for _ in range(200)]
    assert np.mean([mean_tests(rows, resamples=399).significant.any() for rows in explainers]) <= 0.08


def test_skewed_differences_of_mean_zero_are_no_difference_where_ranks_say_so() -> None:
    rng = np.random.default_rng(2)
    rows = rng.lognormal(size=(300, 100)) - np.exp(0.5)
    ours = np.mean([mean_tests(row[None], resamples=399).significant[0] for row in rows])
    ranks = np.mean([test.p < 0.05 for test in signed_rank(rows)])
    assert ours <= 0.12
    assert ranks >= 0.5


def test_a_difference_is_found_among_many() -> None:
    rows = np.random.default_rng(3).normal(size=(200, 60))
    rows[7] += 1.0
    tests = mean_tests(rows)
    assert np.flatnonzero(tests.significant).tolist() == [7]
    assert (tests.adjusted >= tests.p).all()


def test_dependent_tests_cost_less_than_independent_ones() -> None:
    row = np.random.default_rng(4).normal(size=60) + 0.32
    same = mean_tests(np.tile(row, (100, 1)))
    assert same.adjusted[0] == same.p[0]


def test_from_which_number_on_there_is_a_verdict() -> None:
    # 2^(1 - n) <= 0.05 / tests: 2^-5 = 0.03125 for one test; 2^-10 = 0.00098 <= 0.001 for fifty.
    assert [fewest_texts(1), fewest_texts(50), fewest_texts(1, 0.01)] == [6, 11, 8]
    clear = np.tile(np.linspace(1.0, 1.1, 11), (50, 1))
    enough, few = mean_tests(clear), mean_tests(clear[:, :10])
    assert enough.significant.all()
    assert np.isnan(few.adjusted).all()
    assert few.fewest == 11


def test_differences_on_few_texts_only_are_none() -> None:
    rows = np.zeros((1, 200))
    rows[0, :5] = 1.0
    assert mean_tests(rows).adjusted.tolist() == [1.0]
    assert not mean_tests(np.zeros((2, 50))).significant.any()


def test_a_constant_difference_is_one() -> None:
    assert mean_tests(np.full((1, 8), 0.1)).significant.tolist() == [True]


def test_one_outlier_does_not_hide_what_others_show() -> None:
    rows = np.random.default_rng(6).normal(size=(20, 100)) + 1.0
    rows[3:6] = 1.0
    rows[3:6, 7] = 1e6  # resamples without it have no spread at all
    rows[6:9, :2] = 0.0
    rows[6:9, 2:] = 1.0
    assert np.flatnonzero(~mean_tests(rows).significant).tolist() == [3, 4, 5]


def test_what_has_no_values_does_not_count() -> None:
    rows = np.concatenate([np.full((9, 30), NAN), np.linspace(0.1, 1, 30)[None]])
    tests = mean_tests(rows)
    assert (tests.tested, tests.fewest) == (1, 6)
    assert tests.significant.tolist() == [False] * 9 + [True]


def test_the_order_of_tests_does_not_matter() -> None:
    rows = np.random.default_rng(5).normal(size=(6, 30)) + 0.3
    order = [3, 0, 5, 1, 4, 2]
    assert mean_tests(rows[order]).adjusted == pytest.approx(mean_tests(rows).adjusted[order])


def test_errors_say_what_was_given() -> None:
    with pytest.raises(InputError, match=r"\(tests, texts\), got an array of shape \(3,\)"):
        mean_tests([1.0, 2.0, 3.0])
    with pytest.raises(ParameterError, match="resamples must be at least 1"):
        mean_tests(np.zeros((1, 9)), resamples=0)
