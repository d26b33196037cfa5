"""Normalised AOPC: worked by hand, and its bounds against all orders."""

import itertools
import math

import numpy as np
import pytest

from didact.meter import metered
from didact.metrics.faithfulness.normalised_aopc import NormalisedAopc
from didact.models.functions.blackbox import BlackBox
from didact.models.load import load_model
from didact.protocols import Evidence
from didact.testing.tiny import TEXTS, tiny_model
from tests.metrics.faithfulness.given import additive, answering, evidence, explain

WEIGHTS = {"good": 0.5, "warm": 0.2, "film": 0.1}


def test_worked_by_hand() -> None:
    # "good warm film", p = 0.9; falls add up. Best order good, warm, film: falls 0.5, 0.7, 0.8, mean 2.0 / 3.
    # Worst order film, warm, good: 0.1, 0.3, 0.8, mean 1.2 / 3.
    # Explained: warm, good, film: 0.2, 0.7, 0.8, mean 1.7 / 3. Its place is (1.7 - 1.2) / 0.8 = 0.625.
    # Least important first: film, good, warm: 0.1, 0.6, 0.8, mean 1.5 / 3, place (1.5 - 1.2) / 0.8 = 0.375.
    (grade,) = NormalisedAopc().measure(evidence(additive(WEIGHTS), "good warm film", [2, 3, 1]))
    assert grade.value == pytest.approx(0.625)
    assert grade.parts == pytest.approx({"sufficiency": 0.375, "aopc": 1.7 / 3, "worst": 1.2 / 3, "best": 2.0 / 3})


def test_the_best_and_the_worst_order_are_the_ends() -> None:
    model = additive(WEIGHTS)
    assert NormalisedAopc().measure(evidence(model, "good warm film", [3, 2, 1]))[0].value == pytest.approx(1)
    assert NormalisedAopc().measure(evidence(model, "good warm film", [1, 2, 3]))[0].value == pytest.approx(0)


def interacting(seed: int) -> BlackBox:
    """An arbitrary number for every set of words."""

    def value(text: str) -> float:
        return float(np.random.default_rng([seed, *text.encode()]).random())

    return answering(value)


@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_are_those_of_all_orders(seed: int) -> None:
    model, words = interacting(seed), "abcde"

    def predict(left: list[str]) -> float:
        return float(model.function([" ".join(left)])[0][1])

    means = []
    for order in itertools.permutations(range(5)):
        left = [[words[i] for i in range(5) if i not in order[:size]] for size in range(6)]
        means.append(np.mean([predict(left[0]) - predict(some) for some in left[1:]]))
    (grade,) = NormalisedAopc().measure(evidence(model, " ".join(words), [5, 4, 3, 2, 1]))
    assert (grade.parts["worst"], grade.parts["best"]) == pytest.approx((min(means), max(means)))
    assert grade.value == pytest.approx((means[0] - min(means)) / (max(means) - min(means)))


def test_a_wide_beam_finds_the_exact_bounds_and_a_narrow_one_stays_inside() -> None:
    model = interacting(0)
    given = evidence(model, "a b c d e f", range(6))
    exact, wide, narrow = (
        metric.measure(given)[0].parts
        for metric in (NormalisedAopc(), NormalisedAopc(exact_units=0, beam=64), NormalisedAopc(exact_units=0, beam=1))
    )
    assert (wide["worst"], wide["best"]) == pytest.approx((exact["worst"], exact["best"]))
    assert exact["worst"] - 1e-9 <= narrow["worst"] < narrow["best"] <= exact["best"] + 1e-9


def test_nothing_to_tell_apart_is_not_a_number() -> None:
    (one,) = NormalisedAopc().measure(evidence(additive(), "good", [1.0]))
    (flat,) = NormalisedAopc().measure(evidence(answering(lambda text: 0.7), "a b c", [1, 2, 3]))
    (long,) = NormalisedAopc(longest=2).measure(evidence(additive(), "good warm film", [1, 2, 3]))
    assert all(math.isnan(grade.value) for grade in (one, flat, long))


def test_further_explanations_of_a_text_cost_two_rows_per_unit() -> None:
    model = load_model(tiny_model("bert"))
    scores = np.random.default_rng(0).normal(size=(2, 8))
    metric = NormalisedAopc(exact_units=0, beam=2)
    first, second = (Evidence([explain(model, TEXTS[0], row, 1, "logit")], model) for row in scores)
    with metered() as before:
        metric.measure(first)
    with metered() as after:
        (grade,) = metric.measure(second)
    assert before.forwards > 50
    assert after.forwards == 16
    assert 0 <= grade.value <= 1
