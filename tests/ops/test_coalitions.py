"""Which keep masks perturbation methods evaluate, and how they are weighed."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.ops.coalitions import (
    lime_samples,
    shapley_pair_count,
    shapley_pair_weights,
    shapley_pairs,
    windows,
)

PROPERTY = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(("n", "span"), [(1, 1), (5, 1), (5, 2), (5, 4), (5, 5)])
def test_each_row_lacks_its_own_window(n: int, span: int) -> None:
    rows = windows(n, span)
    assert rows.dtype == np.bool_
    assert rows.tolist() == [[not row <= column < row + span for column in range(n)] for row in range(n - span + 1)]


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
def test_pairs_are_distinct_and_start_with_the_single_units(n: int, samples: int, seed: int) -> None:
    pairs = shapley_pair_count(n, samples)
    rows = shapley_pairs(n, pairs, np.random.default_rng(seed))
    assert len(rows) == pairs
    assert 2 * pairs <= max(samples, 2 * n)
    assert rows.dtype == np.bool_
    assert (2 * rows.sum(axis=1) <= n).all()
    singles = 1 if n == 2 else n
    np.testing.assert_array_equal(rows[:singles], np.eye(n, dtype=bool)[:singles])
    both = {row.tobytes() for row in rows} | {(~row).tobytes() for row in rows}
    assert len(both) == 2 * pairs


@pytest.mark.parametrize(
    ("n", "samples", "wanted"), [(1, 500, 0), (2, 500, 1), (3, 500, 3), (8, 500, 127), (9, 500, 250), (300, 9, 300)]
)
def test_the_budget_is_all_there_are_or_at_least_one_pair_per_unit(n: int, samples: int, wanted: int) -> None:
    assert shapley_pair_count(n, samples) == wanted
    assert len(shapley_pairs(n, wanted, np.random.default_rng(0))) == wanted


@pytest.mark.parametrize(("n", "pairs"), [(12, 40), (13, 200), (14, 2000), (30, 150)])
def test_sizes_take_turns_until_one_has_no_coalition_left(n: int, pairs: int) -> None:
    rows = shapley_pairs(n, pairs, np.random.default_rng(3))
    for part in (pairs // 2, pairs):  # any first part is such a sample
        counts = np.bincount(rows[:part].sum(axis=1), minlength=n // 2 + 1)[2:]
        there = [comb(n, size) // (2 if 2 * size == n else 1) for size in range(2, n // 2 + 1)]
        share = [2 if 2 * size == n else 1 for size in range(2, n // 2 + 1)]
        turns = [count * twice for count, twice, all_ in zip(counts, share, there, strict=True) if count < all_]
        assert max(turns, default=0) - min(turns, default=0) <= 2
        finished = [c * k for c, k, all_ in zip(counts, share, there, strict=True) if c == all_]
        assert not turns or max(finished, default=0) <= max(turns) + 2


@pytest.mark.parametrize("pairs", [60, 700])
def test_coalitions_of_a_size_are_equally_likely(pairs: int) -> None:
    n, seeds = 12, 150
    total, counts = np.zeros(n), np.zeros(n)
    for seed in range(seeds):
        rows = shapley_pairs(n, pairs, np.random.default_rng(seed))[n:]
        rows = rows[rows.sum(axis=1) == 4]
        total += rows.sum(axis=0)
        counts += len(rows) * 4 / n
    np.testing.assert_allclose(total / counts, 1, atol=0.12)


def kernel(n: int, size: int) -> float:
    """Shapley kernel of one coalition (Lundberg and Lee 2017, theorem 2)."""
    return (n - 1) / (comb(n, size) * size * (n - size))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_with_room_for_all_every_coalition_has_its_kernel_weight(n: int) -> None:
    rows = shapley_pairs(n, 2 ** (n - 1) - 1, np.random.default_rng(0))
    weights = shapley_pair_weights(rows)
    both = {tuple(row) for row in rows} | {tuple(~row) for row in rows}
    kept = [set(chosen) for size in range(1, n) for chosen in combinations(range(n), size)]
    assert both == {tuple(i in chosen for i in range(n)) for chosen in kept}
    np.testing.assert_allclose(weights, [2 * kernel(n, int(row.sum())) for row in rows], rtol=1e-12)


@pytest.mark.parametrize(("n", "pairs"), [(9, 50), (12, 12), (12, 13), (12, 500), (30, 250), (400, 450)])
def test_drawn_rows_share_the_weight_of_their_size(n: int, pairs: int) -> None:
    rows = shapley_pairs(n, pairs, np.random.default_rng(0))
    weights, sizes = shapley_pair_weights(rows), rows.sum(axis=1)
    mass = {size: comb(n, size) * kernel(n, size) * (1 if 2 * size == n else 2) for size in range(1, n // 2 + 1)}
    assert weights[sizes == 1].sum() == pytest.approx(mass[1])
    inner = sum(mass.values()) - mass[1]
    assert weights[sizes > 1].sum() == pytest.approx(inner if pairs > n else 0)
    if set(sizes) == set(mass):
        for size, wanted in mass.items():
            assert weights[sizes == size].sum() == pytest.approx(wanted)
