"""Deletion and insertion areas, worked by hand."""

import numpy as np
import pytest

from didact.errors import ParameterError
from didact.meter import metered
from didact.metrics.faithfulness.deletion_area import DeletionArea
from didact.metrics.faithfulness.insertion_area import InsertionArea
from didact.protocols import Evidence
from tests.metrics.faithfulness.given import TEXT, additive, evidence, explain

# "a good warm film", order good, warm, film, a. Deletion: 0.9, 0.4, 0.2, 0.1, 0.1 at 0, 1/4, ..., 1.
# Trapezoids of width 1/4: (0.65 + 0.3 + 0.15 + 0.1) / 4 = 0.3.
# Insertion: 0.1, 0.6, 0.8, 0.9, 0.9: (0.35 + 0.7 + 0.85 + 0.9) / 4 = 0.7.
SCORES = [0, 3, 2, 1]


def test_deletion_area_worked_by_hand() -> None:
    (grade,) = DeletionArea(steps=4).measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(0.3)
    assert grade.parts == pytest.approx({"0%": 0.9, "25%": 0.4, "50%": 0.2, "75%": 0.1, "100%": 0.1})


def test_insertion_area_worked_by_hand() -> None:
    (grade,) = InsertionArea(steps=4).measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(0.7)
    assert grade.parts == pytest.approx({"0%": 0.1, "25%": 0.6, "50%": 0.8, "75%": 0.9, "100%": 0.9})


def test_a_short_text_is_followed_unit_by_unit_and_told_at_the_same_shares() -> None:
    # Ten steps for four units: the same five points, so the same area; at 10 % the line from 0.9 to 0.4 has gone 0.4 of
    # the way: 0.9 - 0.4 * 0.5 = 0.7.
    (grade,) = DeletionArea().measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(0.3)
    assert list(grade.parts) == [f"{share}%" for share in range(0, 101, 10)]
    assert grade.parts["10%"] == pytest.approx(0.7)


def test_a_long_text_is_cut_into_steps() -> None:
    # 40 words, the first 10 carry 0.08 each: in ten steps of 4 units the curve is 0.9, 0.58, 0.26, 0.1, 0.1, ...
    words = [f"g{i}" for i in range(10)] + [f"n{i}" for i in range(30)]
    model = additive(dict.fromkeys(words[:10], 0.08))
    explanation = explain(model, " ".join(words), range(40, 0, -1))
    with metered() as meter:
        (grade,) = DeletionArea().measure(Evidence([explanation], model))
    assert meter.forwards == 10  # the whole text is known from the explanation
    assert list(grade.parts.values()) == pytest.approx([0.9, 0.58, 0.26] + [0.1] * 8)
    assert grade.value == pytest.approx((0.74 + 0.42 + 0.18 + 7 * 0.1) / 10)


def test_the_two_curves_of_one_order_and_its_reverse_mirror_each_other() -> None:
    # Taking units out in one order passes the same texts as putting them in in the reverse order.
    model = additive()
    rng = np.random.default_rng(0)
    scores = rng.permutation(4).astype(float)
    (out,) = DeletionArea().measure(evidence(model, TEXT, scores.tolist()))
    (back,) = InsertionArea().measure(evidence(model, TEXT, (-scores).tolist()))
    assert out.value == pytest.approx(back.value)
    assert list(out.parts.values()) == pytest.approx(list(back.parts.values())[::-1])


def test_no_steps_are_refused() -> None:
    with pytest.raises(ParameterError, match="steps of deletion_area must be at least 1"):
        DeletionArea(steps=0)
