"""Hints: how much of an explanation is told, in which form, and how alike the hints of several methods are."""

import dataclasses
import math
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import didact
from didact.errors import InputError, ParameterError
from didact.ops import simplex
from didact.simulation.hints import HintFormat, linked, overlap, size_in_bits
from didact.students.base import Hint
from didact.types import Example, Explanation, Span
from tests.metrics.made import explained

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
TEN = "one two three four five six seven eight nine ten"

many_scores = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=1, max_size=30)


def of(scores: list[float], method: str = "made") -> Explanation:
    text = " ".join(f"w{number}" for number in range(len(scores)))
    return dataclasses.replace(explained(text, scores), method=method)


def weights(scores: list[float], method: str = "made", **form: Any) -> list[float]:
    return [float(weight) for weight in HintFormat(**form).hint(of(scores, method)).weights]


def hint(text: str, *marks: int) -> Hint:
    """A set of these words."""
    scores = [float(number in marks) for number in range(len(text.split()))]
    return HintFormat().hint(dataclasses.replace(explained(text, scores), method="human"))


def test_a_top_set_is_the_largest_scores_with_equal_weights() -> None:
    assert weights([0.1, 0.9, -2.0, 0.5], share=0.5) == [0, 0.5, 0, 0.5]
    assert weights([0.1, 0.9, -2.0, 0.5], share=0.5, absolute=True) == [0, 0.5, 0.5, 0]
    assert weights([0.1, 0.9, -2.0, 0.5], share=0.01) == [0, 1, 0, 0]
    assert weights([-3.0, -1.0], share=0.5) == [0, 1]


@pytest.mark.parametrize(("units", "share", "size"), [(10, 0.1, 1), (11, 0.1, 2), (100, 0.07, 7), (3, 1.0, 3)])
def test_a_share_of_the_units_is_rounded_up(units: int, share: float, size: int) -> None:
    assert np.count_nonzero(weights(list(map(float, range(units))), share=share)) == size


def test_a_human_rationale_is_told_whole_in_either_kind() -> None:
    marked = [1.0, 0.0, 1.0, 1.0, 1.0]
    assert weights(marked, "human", share=0.2) == weights(marked, "human", kind="dense") == [0.25, 0, 0.25, 0.25, 0.25]


def test_ties_at_the_cut_are_drawn_by_lot_and_always_alike() -> None:
    texts = [f"{word} two three four five six seven eight nine ten" for word in TEN.split()]
    scores = [0.0, *[1.0] * 8, 0.0]
    chosen = [HintFormat().hint(explained(text, scores)).weights.argmax() for text in texts]
    assert chosen == [HintFormat().hint(explained(text, scores)).weights.argmax() for text in texts]
    assert set(chosen) <= set(range(1, 9))
    assert len(set(chosen)) > 3  # not the first of them in every text


def test_a_dense_hint_is_the_positive_part() -> None:
    assert weights([3.0, -5.0, 1.0], kind="dense") == [0.75, 0, 0.25]
    assert weights([3.0, -5.0, 2.0], kind="dense", absolute=True) == [0.3, 0.5, 0.2]


@pytest.mark.parametrize(
    "form",
    [{"kind": "top"}, {"kind": "dense"}, {"kind": "dense", "bits": 2}, {"kind": "softmax"}, {"kind": "sparsemax"}],
)
def test_scores_of_zero_say_nothing(form: dict[str, Any]) -> None:
    assert weights([0.0, 0.0, 0.0], **form) == [0, 0, 0]
    assert weights([0.0, 0.0, 0.0], "human", **form) == [0, 0, 0]


def test_a_softmax_hint_leaves_no_unit_out_and_a_low_temperature_sharpens_it() -> None:
    assert weights([2.0, -1.0, 0.0], kind="softmax") == pytest.approx([0.84379, 0.04201, 0.11420], abs=1e-5)
    sharp = weights([0.2, -0.1, 0.0], kind="softmax", temperature=0.1)
    assert sharp == pytest.approx(weights([2.0, -1.0, 0.0], kind="softmax"))
    assert weights([1e5, 0.0, 0.0], kind="softmax") == [1, 0, 0]
    assert weights([1.0, 0.0, 1.0], "human", kind="softmax") == [0.5, 0, 0.5]


def test_a_sparsemax_hint_marks_fewer_units_the_lower_the_temperature() -> None:
    assert weights([2.0, 1.5, 0.0], kind="sparsemax") == pytest.approx([0.75, 0.25, 0])
    assert weights([2.0, 1.5, 0.0], kind="sparsemax", temperature=0.5) == pytest.approx([1, 0, 0])
    all_three = weights([2.0, 1.5, 0.0], kind="sparsemax", temperature=10)
    assert all_three == pytest.approx([0.41667, 0.36667, 0.21667], abs=1e-5)
    scores = np.random.default_rng(0).normal(size=40) * 3
    exact = simplex.sparsemax(torch.from_numpy(scores)).numpy()
    assert weights(scores.tolist(), kind="sparsemax") == pytest.approx(exact)


def test_scores_that_all_speak_against_the_prediction_make_no_dense_hint() -> None:
    assert weights([-1.0, -2.0], kind="dense") == [0, 0]


def test_bits_round_to_levels_of_the_largest_weight() -> None:
    # Of the largest weight these are 1, .6, .5, .4 and .1. Levels of one bit: 0 and 1; of two: 0, 1/3, 2/3 and 1.
    scores = [1.0, 0.6, 0.5, 0.4, 0.1]
    assert weights(scores, kind="dense", bits=1) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
    assert weights(scores, kind="dense", bits=2) == pytest.approx([3 / 8, 2 / 8, 2 / 8, 1 / 8, 0])


