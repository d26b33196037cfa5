"""Solvex against all orders by enumeration, and against a plain beam search that evaluates one text at a time."""

import itertools

import numpy as np
import pytest

from didact.attribution.solvex import MetricName, Solvex
from didact.errors import ParameterError
from didact.meter import metered
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, keyword_predict
from didact.types import Explanation, Scale, Units
from tests.reference.plain import encoded, text_model, value, without

METRICS: list[MetricName] = ["comprehensiveness", "sufficiency", "difference"]
TEXT = "the plot is dull, avoid"


def order_of(found: Explanation) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(-found.array))


class Passes:
    """f(x without S) and f(S alone), by plain passes over inputs masked by hand; remembered by set."""

    def __init__(self, model: NetworkModel, found: Explanation) -> None:
        self.model, self.found = model, found
        self.known: dict[frozenset[int], float] = {}

    def value(self, absent: frozenset[int]) -> float:
        if absent not in self.known:
            inputs = encoded(self.model, self.found.example.text)
            ids = inputs["input_ids"].clone()
            ids[0, ~without(self.found.units, absent, ids.shape[1])] = self.model.tokenizer.mask_token_id
            inputs["input_ids"] = ids
            self.known[absent] = value(self.model, self.found.target.index, self.found.target.scale, **inputs)
        return self.known[absent]

    def worth(self, metric: str, order: tuple[int, ...]) -> float:
        """The metric added up over all prefixes of an order."""
        every = frozenset(range(len(self.found.units)))
        total = 0.0
        for size in range(1, len(order) + 1):
            taken = frozenset(order[:size])
            full, gone, alone = self.value(frozenset()), self.value(taken), self.value(every - taken)
            total += {
                "comprehensiveness": full - gone,
                "sufficiency": alone - full,
                "difference": alone - gone,
            }[metric]
        return total


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_a_wide_beam_finds_the_best_of_all_orders(metric: MetricName, scale: Scale) -> None:
    model = text_model("bert")
    (found,) = Solvex(metric=metric, beam=200, depth=100, scale=scale).explain(model, [TEXT])
    n = len(found.units)
    assert n == 6
    passes = Passes(model, found)
    best = max(passes.worth(metric, order) for order in itertools.permutations(range(n)))
    assert passes.worth(metric, order_of(found)) == pytest.approx(best, abs=1e-5)
    assert found.details["objective"] * n == pytest.approx(best, abs=1e-5)
    assert sorted(found.scores) == pytest.approx([(i + 1) / n for i in range(n)])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_narrow_beam_is_the_textbook_search(metric: MetricName, beam: int) -> None:
    model = text_model("distilbert")
    (found,) = Solvex(metric=metric, beam=beam, depth=100).explain(model, [TEXTS[0]])
    n = len(found.units)
    passes = Passes(model, found)
    orders: list[tuple[int, ...]] = [()]
    for _ in range(n):
        longer = [(*order, i) for order in orders for i in range(n) if i not in order]
        longer.sort(key=lambda order: -passes.worth(metric, order))
        distinct = list({frozenset(order): order for order in reversed(longer)}.values())
        orders = sorted(distinct, key=lambda order: -passes.worth(metric, order))[:beam]
    assert passes.worth(metric, order_of(found)) == pytest.approx(passes.worth(metric, orders[0]), abs=1e-5)
    assert order_of(found) == orders[0]


def test_units_beyond_the_depth_follow_by_their_worth_alone() -> None:
    model = text_model("bert")
    (found,) = Solvex(metric="comprehensiveness", beam=2, depth=40).explain(model, [TEXTS[0]])
    passes = Passes(model, found)
    order = order_of(found)
    head, tail = order[:4], order[4:]  # 8 units, 40 % rounded up
    alone = [passes.worth("comprehensiveness", (i,)) for i in tail]
    assert alone == sorted(alone, reverse=True)
    (deeper,) = Solvex(metric="comprehensiveness", beam=2, depth=50).explain(model, [TEXTS[0]])
    assert order_of(deeper)[:4] == head


def test_a_long_text_is_searched_for_some_units_only() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    text = " ".join(f"w{i}" for i in range(100)) + " wonderful"
    method = Solvex(metric="comprehensiveness", beam=2, steps=3, candidates=None)
    (found,) = method.explain(model, [text])
    assert found.cost.forwards == 2 + 101 + 2 * 100 + 2 * 99
    assert found.top(1)[0][0] == "wonderful"


def test_after_the_first_step_only_candidates_are_tried() -> None:
    model = text_model("bert")
    text = TEXTS[3]
    (every,) = Solvex(beam=2, depth=100, candidates=None).explain(model, [text])
    n = len(every.units)
    (all_of_them,) = Solvex(beam=2, depth=100, candidates=n).explain(model, [text])
    assert all_of_them.scores == every.scores
    method = Solvex(metric="comprehensiveness", beam=2, steps=3, depth=100, candidates=4)
    with metered() as meter:
        (few,) = method.explain(model, [text])
    assert meter.forwards == few.cost.forwards == 2 + n + 2 * 3 + 2 * 2
    passes = Passes(model, few)
    first = sorted(range(n), key=lambda i: -passes.worth("comprehensiveness", (i,)))
    assert set(order_of(few)[:3]) <= set(first[:4])
    (narrow,) = Solvex(beam=3, steps=5, depth=100, candidates=1).explain(model, [text])  # as many as it takes
    assert sorted(narrow.scores) == pytest.approx([(i + 1) / n for i in range(n)])


def test_planted_words_come_first() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    (found,) = Solvex().explain(model, ["a truly wonderful film with a warm heart"])
    assert [text for text, _ in found.top(2)] == ["wonderful", "warm"]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("beam", "depth"), [(1, 100.0), (4, 100.0), (1000, 100.0), (10, 30.0), (10, 0.0)])
@pytest.mark.parametrize("text", ["dull", "dull plot", "the plot is dull", "An unforgettable evening, good and warm"])
def test_the_number_of_evaluations_is_known_beforehand(metric: MetricName, beam: int, depth: float, text: str) -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    method = Solvex(metric=metric, beam=beam, depth=depth)
    with metered() as meter:
        found = method.explain(model, [text, TEXTS[1]])
    assert meter.forwards == sum(method.cost(explanation.units).forwards for explanation in found)
    assert meter.evaluated <= meter.forwards


def test_repeated_sets_are_evaluated_once() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    with metered() as meter:
        Solvex(metric="sufficiency", beam=1000, depth=100).explain(model, ["w1 w2 w3 w4 w5"])
    assert meter.forwards > 100
    assert meter.evaluated <= 2**5 + 5  # all sets of five units; the whole text is asked for three times


def test_settings_are_checked() -> None:
    with pytest.raises(ParameterError, match="depth of solvex must be at most 100"):
        Solvex(depth=120)
    with pytest.raises(ParameterError, match="beam of solvex must be at least 1"):
        Solvex(beam=0)
    with pytest.raises(ParameterError, match="candidates of solvex must be at least 1"):
        Solvex(candidates=0)
    with pytest.raises(ParameterError, match="metric of solvex must be 'comprehensiveness' or 'sufficiency'"):
        Solvex.configured(metric="accuracy")


def test_declared_cost_of_one_unit() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    (units,) = model.units([Solvex().explain(model, ["dull"])[0].example])
    assert isinstance(units, Units)
    assert Solvex().cost(units).forwards == 4
