"""Gains over crossed samples of students and items: by hand, at the edges, how often the intervals hold the truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import InputError, ParameterError
from didact.stats import crossed
from didact.stats.crossed import (
    Crossed,
    average_ranks,
    crossed_gain,
    crossed_interval,
    normalised_gain,
    pearson_values,
    precise_enough,
    rmse_values,
    tau_interval,
)
from didact.types import Floats

PROPERTY = settings(max_examples=25, deadline=None, derandomize=True)
NAN = float("nan")


def effects(rows: float, columns: float, cells: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Scores around zero with random effects of the student, of the item, and of both together."""
    return np.asarray(
        rows * rng.normal(size=(shape[0], 1))
        + columns * rng.normal(size=(1, shape[1]))
        + cells * rng.normal(size=shape)
    )


def test_width_is_that_of_the_analysis_of_variance() -> None:
    # Rows 0, 1 and 2 on all four items: no column effect, nothing within cells. The mean's variance is the rows' alone:
    # 1 / 3, with two degrees of freedom. The bootstrap of three rows has the deviation sqrt(2) / 3; in 1/27 of it all
    # three are row 2, which is 1 / 0.4714 = 2.121 deviations out, at the share Phi(2.121) = 0.98305 of a normal, where
    # Student's t with two degrees is (2 p - 1) / sqrt(2 p (1 - p)) = 5.292.
    found = crossed_interval([[0.0] * 4, [1.0] * 4, [2.0] * 4], resamples=4000)
    assert found.mean == 1
    assert found.high - 1 == pytest.approx(5.292 / math.sqrt(3), rel=0.05)  # 4,000 draws have about that deviation
    assert found.low - 1 == pytest.approx(-5.292 / math.sqrt(3), rel=0.05)
    # t = sqrt(3) with two degrees: p = 1 - t / sqrt(t^2 + 2) = 0.2254.
    assert found.p == pytest.approx(1 - math.sqrt(3 / 5))


@pytest.mark.parametrize(
    ("rows", "columns", "cells"), [(0.0, 0.0, 1.0), (0.3, 0.2, 1.0), (1.0, 0.0, 0.3), (0.0, 1.0, 0.3)]
)
def test_intervals_hold_the_truth(rows: float, columns: float, cells: float) -> None:
    # Five students. 300 repetitions show 95 % as 95 +- 2.5 %. Seen: 98, 95, 95 and 94 %; with plain percentiles of the
    # bootstrap 99, 91, 82 and 93 %.
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        found = crossed_interval(effects(rows, columns, cells, (5, 60), rng), resamples=400)
        held += found.low <= 0 <= found.high
    assert 0.91 <= held / 300 <= 0.99


def test_no_gain_is_seldom_called_one() -> None:
    rng = np.random.default_rng(1)
    found = [crossed_gain(*(effects(0.1, 0.3, 0.5, (8, 60), rng) for _ in range(2)), resamples=400) for _ in range(200)]
    assert np.mean([gain.p < 0.05 for gain in found]) <= 0.09


def test_what_both_methods_share_cancels() -> None:
    # The same easy and hard items and lucky subsets in both: the gain is exact although each mean is not.
    rng = np.random.default_rng(2)
    shared = effects(1.0, 1.0, 1.0, (6, 40), rng)
    gain = crossed_gain(shared + 0.25, shared)
    assert (gain.low, gain.mean, gain.high) == pytest.approx((0.25, 0.25, 0.25))
    assert gain.p == 2.0**-39  # all forty items of one sign
    alone = crossed_interval(shared)
    assert alone.high - alone.low > 1


def test_no_difference_at_all_has_p_one() -> None:
    same = np.eye(4)
    assert crossed_gain(same, same) == Crossed(0.0, 0.0, 0.0, 1.0, 4, 4, 0)


