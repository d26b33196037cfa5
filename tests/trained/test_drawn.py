"""Maps drawn around an explainer's: the best by a measure is kept, and said to be chosen on the text."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

import didact
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.random import Random
from didact.data.corpus import generate
from didact.errors import ParameterError
from didact.experiments.masking.judges import judge
from didact.models.load import load_model
from didact.protocols import ExampleLike, Model, TargetLike
from didact.trained.drawn import DrawnExplainer, around, split_draws
from didact.trained.judging import Judge
from didact.types import Explanation, Floats

TEXTS = [example.text for example in generate(4, seed=2)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("default", device="cpu")


def test_more_draws_are_better_by_the_measure_and_never_worse_than_the_first_map(model: Model) -> None:
    comp, explainer = judge("comp"), GradientXInput(level="token")
    first = comp.grades(model, explainer.explain(model, TEXTS))
    some, many = (comp.grades(model, DrawnExplainer(explainer, comp, draws).explain(model, TEXTS)) for draws in (4, 40))
    assert (some >= first).all()
    assert many.mean() > first.mean()
    assert many.mean() > some.mean()


def test_explanations_say_how_they_were_chosen(model: Model) -> None:
    comp = judge("comp")
    explainer = DrawnExplainer(GradientXInput(level="token"), comp, 8)
    made = explainer.explain(model, TEXTS)
    values = comp.grades(model, made)
    assert {own.method for own in made} == {"gradient_x_input_drawn"}
    for own, value in zip(made, values, strict=True):
        assert own.details["comp, chosen"] == pytest.approx(value, abs=1e-6)
        assert own.details["comp, first"] <= own.details["comp, chosen"]
        assert "Selected on this text by comp, out of 9 maps" in own.warnings[-1]
        assert own.parameters["draws"] == 8
        assert own.parameters["around.level"] == "token"
        assert own.cost.forwards >= 8
        assert Explanation.from_json(own.to_json()) == own
    assert explainer.cost(made[0].units).forwards == GradientXInput(level="token").cost(made[0].units).forwards + 8


class Nothing(Random):
    """Finds no units in the second text."""

    def explain(
        self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
    ) -> list[Explanation]:
        made = super().explain(model, examples, targets)
        units = dataclasses.replace(made[1].units, regions=(), positions=())
        return [made[0], dataclasses.replace(made[1], units=units, scores=()), *made[2:]]


def test_a_text_without_units_stays_as_it_is(model: Model) -> None:
    made = DrawnExplainer(Nothing(), judge("comp"), 4).explain(model, TEXTS)
    assert [own.method for own in made] == ["random_drawn", "random", "random_drawn", "random_drawn"]
    assert made[1].scores == ()


def test_a_text_gets_the_same_whatever_stands_beside_it(model: Model) -> None:
    explainer = DrawnExplainer(Random(), judge("comp"), 6, seed=3)
    together, alone = explainer.explain(model, TEXTS), explainer.explain(model, TEXTS[1:2])
    assert together[1].scores == alone[0].scores
    other = DrawnExplainer(Random(), judge("comp"), 6, seed=4).explain(model, TEXTS[1:2])
    assert other[0].scores != alone[0].scores


def test_the_direction_of_the_measure_and_values_that_are_missing(model: Model) -> None:
    """A map without a value is never chosen, and the first stays where no map has one."""

    def grade(model: Model, explanations: Sequence[Explanation]) -> Floats:
        values = np.array([own.array[0] for own in explanations])
        return np.where(values < -1, np.nan, values)

    first = Random().explain(model, TEXTS)
    lower = DrawnExplainer(Random(), Judge("first unit", True, grade), 40).explain(model, TEXTS)
    for own, drawn in zip(first, lower, strict=True):
        assert -1 <= drawn.array[0] <= own.array[0]
    nothing = Judge("nothing", True, lambda model, explanations: np.full(len(explanations), np.nan))
    assert [own.scores for own in DrawnExplainer(Random(), nothing, 4).explain(model, TEXTS)] == [
        own.scores for own in first
    ]


def test_noise_is_drawn_in_rounds(model: Model) -> None:
    assert [count for _, count in split_draws(6)] == [2, 2, 1, 1]
    assert [count for _, count in split_draws(2)] == [1, 1]
    (explanation,) = Random().explain(model, TEXTS[:1])
    shares = np.linspace(0.0, 1.0, len(explanation.units))
    maps = around(explanation, shares, 1.0, 50, 0)
    assert maps.shape == (50, len(shares))
    assert maps.min() >= 0
    assert maps.max() <= 1
    signed = around(explanation, shares - 0.5, 1.0, 50, 0)
    assert signed.min() < -0.5
    assert (np.argsort(maps, axis=1) != np.arange(len(shares))).any()


def test_python_in_one_call(model: Model) -> None:
    explainer = didact.drawn("gradient_x_input", "comp", draws=3, level="token")
    made = didact.explain(TEXTS[0], model=model, method=explainer)
    assert made.method == "gradient_x_input_drawn"
    with pytest.raises(ParameterError, match="draws must be at least 1"):
        didact.drawn("gradient_x_input", "comp", draws=0)
    with pytest.raises(ParameterError, match="cannot choose between explanations"):
        didact.drawn("gradient_x_input", "seed_stability")
