"""What explanations cost, as metrics."""

import math

import pytest

from didact.errors import ParameterError
from didact.metrics.efficiency.break_even import BreakEven
from didact.metrics.efficiency.evaluated import Evaluated
from didact.metrics.efficiency.forwards import Forwards
from didact.metrics.efficiency.seconds import Seconds
from didact.protocols import Evidence
from didact.types import Cost
from tests.metrics.made import explained, value, values

FOUND = [
    explained("one", [1], cost=Cost(forwards=10, backwards=4, evaluated=7, seconds=0.5)),
    explained("two", [1], cost=Cost(forwards=20, backwards=0, evaluated=20, seconds=1.5)),
]
UNMEASURED = explained("one", [1], cost=Cost(forwards=3))


def test_costs_are_read_off() -> None:
    assert values(Forwards(), FOUND) == [10.0, 20.0]
    assert [grade.parts for grade in Forwards().measure(Evidence(FOUND))] == [{"backwards": 4.0}, {"backwards": 0.0}]
    assert values(Evaluated(), FOUND) == [7.0, 20.0]
    assert values(Seconds(), FOUND) == [0.5, 1.5]


def test_what_was_not_measured_is_undefined() -> None:
    assert value(Forwards(), UNMEASURED) == 3.0
    assert math.isnan(value(Evaluated(), UNMEASURED))
    assert math.isnan(value(Seconds(), UNMEASURED))


def test_break_even_by_hand() -> None:
    # 1 s on average against 3.5 s saves 2.5 s each: 100 s of training are earned after 40 explanations.
    grades = BreakEven(training_seconds=100, slow_seconds=3.5).measure(Evidence(FOUND))
    assert [grade.value for grade in grades] == [pytest.approx(40.0)] * 2
    assert grades[0].parts == {"saved": pytest.approx(2.5)}


def test_training_that_never_pays_is_told_from_an_unknown_rival() -> None:
    never = BreakEven(training_seconds=100, slow_seconds=0.25).measure(Evidence(FOUND))[0]
    unknown = BreakEven(training_seconds=100).measure(Evidence(FOUND))[0]
    assert math.isnan(never.value)
    assert never.parts["saved"] == pytest.approx(-0.75)
    assert math.isnan(unknown.value)
    assert math.isnan(unknown.parts["saved"])


def test_other_explainers_are_rivals_too() -> None:
    slow = [explained("one", [1], cost=Cost(seconds=5.0)), explained("two", [1], cost=Cost(seconds=7.0))]
    (grade, _) = BreakEven(training_seconds=10).measure(Evidence(FOUND, others={"lime": slow, "same": FOUND}))
    assert grade.parts["lime"] == pytest.approx(10 / (6 - 1))
    assert math.isnan(grade.parts["same"])


def test_an_explainer_without_training_pays_at_once() -> None:
    assert value(BreakEven(slow_seconds=2.0), FOUND[0]) == 0.0


@pytest.mark.parametrize("settings", [{"training_seconds": -1}, {"slow_seconds": -1.0}])
def test_negative_times_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match="break_even"):
        BreakEven.configured(**settings)