def test_interval_and_p_agree() -> None:
    rng = np.random.default_rng(3)
    for shift in np.linspace(0, 0.5, 12):
        gain = crossed_interval(shift + effects(0.2, 0.2, 0.5, (6, 50), rng))
        if abs(gain.p - 0.05) > 0.02:  # p has no skew
            assert (gain.p < 0.05) == (gain.low > 0 or gain.high < 0)


def test_students_that_do_not_count_are_left_out_of_both() -> None:
    rng = np.random.default_rng(4)
    a, b = effects(0.3, 0.3, 1, (6, 30), rng), effects(0.3, 0.3, 1, (6, 30), rng)
    spoilt_a, spoilt_b = a.copy(), b.copy()
    spoilt_a[1] = NAN
    spoilt_b[4, 7] = NAN
    kept = [0, 2, 3, 5]
    found = crossed_gain(spoilt_a, spoilt_b)
    assert (found.subsets, found.dropped) == (4, 2)
    whole = crossed_gain(a[kept], b[kept])
    assert (found.mean, found.low, found.high, found.p) == (whole.mean, whole.low, whole.high, whole.p)


@pytest.mark.parametrize(
    "matrix", [np.zeros((1, 5)), np.eye(2, 5), np.zeros((5, 1)), np.full((3, 4), NAN), np.empty((0, 4))]
)
def test_without_spread_there_is_no_interval(matrix: Floats) -> None:
    found = crossed_interval(matrix)
    assert math.isnan(found.low)
    assert math.isnan(found.p)
    assert not precise_enough(found, 1e9)


def test_more_students_and_items_narrow_the_interval() -> None:
    rng = np.random.default_rng(5)
    few = crossed_interval(effects(0.1, 0.3, 0.5, (5, 50), rng))
    many = crossed_interval(effects(0.1, 0.3, 0.5, (40, 400), rng))
    assert many.half_width < few.half_width / 2
    assert precise_enough(many, few.half_width / 2)
    assert not precise_enough(few, few.half_width / 2)


@PROPERTY
@given(st.integers(3, 6), st.integers(2, 8), st.floats(-3, 3), st.floats(0.1, 5), st.integers(0, 99))
def test_follows_shift_and_scale(subsets: int, items: int, shift: float, scale: float, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(subsets, items))
    plain, moved = (crossed_interval(given, resamples=200) for given in (matrix, shift + scale * matrix))
    expected = [shift + scale * value for value in (plain.mean, plain.low, plain.high)]
    assert [moved.mean, moved.low, moved.high] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert plain.low <= plain.mean <= plain.high


def test_large_matrices_are_resampled_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(6).normal(size=(5, 30))
    whole = crossed_interval(matrix)
    monkeypatch.setattr(crossed, "BLOCK", 100)
    assert crossed_interval(matrix) == whole


