"""Training by masks end to end: a real small network, held-out texts beside random masks, judges, saving."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from didact.attribution.occlusion import Occlusion
from didact.data.corpus import generate
from didact.data.planted import shapes, translations
from didact.errors import CapabilityError, FormatError, ParameterError
from didact.models.encoders import embedded_path
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.testing.learned import case_model, case_texts
from didact.trained import masking
from didact.trained.explainer import LearnedExplainer
from didact.trained.fallback import FallbackExplainer
from didact.trained.fit_types import FitConfig
from didact.trained.held_out_masks import HeldOutMasks, held_out_masks
from didact.trained.judging import Judge
from didact.trained.learning import DirectTraining
from didact.trained.masking import learn_masks
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.trained.shapes.base import Shape
from didact.trained.shapes.probe import Probe
from didact.types import Example, Explanation, Floats, Target, Units

EPOCHS = 6
PROMPT = embedded_path("reviews") / "prompt.toml"
RECIPE = DirectTraining(
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


def given(count: int = 100, **further: object) -> TrainingInput:
    examples, _ = case_texts("black_box")
    return TrainingInput(model=model(), examples=examples[:count], **further)  # type: ignore[arg-type]


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
    assert "was trained on the model itself" in page
    assert "reference" not in page


def test_it_has_no_reference_to_fall_back_on() -> None:
    with pytest.raises(ParameterError, match="it learned from none, so refine it instead"):
        FallbackExplainer(trained(), Occlusion())


def test_nothing_is_learned_where_nothing_is_trained() -> None:
    still = dataclasses.replace(RECIPE, training=FitConfig(epochs=1, learning_rate=1e-12, device="cpu"))
    explainer = learn_masks(given(), still)
    assert HeldOutMasks.from_dict(explainer.about.masks or {}).verdict == "chance"
    assert "no better than chance" in explainer.caution
    assert explainer.explain(model(), ["a dull plot"])[0].warnings == (explainer.caution,)


def test_without_held_out_texts_it_says_that_nothing_is_known(tmp_path: Path) -> None:
    brief = dataclasses.replace(RECIPE, training=FitConfig(epochs=1, device="cpu"))
    explainer = learn_masks(given(20, held_out=0.0), brief)
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
    explainer = learn_masks(given(40, judge=judge), brief)
    best = min(seen) if lower else max(seen)
    assert seen.index(best) == 0  # the first epoch is the most even
    assert explainer.about.scores["evenness on validation texts, by which the epoch was chosen"] == best


def test_the_judge_sees_texts_that_are_neither_trained_nor_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published split drew validation texts from the training texts."""
    seen: dict[str, set[str]] = {"train": set(), "validation": set(), "held out": set()}

    def grade(_: Model, explanations: Sequence[Explanation]) -> Floats:
        seen["validation"].update(one.example.text for one in explanations)
        return np.zeros(len(explanations))

    def noted(model: Model, explanations: Sequence[Explanation]) -> HeldOutMasks:
        seen["held out"].update(one.example.text for one in explanations)
        return held_out_masks(model, explanations)

    def built(cls: type[Probe], model: Model, units: Sequence[Units], *rest: object) -> Shape:
        seen["train"].update(own.example.text for own in units)
        return build(model, units, *rest)  # type: ignore[arg-type]

    build = Probe.build
    monkeypatch.setattr(Probe, "build", classmethod(built))
    monkeypatch.setattr(masking, "held_out_masks", noted)
    brief = dataclasses.replace(RECIPE, training=FitConfig(epochs=1, device="cpu"))
    learn_masks(given(20, judge=Judge("nothing", True, grade)), brief)
    assert [len(texts) for texts in seen.values()] == [14, 3, 3]
    assert len(set[str]().union(*seen.values())) == 20


def test_a_judge_that_is_defined_nowhere_is_named() -> None:
    judge = Judge("evenness", True, lambda _, explanations: np.full(len(explanations), np.nan))
    with pytest.raises(ParameterError, match="evenness is defined on none of the 3 validation texts"):
        learn_masks(given(20, judge=judge), RECIPE)
    with pytest.raises(ParameterError, match="evenness on validation texts, and there are none"):
        learn_masks(given(judge=judge, validation=0.0), RECIPE)
    short = Judge("evenness", True, lambda _, explanations: np.zeros(1))
    with pytest.raises(ParameterError, match=r"a value per explanation, 3 in all; got an array of shape \(1,\)"):
        learn_masks(given(20, judge=short), RECIPE)


