"""Stability beyond chance: against enumeration, and independent of company and order."""

import itertools

import numpy as np
import pytest

from didact.errors import ParameterError
from didact.metrics.stability.neighbour_iou import NeighbourIou
from didact.metrics.stability.neighbour_iou_gain import NeighbourIouGain
from didact.protocols import Evidence
from tests.metrics.made import explained


def test_chance_is_the_mean_over_all_shuffles() -> None:
    first, second = "good film here", "good food here"
    one, other = explained(first, [3, 1, 0]), explained(second, [2, 1, 0])
    (grade, _) = NeighbourIouGain(draws=3000).measure(Evidence([one, other]))
    plain = NeighbourIou()
    slow = [
        plain.measure(Evidence([explained(first, list(a)), explained(second, list(b))]))[0].value
        for a in itertools.permutations([3, 1, 0])
        for b in itertools.permutations([2, 1, 0])
    ]
    assert grade.parts["overlap"] == plain.measure(Evidence([one, other]))[0].value == 1.0
    assert grade.parts["chance"] == pytest.approx(np.mean(slow), abs=0.02)  # 2/9: good and good, or here and here
    assert grade.value == grade.parts["overlap"] - grade.parts["chance"]


@pytest.mark.parametrize("by", ["top", "labels"])
def test_random_scores_gain_nothing_though_they_overlap(by: str) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.permutation(["a", "b", "c", "d", "e", "f", "g", "h"])) for _ in range(120)]
    drawn = [explained(text, rng.normal(size=8).tolist()) for text in texts]
    grades = NeighbourIouGain.configured(by=by).measure(Evidence(drawn))
    values = np.array([grade.value for grade in grades])
    assert np.mean([grade.parts["overlap"] for grade in grades]) > 0.1
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_equal_texts_are_shuffled_apart() -> None:
    same = [explained("a dull film with good songs", [0, -2, 0.5, 0, 3, -0.5]) for _ in range(4)]
    for grade in NeighbourIouGain().measure(Evidence(same)):
        assert grade.parts["overlap"] == 1.0
        assert grade.parts["chance"] < 0.6


def test_the_company_and_the_order_of_texts_decide_nothing() -> None:
    texts = [explained("good film here", [3, 1, 0]), explained("good food here", [2, 1, 0])]
    far = explained("nothing of that sort", [1, 2, 3, 4])
    alone, among = (NeighbourIouGain(neighbours=1).measure(Evidence(some))[0] for some in (texts, [*texts, far]))
    assert alone == among
    mirrored = NeighbourIouGain(neighbours=1).measure(Evidence(texts[::-1]))[1]
    assert alone == mirrored
    with pytest.raises(ParameterError, match="draws of neighbour_iou_gain must be at least 1"):
        NeighbourIouGain(draws=0)
