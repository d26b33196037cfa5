"""Training by masks end to end: a real small network, held-out texts beside random masks, judges, saving."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.occlusion import Occlusion
from didact.errors import CapabilityError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.testing.learned import case_model, case_texts
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit_types import FitConfig
from didact.trained.held_out_masks import HeldOutMasks, held_out_masks
from didact.trained.judging import Judge
from didact.trained.masking import MaskTraining, learn_masks
from didact.trained.presets.base import TrainingInput
from didact.types import Explanation, Floats

EPOCHS = 6
RECIPE = MaskTraining(
    method="aml",
    shape="probe",
    shape_settings={"layers": [0], "width": 32},
    signal="mask",
    signal_settings={"sparse": 0.5},
    training=FitConfig(epochs=EPOCHS, learning_rate=1e-2, batch_rows=20, device="cpu", patience=None),
)


@functools.cache
def model() -> NetworkModel:
    return load_model("default", device="cpu")


def given(**further: object) -> TrainingInput:
    examples, _ = case_texts("black_box")
    return TrainingInput(model=model(), examples=examples, **further)  # type: ignore[arg-type]


@functools.cache
def trained() -> LearnedExplainer:
    return learn_masks(given(data="invented texts"), RECIPE)


def test_it_marks_what_predictions_rest_on() -> None:
    explainer = trained()
    measured = HeldOutMasks.from_dict(explainer.about.masks or {})
    assert measured.verdict == "decides"
    assert measured.kept > measured.kept_at_random
    assert measured.lost > measured.lost_at_random
    assert explainer.verdict == measured.sentence
    assert "Predictions rest on what this explainer marks" in explainer.verdict
    assert "random units" in explainer.verdict
    assert not explainer.caution
    (explanation,) = explainer.explain(model(), ["the film was wonderful and the plot with acting"])
    assert explanation.method == "aml"
    assert not explanation.signed
    assert explanation.units.texts[int(explanation.array.argmax())] == "wonderful"
    assert 0 <= explanation.array.min() <= explanation.array.max() <= 1


def test_it_is_saved_and_loaded_with_its_verdict(tmp_path: Path) -> None:
    explainer = trained()
    explainer.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model(), device="cpu")
    texts = ["a dull plot", "warm and wonderful acting"]
    for first, second in zip(*(each.explain(model(), texts) for each in (explainer, loaded)), strict=True):
        np.testing.assert_array_equal(first.array, second.array)
    assert (loaded.verdict, loaded.about, loaded.signal) == (explainer.verdict, explainer.about, explainer.signal)
    page = (tmp_path / "README.md").read_text()
    assert "Do predictions rest on what it marks?" in page
    assert "learned that from the model itself" in page
    assert "reference" not in page


def test_nothing_is_learned_where_nothing_is_trained() -> None:
    still = dataclasses.replace(RECIPE, training=FitConfig(epochs=1, learning_rate=1e-12, device="cpu"))
    explainer = learn_masks(given(), still)
    assert HeldOutMasks.from_dict(explainer.about.masks or {}).verdict == "chance"
    assert "no better than chance" in explainer.caution
    assert explainer.explain(model(), ["a dull plot"])[0].warnings == (explainer.caution,)


def test_without_held_out_texts_it_says_that_nothing_is_known(tmp_path: Path) -> None:
    brief = dataclasses.replace(RECIPE, training=FitConfig(epochs=1, device="cpu"))
    explainer = learn_masks(given(held_out=0.0), brief)
    assert explainer.verdict.startswith("No held-out texts")
    explainer.save_pretrained(tmp_path)
    assert LearnedExplainer.from_pretrained(tmp_path, device="cpu").verdict == explainer.verdict


def most_even(_: Model, explanations: Sequence[Explanation]) -> Floats:
    """A measure that training makes worse: how evenly scores are spread."""
    return np.array([-float(np.std(one.array)) for one in explanations])


@pytest.mark.parametrize("lower", [True, False])
def test_the_best_epoch_by_the_judge_is_kept_in_its_direction(lower: bool) -> None:
    """Not the last value, and not the lowest whatever the direction, as the published search had it."""
    seen: list[float] = []

    def grade(model: Model, explanations: Sequence[Explanation]) -> Floats:
        values = most_even(model, explanations) * (-1 if lower else 1)
        seen.append(float(values.mean()))
        return values

    judge = Judge("evenness", lower, grade)
    brief = dataclasses.replace(RECIPE, training=dataclasses.replace(RECIPE.training, epochs=3))
    explainer = learn_masks(given(judge=judge), brief)
    best = min(seen) if lower else max(seen)
    assert seen.index(best) == 0  # the first epoch is the most even
    assert explainer.about.scores["evenness on validation texts, by which the epoch was chosen"] == best


def test_a_judge_that_is_defined_nowhere_is_named() -> None:
    judge = Judge("evenness", True, lambda _, explanations: np.full(len(explanations), np.nan))
    with pytest.raises(ParameterError, match="evenness is defined on none of the 15 validation texts"):
        learn_masks(given(judge=judge), RECIPE)
    with pytest.raises(ParameterError, match="evenness on validation texts, and there are none"):
        learn_masks(given(judge=judge, validation=0.0), RECIPE)
    short = Judge("evenness", True, lambda _, explanations: np.zeros(1))
    with pytest.raises(ParameterError, match=r"a value per explanation, 15 in all; got an array of shape \(1,\)"):
        learn_masks(given(judge=short), RECIPE)


def test_a_killed_training_is_not_begun_anew(tmp_path: Path) -> None:
    brief = dataclasses.replace(RECIPE, training=FitConfig(epochs=2, learning_rate=1e-2, device="cpu"))
    first = learn_masks(given(folder=tmp_path), brief)
    written = (tmp_path / "fit" / "run-0.safetensors").stat().st_mtime_ns
    again = learn_masks(given(folder=tmp_path), brief)
    assert (tmp_path / "fit" / "run-0.safetensors").stat().st_mtime_ns == written
    assert again.parameters == first.parameters


def test_a_function_without_gradients_is_refused() -> None:
    box = case_model("black_box")
    with pytest.raises(CapabilityError, match="mask needs a model that is differentiable"):
        learn_masks(dataclasses.replace(given(), model=box), dataclasses.replace(RECIPE, shape="scorer"))


@pytest.mark.parametrize("kept", [True, False])
def test_planted_marks_are_recognised(kept: bool) -> None:
    """Occlusion's order, and its reverse, measured as if they had been learned."""
    examples, _ = case_texts("black_box")
    explained = Occlusion().explain(model(), examples[:30])
    if not kept:
        explained = [dataclasses.replace(one, scores=tuple((-one.array).tolist())) for one in explained]
    assert held_out_masks(model(), explained).verdict == ("decides" if kept else "chance")
