"""Estimates against what explaining really takes."""

import numpy as np
import pytest

from didact.attribution.alti import Alti
from didact.attribution.attention import Attention
from didact.attribution.base import Attribution
from didact.attribution.decompx import DecompX
from didact.attribution.globenc import GlobEnc
from didact.attribution.integrated_gradients import IntegratedGradients
from didact.attribution.kernel_shap import KernelShap
from didact.attribution.lime import Lime
from didact.meter import metered
from didact.models.estimate import NetworkSize, Pace, estimate, measure
from didact.models.load import load_model
from didact.testing.tiny import ARCHITECTURES, TEXTS, keyword_predict, tiny_model
from didact.types import Estimate, Example, Units

EXAMPLES = [Example(TEXTS[0]), Example(TEXTS[1])]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_can_be_estimated(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    model = load_model((network, tokenizer))
    units = model.units(EXAMPLES)
    pace = measure(model, units[1])
    told = estimate(model, units, Lime(samples=30), pace)
    assert told.forwards == 62
    passes = 31 * (pace.of(_tokens(units[0])) + pace.of(_tokens(units[1])))
    assert passes < told.seconds < 1.1 * passes + 1e-3  # what is more goes into the fit
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


@pytest.mark.parametrize("method", [DecompX(), Alti(), GlobEnc()])
def test_arithmetic_and_arrays_of_a_methods_own_are_told(method: Attribution) -> None:
    model = load_model(tiny_model("bert"))
    pace = Pace(1.0, 10)
    short, long = (model.units([Example(" ".join(TEXTS[:count]))]) for count in (1, 4))
    told = {len(units[0]): estimate(model, units, method, pace) for units in (short, long)}
    plain = {len(units[0]): estimate(model, units, Attention(), pace) for units in (short, long)}
    more = {n: told[n].seconds - plain[n].seconds for n in told}
    assert told[len(long[0])].forwards == plain[len(long[0])].forwards == 2
    # The tokens are 4.6 times as many; what grows with their square or more grows faster than the passes do.
    assert 0 < 4.6 * more[len(short[0])] < more[len(long[0])]
    arrays = {n: _memory(told[n]) - _memory(plain[n]) for n in told}
    assert 0 < 4.6 * arrays[len(short[0])] < arrays[len(long[0])]


def test_decompx_tells_its_two_large_arrays() -> None:
    # tokens² x dimensions x 4 bytes is 805 MB for a base model's 512 tokens: two of them, one head's share of two more.
    own = DecompX().own(NetworkSize(tokens=512, width=768, inner=3072, heads=12, layers=12))
    assert 1.7e9 < own.memory < 2.2e9
    apart = DecompX(biases="apart").own(NetworkSize(tokens=512, width=768, inner=3072, heads=12, layers=12))
    assert apart.memory < 0.5e9
    assert apart.multiplications < own.multiplications / 100


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


def _memory(told: Estimate) -> int:
    assert told.memory is not None
    return told.memory


def _tokens(units: Units) -> int:
    return max(max(positions) for positions in units.positions) + 1


def test_the_forecast_for_a_long_text_of_a_function_holds() -> None:
    def count_good(texts: list[str]) -> np.ndarray:
        good = np.array([text.count("good") for text in texts]) / 1000
        return np.stack([1 - good, good], axis=1)

    model = load_model(count_good, labels=["negative", "positive"])
    (units,) = model.units([Example("good or bad " * 700)])
    method = Lime(samples=300)
    told = estimate(model, [units], method, measure(model, units))
    with metered() as meter:
        method.explain(model, [units.example])
    assert meter.seconds / 8 < told.seconds < 8 * meter.seconds  # the machine may be busy at one of the two


def test_the_fit_of_a_long_text_grows_with_its_length_alone() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    (short,), (long,) = (model.units([Example("good or bad " * count)]) for count in (1000, 4000))
    assert Lime().fitting(long) < 4.5 * Lime().fitting(short)
    pace = Pace(0.0, 1)
    assert estimate(model, [long], Lime(), pace).seconds > 0
    (words,) = model.units([Example("good or bad " * 30)])
    assert (
        estimate(model, [long], KernelShap(), pace).seconds
        > 1000 * estimate(model, [words], KernelShap(), pace).seconds
    )