def test_refusals_say_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"same subsets on the same items: got \(2, 3\) and \(2, 4\)"):
        crossed_gain(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(InputError, match="subsets, items"):
        crossed_interval(np.zeros(3))
    with pytest.raises(ParameterError, match="level"):
        crossed_interval(np.zeros((2, 2)), level=95)
    with pytest.raises(ParameterError, match="resamples"):
        crossed_interval(np.zeros((2, 2)), resamples=0)
    with pytest.raises(InputError, match="same items"):
        tau_interval({n: np.eye(3) for n in "ab"}, {n: np.eye(4) for n in "ab"}, same_items=True)
    with pytest.raises(InputError, match="second table"):
        tau_interval({n: np.eye(3) for n in "ab"}, {"a": np.eye(4), "b": np.eye(3)})
    with pytest.raises(InputError, match="3 items, 2 numbers"):
        rmse_values(np.zeros((2, 3)), np.zeros(2))


def test_gain_as_a_share_of_what_could_be_gained() -> None:
    assert normalised_gain(0.05, 0.8) == pytest.approx(0.25)
    assert normalised_gain(0.05, 0.5, ceiling=0.6) == pytest.approx(0.5)
    assert math.isnan(normalised_gain(0.0, 1.0))


def test_average_ranks_by_hand() -> None:
    # Setting 1: b 1, a and c share (2 + 3) / 2; setting 2: c 1, b 2, a 3. d stands in one setting only.
    table = {"one": {"a": 0.5, "b": 0.9, "c": 0.5, "d": 1.0}, "two": {"a": 0.1, "b": 0.2, "c": 0.3, "d": NAN}}
    ranks = average_ranks(table)
    assert list(ranks) == ["a", "b", "c", "d"]
    assert [ranks[name] for name in "abc"] == [2.75, 1.5, 1.75]
    assert math.isnan(ranks["d"])
    errors = average_ranks({"one": {"a": 0.5, "b": 0.9}}, higher_is_better=False)
    assert errors == {"a": 1.0, "b": 2.0}
    assert average_ranks({}) == {}


def test_tau_of_clear_rankings_is_sure_and_of_equal_methods_is_not() -> None:
    rng = np.random.default_rng(7)

    def table(means: list[float]) -> dict[str, Floats]:
        shared = effects(1.0, 1.0, 0, (6, 50), rng)  # luck of subset and item, which no ranking sees
        return {f"m{k}": shared + mean + effects(0.02, 0.02, 0.1, (6, 50), rng) for k, mean in enumerate(means)}

    # One pair of six turned round: (5 - 1) / 6.
    clear = tau_interval(table([0.0, 1.0, 2.0, 3.0]), table([0.0, 2.0, 1.0, 3.0]))
    assert (clear.value, clear.low, clear.high) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    equal = tau_interval(table([0.0] * 4), table([0.0] * 4), same_items=True)
    assert equal.low < -0.3
    assert equal.high > 0.3
    assert equal.methods == 4


def test_tau_takes_methods_and_students_that_count_in_both() -> None:
    rng = np.random.default_rng(8)
    a = {name: rng.normal(size=(4, 9)) + place for place, name in enumerate("xyz")}
    b = {name: rng.normal(size=(5, 7)) + place for place, name in enumerate("zyq")}
    b["z"][2] = NAN
    found = tau_interval(a, b)
    assert found.methods == 2
    assert found.value == -1
    assert math.isnan(tau_interval({"x": a["x"]}, a).value)
    one = tau_interval({n: m[:1] for n, m in a.items()}, a)
    assert one.value == 1
    assert math.isnan(one.low)


def test_correlation_and_root_mean_square_as_row_means() -> None:
    rng = np.random.default_rng(9)
    truth = rng.normal(size=400)
    answers = truth + rng.normal(size=(5, 1)) + rng.normal(size=(5, 400))
    correlations = [np.corrcoef(row, truth)[0, 1] for row in answers]
    assert pearson_values(answers, truth).mean(axis=1) == pytest.approx(correlations)
    roots = [np.sqrt(np.mean((row - truth) ** 2)) for row in answers]
    assert rmse_values(answers, truth).mean(axis=1) == pytest.approx(roots)
    assert np.isnan(pearson_values(np.ones((1, 400)), truth)).all()
    assert rmse_values(truth[None], truth).tolist() == [[0.0] * 400]


@pytest.mark.parametrize("statistic", ["pearson", "rmse"])
def test_statistics_spread_as_if_their_items_were_resampled(statistic: str) -> None:
    rng = np.random.default_rng(10)
    truth = rng.normal(size=300)
    answers = 0.8 * truth + rng.normal(size=(1, 300))
    values = (pearson_values if statistic == "pearson" else rmse_values)(answers, truth)[0]
    drawn, slow = [], []
    for _ in range(2000):
        items = rng.integers(300, size=300)
        x, y = answers[0, items], truth[items]
        slow.append(np.corrcoef(x, y)[0, 1] if statistic == "pearson" else np.sqrt(np.mean((x - y) ** 2)))
        drawn.append(values[items].mean())
    assert np.std(drawn) == pytest.approx(np.std(slow), rel=0.06)
    assert np.corrcoef(drawn, slow)[0, 1] > 0.98
