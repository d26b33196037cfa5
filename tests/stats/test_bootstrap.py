"""Intervals of a mean: against the definition over all resamples, at the edges, and how often they hold the truth."""

from itertools import product
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import InputError, ParameterError
from didact.stats.bootstrap import differences, interval, intervals

PROPERTY = settings(max_examples=50, deadline=None, derandomize=True)
VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=12)
NAN = float("nan")


def by_definition(values: list[float], level: float) -> tuple[float, float]:
    """The bias-corrected and accelerated interval over all n^n resamples, the jackknife by leaving each value out."""
    normal, n, mean = NormalDist(), len(values), float(np.mean(values))
    drawn = np.sort([np.mean(resample) for resample in product(values, repeat=n)])
    below = np.mean(drawn < mean - 1e-9) + np.mean(np.abs(drawn - mean) <= 1e-9) / 2
    bias = normal.inv_cdf(below)
    left_out = np.array([np.mean(values[:i] + values[i + 1 :]) for i in range(n)])
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(share)
        ends.append(np.quantile(drawn, normal.cdf(bias + z / (1 - acceleration * z))))
    return ends[0], ends[1]


def test_two_values_can_only_say_between_them() -> None:
    # Means of resamples of (0, 1): 0 in a quarter of all, 1/2 in half, 1 in a quarter. No skew, no bias: the 2.5 % and
    # 97.5 % points are 0 and 1; the 30 % and 70 % points are both 1/2.
    found = interval([0.0, 1.0])
    assert (found.mean, found.low, found.high, found.n, found.dropped) == (0.5, 0.0, 1.0, 2, 0)
    narrow = interval([0.0, 1.0], level=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


@pytest.mark.parametrize("values", [[0.0, 0.1, 0.3, 1.0, 4.0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [0.0, 0.0, 0.0, 1.0]])
def test_is_the_definition_over_all_resamples(values: list[float]) -> None:
    found = interval(values, level=0.9, resamples=200_000, seed=3)
    # 200,000 draws leave a little noise in the tails, and the means of small samples come in steps.
    assert (found.low, found.high) == pytest.approx(by_definition(values, 0.9), abs=0.03 * (max(values) - min(values)))


def test_leans_to_the_long_side() -> None:
    found = interval([0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 3.0])
    assert found.high - found.mean > 1.5 * (found.mean - found.low)


@pytest.mark.parametrize(
    ("values", "n", "dropped", "mean", "low"),
    [
        ([], 0, 0, NAN, NAN),
        ([NAN, NAN], 0, 2, NAN, NAN),
        ([0.3, NAN], 1, 1, 0.3, NAN),
        ([0.1] * 7 + [NAN], 7, 1, 0.1, 0.1),
        ([1.0, float("inf")], 2, 0, float("inf"), NAN),
    ],
)
def test_edges(values: list[float], n: int, dropped: int, mean: float, low: float) -> None:
    found = interval(values)
    assert (found.n, found.dropped) == (n, dropped)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, low, low), nan_ok=True, abs=0)


@PROPERTY
@given(VALUES, st.randoms())
def test_the_order_of_the_examples_does_not_matter(values: list[float], random: Random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    assert interval(values) == interval(shuffled)


@PROPERTY
@given(VALUES)
def test_the_interval_stays_among_the_values(values: list[float]) -> None:
    found = interval(values)
    slack = 1e-9
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack


@PROPERTY
@given(VALUES, st.floats(0.01, 50), st.floats(-50, 50))
def test_moves_with_the_values(values: list[float], scale: float, shift: float) -> None:
    plain, moved = interval(values), interval(scale * np.array(values) + shift)
    assert [moved.mean, moved.low, moved.high] == pytest.approx(
        [scale * end + shift for end in (plain.mean, plain.low, plain.high)], abs=1e-6
    )


def test_other_columns_do_not_matter() -> None:
    table = np.random.default_rng(0).random((5, 40))
    table[1, :7] = NAN
    together = intervals(table)
    for row, found in zip(table, together, strict=True):
        alone = interval(row)
        assert (alone.n, alone.dropped) == (found.n, found.dropped)
        assert [alone.low, alone.high] == pytest.approx([found.low, found.high], rel=1e-12)


def test_many_values_are_resampled_in_blocks() -> None:
    values = np.random.default_rng(0).normal(size=30_000)
    found = interval(values, resamples=300)
    half = 1.96 / np.sqrt(len(values))
    assert [found.low - found.mean, found.high - found.mean] == pytest.approx([-half, half], rel=0.2)


def test_the_seed_decides() -> None:
    values = np.random.default_rng(0).random(30)
    assert interval(values, seed=1) == interval(values, seed=1)
    assert interval(values, seed=1) != interval(values, seed=2)


def test_pairs_cancel_what_they_share() -> None:
    rng = np.random.default_rng(0)
    hardness = rng.normal(size=50)
    a, b = hardness + 0.1 + 0.01 * rng.normal(size=50), hardness
    paired = interval(differences(a, b))
    assert 0.09 < paired.low < paired.high < 0.11
    assert interval(a).low < interval(b).high  # alone, the two overlap


def test_pairs_with_a_nan_are_dropped_and_counted() -> None:
    found = interval(differences([1.0, NAN, 3.0, 5.0], [0.0, 0.0, NAN, 4.0]))
    assert (found.mean, found.low, found.high, found.n, found.dropped) == (1.0, 1.0, 1.0, 2, 2)


@pytest.mark.parametrize("kind", ["normal", "skewed", "rare"])
def test_holds_the_truth_as_often_as_it_says(kind: str) -> None:
    # 1,000 experiments: the standard error of a share near 0.95 is 0.007. At 60 examples the bootstrap is known to be a
    # little too narrow, most so for skewed values.
    rng = np.random.default_rng(1)
    tables = {
        "normal": rng.normal(1.0, 2.0, size=(1000, 60)),
        "skewed": rng.exponential(1.0, size=(1000, 60)),
        "rare": (rng.random((1000, 60)) < 0.2).astype(float),
    }
    truth = {"normal": 1.0, "skewed": 1.0, "rare": 0.2}[kind]
    found = intervals(tables[kind], resamples=1000)
    held = np.mean([each.low <= truth <= each.high for each in found])
    assert 0.92 <= held <= 0.97


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ParameterError, match=r"level must lie between 0 and 1, got 95"):
        interval([1.0, 2.0], level=95)
    with pytest.raises(ParameterError, match="resamples must be at least 1, got 0"):
        interval([1.0, 2.0], resamples=0)
    with pytest.raises(InputError, match="same examples in the same order: got 2 and 3"):
        differences([1.0, 2.0], [1.0, 2.0, 3.0])
