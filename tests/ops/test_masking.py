"""Absence operators and the index work behind them, against naive versions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from didact.errors import ParameterError
from didact.ops.masking import KINDS, Absence, draws, present_tokens, replace, to_front, unique_rows, unit_of_position
from didact.types import Example, Span, Units

PROPERTY = settings(deadline=None, derandomize=True)

UNITS = Units(Example("unhappy film"), "word", (Span(0, 7), Span(8, 12)), ((1, 3), (2,)))


@pytest.mark.parametrize(
    ("text", "wanted", "removes"),
    [
        ("mask", Absence("mask"), False),
        ("delete", Absence("delete"), True),
        ("drop", Absence("drop"), True),
        ("blend", Absence("blend"), False),
        ("token:unk", Absence("token", "unk"), False),
        ("token:a:b", Absence("token", "a:b"), False),
        ("sample", Absence("sample"), False),
        ("sample:7", Absence("sample", None, 7), False),
        ("sample:7:a:b.txt", Absence("sample", "a:b.txt", 7), False),
    ],
)
def test_operators_are_read(text: str, wanted: Absence, removes: bool) -> None:
    assert Absence.parse(text) == wanted
    assert Absence.parse(text).removes is removes


@pytest.mark.parametrize(
    "text",
    ["", "erase", "token", "token:", "mask:x", "delete:", "hide", "MASK", " mask", "sample:", "sample:x", "sample:-1"],
)
def test_an_unknown_operator_is_named_with_those_allowed(text: str) -> None:
    with pytest.raises(ParameterError) as told:
        Absence.parse(text)
    assert repr(text) in str(told.value)
    assert all(kind in str(told.value) for kind in KINDS)


def test_draws_depend_on_seed_text_and_row_alone() -> None:
    operator, example = Absence("sample", None, 3), Example("unhappy film")
    whole = draws(operator, example, np.arange(5), 4, 100)
    assert whole.shape == (5, 4)
    assert whole.min() >= 0
    assert whole.max() < 100
    np.testing.assert_array_equal(draws(operator, example, np.array([3, 1]), 4, 100), whole[[3, 1]])
    assert (draws(Absence("sample", None, 4), example, np.arange(5), 4, 100) != whole).any()
    assert (draws(operator, Example("happy film"), np.arange(5), 4, 100) != whole).any()
    assert draws(operator, example, np.arange(0), 4, 100).shape == (0, 4)


def test_positions_know_their_unit() -> None:
    assert unit_of_position(UNITS, 5).tolist() == [-1, 0, 1, 0, -1]


def test_keep_masks_spread_over_tokens_and_special_tokens_stay() -> None:
    owner = unit_of_position(UNITS, 5)
    keep = np.array([[True, False], [False, True], [False, False]])
    assert present_tokens(keep, owner).tolist() == [
        [True, True, False, True, True],
        [True, False, True, False, True],
        [True, False, False, False, True],
    ]
    assert present_tokens(keep, owner).dtype == np.bool_
    np.testing.assert_array_equal(
        present_tokens(np.array([[0.25, 0.0]]), owner), [[1.0, 0.25, 0.0, 0.25, 1.0]]
    )  # weights of the blend operator stay weights


def test_no_units_leave_every_token_present() -> None:
    assert present_tokens(np.zeros((2, 0), dtype=bool), np.full(3, -1)).tolist() == [[True] * 3] * 2


def test_absent_tokens_are_replaced() -> None:
    present = np.array([[True, False, True], [False, False, True]])
    assert replace(np.array([7, 8, 9]), present, 4).tolist() == [[7, 4, 9], [4, 4, 9]]


def moved(row: np.ndarray, present: np.ndarray, width: int, fill: int) -> list[list[int]]:
    filled, taken = to_front(present, width)
    out = np.full(filled.shape, fill)
    out[filled] = row[taken]
    found: list[list[int]] = out.tolist()
    return found


def test_present_tokens_move_to_the_front() -> None:
    present = np.array([[True, False, True, True], [False, True, False, False], [False] * 4])
    assert moved(np.array([5, 6, 7, 8]), present, 4, 0) == [[5, 7, 8, 0], [6, 0, 0, 0], [0] * 4]
    assert moved(np.array([5, 6, 7, 8]), present, 3, -1) == [[5, 7, 8], [6, -1, -1], [-1] * 3]


@PROPERTY
@given(arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=7)), st.integers(0, 3))
def test_moving_to_the_front_equals_a_loop(present: np.ndarray, extra: int) -> None:
    row = np.arange(present.shape[1]) + 1
    width = present.shape[1] + extra
    wanted = []
    for kept in present:
        left = [int(x) for x, there in zip(row, kept, strict=True) if there]
        wanted.append(left + [0] * (width - len(left)))
    assert moved(row, present, width, 0) == wanted


def naive_unique(keep: np.ndarray) -> tuple[list[list[float]], list[int]]:
    seen: list[list[float]] = []
    inverse = []
    for row in keep.tolist():
        if row not in seen:
            seen.append(row)
        inverse.append(seen.index(row))
    return seen, inverse


SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 20))


@PROPERTY
@given(SHAPES.flatmap(lambda shape: arrays(np.bool_, shape)))
def test_distinct_rows_equal_a_loop(keep: np.ndarray) -> None:
    distinct, inverse = unique_rows(keep)
    assert (distinct.tolist(), inverse.tolist()) == naive_unique(keep)
    assert distinct.dtype == np.bool_


@PROPERTY
@given(
    st.tuples(st.integers(1, 10), st.integers(1, 4)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    )
)
def test_distinct_weights_equal_a_loop(keep: np.ndarray) -> None:
    distinct, inverse = unique_rows(keep)
    assert (distinct.tolist(), inverse.tolist()) == naive_unique(keep)
    np.testing.assert_array_equal(distinct[inverse], keep)


def test_distinct_rows_come_in_order_of_first_appearance() -> None:
    keep = np.array([[1, 1], [0, 1], [1, 1], [0, 0], [0, 1]], dtype=bool)
    distinct, inverse = unique_rows(keep)
    assert distinct.tolist() == [[True, True], [False, True], [False, False]]
    assert inverse.tolist() == [0, 1, 0, 2, 1]


def test_rows_that_differ_only_in_the_last_of_many_columns_are_distinct() -> None:
    keep = np.ones((2, 17), dtype=bool)
    keep[1, 16] = False
    assert len(unique_rows(keep)[0]) == 2


def test_rows_without_columns_are_all_the_same() -> None:
    distinct, inverse = unique_rows(np.zeros((3, 0), dtype=bool))
    assert distinct.shape == (1, 0)
    assert inverse.tolist() == [0, 0, 0]


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_layout_plays_no_part(order: str) -> None:
    keep = np.asarray(np.random.default_rng(0).random((30, 5)).round(), order=order)  # type: ignore[call-overload]
    distinct, inverse = unique_rows(keep)
    np.testing.assert_array_equal(distinct[inverse], keep)
    assert (distinct.tolist(), inverse.tolist()) == naive_unique(keep)
