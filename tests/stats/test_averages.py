"""Seeds are averaged per example before anything else."""

import numpy as np
import pytest

from didact.errors import InputError
from didact.stats.averages import by_example
from didact.stats.bootstrap import interval

NAN = float("nan")


def test_rows_become_a_table() -> None:
    rows = [("b", "2", 1.0), ("a", "1", 2.0), ("b", "2", 3.0), ("b", "1", NAN), ("a", "3", NAN), ("a", "3", 5.0)]
    examples, table = by_example(*zip(*rows, strict=True))
    assert examples == ["1", "2", "3"]
    assert list(table) == ["b", "a"]
    assert table["b"].tolist() == pytest.approx([NAN, 2.0, NAN], nan_ok=True)
    assert table["a"].tolist() == pytest.approx([2.0, NAN, 5.0], nan_ok=True)


def test_the_order_of_the_rows_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    rows = [("a", str(i % 5), value) for i, value in enumerate(rng.normal(size=200))]
    first = by_example(*zip(*rows, strict=True))[1]["a"]
    shuffled = [rows[i] for i in rng.permutation(200)]
    assert by_example(*zip(*shuffled, strict=True))[1]["a"].tolist() == first.tolist()


def test_no_rows_and_uneven_rows() -> None:
    assert by_example([], [], []) == ([], {})
    with pytest.raises(InputError, match="got 1, 2, 1"):
        by_example(["a"], ["1", "2"], [1.0])


def test_seeds_taken_for_examples_would_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=40) + 0.1 * rng.normal(size=(9, 40))
    examples = [str(number) for _ in values for number in range(40)]
    averaged = by_example(["a"] * values.size, examples, values)[1]["a"]
    honest, pooled = interval(averaged), interval(values)
    assert (honest.high - honest.low) == pytest.approx(3 * (pooled.high - pooled.low), rel=0.1)