KINDS: dict[str, tuple[Callable[[], Model], Callable[..., list[Example]], dict[str, object]]] = {
    "patches": (lambda: load_model("default:shapes", device="cpu"), shapes, {}),
    "regression_of_pairs": (lambda: load_model("default:quality", device="cpu"), translations, {}),
    "prompt": (lambda: load_model("default:reviews", prompt=PROMPT, device="cpu"), generate, {"backbone": "default"}),
}
"""A model, its examples, and settings: a decoder is explained by another network, which reads only the slot."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_and_answer_is_learned(kind: str) -> None:
    load, made, settings = KINDS[kind]
    model, examples = load(), made(16, seed=3)
    preset = PRESETS.get("aml").configured(epochs=2, learning_rate=1e-3, fit={"device": "cpu"}, **settings)
    explainer = preset.train(TrainingInput(model=model, examples=examples, validation=0.2, held_out=0.2))
    assert explainer.about.masks is not None
    assert 0 <= explainer.about.scores["kept by the marked units"] <= 1
    for explanation in explainer.explain(model, made(3, seed=4)):
        assert len(explanation.scores) == len(explanation.units) > 1
        assert len(set(explanation.scores)) > 1
        assert 0 <= explanation.array.min() <= explanation.array.max() <= 1


def test_only_the_slot_of_a_prompt_is_masked() -> None:
    """With all units taken away, what is left is the prompt, and the model still reads it."""
    load, made, _ = KINDS["prompt"]
    model = cast("NetworkModel", load())
    units = model.units(made(2, seed=3))
    soft = model.soft_outputs(units, [torch.zeros(1, len(own)) for own in units], "zero")
    (vectors, _), codes = model.embed(units), model.reader.encode([own.example for own in units])
    slot = {position for positions in units[0].positions for position in positions}
    assert 0 < len(slot) < len(codes[0])  # the template's tokens are no units
    blank = torch.where(torch.tensor([[p in slot] for p in range(len(vectors))]), 0.0, vectors)
    target = Target(0, model.labels[0], "log_probability")
    torch.testing.assert_close(soft[0][:, 0], model.values_at(units[0], target, blank[None]), rtol=1e-4, atol=1e-4)


def test_a_killed_training_is_not_begun_anew(tmp_path: Path) -> None:
    brief = dataclasses.replace(RECIPE, training=FitConfig(epochs=2, learning_rate=1e-2, device="cpu"))
    first = learn_masks(given(20, folder=tmp_path), brief)
    written = (tmp_path / "fit" / "run-0.safetensors").stat().st_mtime_ns
    again = learn_masks(given(20, folder=tmp_path), brief)
    assert (tmp_path / "fit" / "run-0.safetensors").stat().st_mtime_ns == written
    assert again.parameters == first.parameters
    other = Judge("evenness", False, most_even)
    learn_masks(given(20, folder=tmp_path / "judged", judge=other), brief)
    with pytest.raises(FormatError, match="another training: its judge differ"):
        learn_masks(given(20, folder=tmp_path / "judged", judge=dataclasses.replace(other, name="other")), brief)


def test_a_function_without_gradients_is_refused() -> None:
    box = case_model("black_box")
    with pytest.raises(CapabilityError, match="mask needs a model that is differentiable"):
        learn_masks(dataclasses.replace(given(), model=box), dataclasses.replace(RECIPE, shape="scorer"))


def test_a_short_text_has_a_marked_unit_too() -> None:
    """A fifth of three words, rounded down as published, is none: then every explainer is equally good."""
    (explanation,) = Occlusion().explain(model(), ["a terrible film"])
    measured = held_out_masks(model(), [explanation] * 12)
    assert (measured.kept, measured.lost) == (1.0, 1.0)
    assert measured.kept_at_random < 1
    assert measured.verdict == "decides"


@pytest.mark.parametrize("kept", [True, False])
def test_planted_marks_are_recognised(kept: bool) -> None:
    """Occlusion's order, and its reverse, measured as if they had been learned."""
    examples, _ = case_texts("black_box")
    explained = Occlusion().explain(model(), examples[:30])
    if not kept:
        explained = [dataclasses.replace(one, scores=tuple((-one.array).tolist())) for one in explained]
    assert held_out_masks(model(), explained).verdict == ("decides" if kept else "chance")
