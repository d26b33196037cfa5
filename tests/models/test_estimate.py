"""Estimates against what explaining really takes."""

import numpy as np
import pytest

from didact.attribution.integrated_gradients import IntegratedGradients
from didact.attribution.lime import Lime
from didact.meter import metered
from didact.models.estimate import Pace, estimate, measure
from didact.models.load import load_model
from didact.testing.tiny import ARCHITECTURES, TEXTS, keyword_predict, tiny_model
from didact.types import Example, Units

EXAMPLES = [Example(TEXTS[0]), Example(TEXTS[1])]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_can_be_estimated(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    model = load_model((network, tokenizer))
    units = model.units(EXAMPLES)
    pace = measure(model, units[1])
    told = estimate(model, units, Lime(samples=30), pace)
    assert told.forwards == 62
    assert told.seconds == pytest.approx(31 * (pace.of(_tokens(units[0])) + pace.of(_tokens(units[1]))))
    weights = sum(parameter.numel() * 4 for parameter in network.parameters())
    assert told.memory is not None
    assert weights < told.memory < 100 * 2**20


def test_gradients_take_more_time_and_memory_than_as_many_forwards() -> None:
    model = load_model(tiny_model("bert"))
    units = model.units(EXAMPLES)
    plain = estimate(model, units, Lime(samples=50), Pace(1.0, 10))
    gradients = estimate(model, units, IntegratedGradients(steps=48), Pace(1.0, 10))
    assert gradients.backwards > 0
    assert gradients.seconds > plain.seconds
    assert plain.memory is not None
    assert gradients.memory is not None


def test_a_black_box_is_asked_three_times_and_its_memory_is_unknown() -> None:
    asked: list[str] = []

    def remember(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return keyword_predict(texts)

    model = load_model(remember, labels=["negative", "positive"])
    units = model.units(EXAMPLES)
    told = estimate(model, units, Lime(), measure(model, units[0]))
    assert asked == [TEXTS[0]] * 3
    assert told.memory is None
    assert told.seconds > 0


def test_the_model_is_timed_with_few_rows() -> None:
    model = load_model(tiny_model("bert"))
    (units,) = model.units([Example(" ".join(TEXTS))])
    with metered() as meter:
        measure(model, units)
    assert 2 <= meter.forwards <= 2 * 64 + 1


def _tokens(units: Units) -> int:
    return max(max(positions) for positions in units.positions) + 1