@PROPERTY
@given(many_scores, st.booleans())
def test_weights_add_up_to_one_or_say_nothing(scores: list[float], absolute: bool) -> None:
    for form in ({"kind": "top"}, {"kind": "dense"}, {"kind": "dense", "bits": 3}):
        told = np.array(weights(scores, absolute=absolute, **form))
        assert (told >= 0).all()
        assert told.sum() == pytest.approx(1.0) or not told.any()


@PROPERTY
@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=30), st.integers(1, 10))
def test_more_bits_come_closer_to_the_dense_hint(scores: list[float], bits: int) -> None:
    dense, told = (np.array(weights(scores, kind="dense", bits=b)) for b in (None, bits))
    # Each weight is off by at most half a step before the sum is brought back to one.
    step = dense.max() / (2**bits - 1)
    assert np.abs(told / told.max() - dense / dense.max()).max() * dense.max() <= step / 2 + 1e-9
    assert np.count_nonzero(told == told.max()) >= 1


@PROPERTY
@given(many_scores, st.integers(1, 8))
def test_a_rounded_hint_is_no_larger_than_its_bits(scores: list[float], bits: int) -> None:
    told = HintFormat(kind="dense", bits=bits).hint(of(scores))
    assert 0 <= size_in_bits(told) <= bits * len(scores) + 1e-6


def test_the_size_of_a_hint_counts_the_ways_to_tell_it() -> None:
    assert size_in_bits(hint(TEN, 0, 4, 7)) == pytest.approx(math.log2(comb(10, 3)))
    assert size_in_bits(hint(TEN)) == size_in_bits(hint(TEN, *range(10))) == 0
    distinct = HintFormat(kind="dense").hint(explained("a b c d", [0.4, 0.3, 0.2, 0.1]))
    assert size_in_bits(distinct) == pytest.approx(math.log2(24))  # 4! orders
    grown = [
        size_in_bits(HintFormat(kind="dense", bits=b).hint(of([float(i) for i in range(1, 21)]))) for b in (1, 2, 4, 8)
    ]
    assert grown == sorted(grown)
    assert grown[0] < grown[-1]


def test_links_mark_the_words_of_their_phrases_in_both_texts() -> None:
    example = Example("who wrote the old song", "the song was written by Ann Lee")
    links = [(Span(10, 22), Span(0, 8, 1)), (Span(0, 3), Span(24, 31, 1))]
    told = linked(example, links)
    marked = [example.fields[s.field][s.start : s.end] for s, w in zip(told.spans, told.weights, strict=True) if w > 0]
    assert marked == ["who", "the", "old", "song", "the", "song", "Ann", "Lee"]
    assert set(told.weights.tolist()) == {0.0, 1 / 8}
    assert told.links == tuple(links)
    assert not linked(example, []).weights.any()


def test_overlap_is_the_share_of_common_units() -> None:
    other = "red green blue black white"
    names, matrix = overlap(
        {
            "a": [hint(TEN, 0, 1), hint(other, 0)],
            "b": [hint(TEN, 1, 2), hint(other, 0)],
            "nothing": [hint(TEN), hint(other)],
        }
    )
    assert names == ["a", "b", "nothing"]
    # a and b share one of two units in the first text and all in the second; what says nothing is compared with nobody.
    np.testing.assert_array_equal(matrix, [[1, 0.75, np.nan], [0.75, 1, np.nan], [np.nan] * 3])


def test_overlap_compares_units_of_different_tokenizers_by_their_characters() -> None:
    words = Hint((Span(0, 9), Span(10, 13)), np.array([1.0, 0.0]))
    pieces = Hint((Span(0, 4), Span(4, 9), Span(10, 13)), np.array([0.5, 0.0, 0.5]))
    # The word touches a marked piece; of two marked pieces one touches it: 2 of 3 marked units.
    _, matrix = overlap({"words": [words], "pieces": [pieces]})
    assert matrix[0, 1] == pytest.approx(2 / 3)
    both_fields = Hint((Span(0, 9, 1),), np.array([1.0]))
    assert overlap({"words": [words], "pair": [both_fields]})[1][0, 1] == 0


def test_overlap_needs_the_same_texts() -> None:
    with pytest.raises(InputError, match="a 1, b 0"):
        overlap({"a": [hint(TEN, 0)], "b": []})


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"share": 0.0}, "share of a hint must be above 0"),
        ({"share": 1.5}, "at most 1, got 1.5"),
        ({"kind": "dense", "bits": 0}, "bits of a hint must be from 1 to 32"),
        ({"bits": 2}, "give kind='dense'"),
        ({"kind": "softmax", "bits": 2}, "give kind='dense', or no bits"),
        ({"kind": "softmax", "temperature": 0.0}, "temperature of a hint must be above 0, got 0.0"),
        ({"kind": "sparsemax", "bits": 2}, "not the sparsemax of scores"),
        ({"temperature": 0.5}, "temperature is of hints of kind 'softmax' or 'sparsemax', and the kind is 'top'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(form: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        HintFormat(**form)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ParameterError, match=r"unknown kind of hint 'tops' \(did you mean top"):
        HintFormat(kind="tops")  # type: ignore[arg-type]


def test_hints_of_a_real_explanation_point_at_its_words() -> None:
    review = "A dull plot, but the songs are wonderful."
    told = HintFormat().hint(didact.explain(review, method="occlusion"))
    (place,) = np.flatnonzero(told.weights)
    span = told.spans[place]
    assert review[span.start : span.end] == "wonderful"
