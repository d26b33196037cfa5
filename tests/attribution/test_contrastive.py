"""Contrastive targets: score(first) - score(second), for every way in which methods reach the explained number."""

import dataclasses

import numpy as np
import pytest

import didact
from didact.errors import FormatError, TargetError
from didact.models.load import load_model
from didact.protocols import Model
from didact.store.explanations import from_table, to_table
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Explanation, Target

LABELS = ("World", "Business", "Sci/Tech")
METHODS: dict[str, dict[str, int]] = {
    "occlusion": {},
    "lime": {"samples": 60},
    "kernel_shap": {"evaluations": 300},  # all coalitions of eight words
    "gradient_x_input": {},
    "attention_x_gradient": {},
    "deeplift": {},
    "decompx": {},
    "lrp": {},
}


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(tiny_model("bert", LABELS))


@pytest.mark.parametrize("method", METHODS)
def test_signed_scores_are_the_difference_of_both_labels(model: Model, method: str) -> None:
    business, tech, contrast = (
        didact.explain(TEXTS[0], model, method, target=target, **METHODS[method])
        for target in ("Business", "Sci/Tech", ("Business", "Sci/Tech"))
    )
    np.testing.assert_allclose(contrast.array, business.array - tech.array, rtol=1e-3, atol=1e-5)
    assert contrast.target == dataclasses.replace(business.target, contrast=2, contrast_label="Sci/Tech")


def test_biases_kept_apart_are_subtracted_too(model: Model) -> None:
    made = didact.explain(TEXTS[0], model, "decompx", target=(1, 2), biases="apart")
    assert abs(made.details["conservation_error"]) < 1e-4


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
def test_the_number_is_a_difference_on_every_scale(model: Model, scale: str) -> None:
    made = didact.explain(TEXTS[1], model, "occlusion", target=("World", "Business"), scale=scale)
    one, other = (made.prediction.value(Target(index, LABELS[index], scale)) for index in (0, 1))  # type: ignore[arg-type]
    assert made.prediction.value(made.target) == pytest.approx(one - other)


def test_nothing_as_the_first_label_means_what_is_predicted(model: Model) -> None:
    predicted = model.predict([didact.Example(TEXTS[0])])[0].label
    other = next(label for label in LABELS if label != predicted)
    assert didact.explain(TEXTS[0], model, "occlusion", target=(None, other)).target.name == (
        f"{predicted} rather than {other}"
    )


def test_functions_are_contrasted_too() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    alone = didact.explain("a good film", model, "occlusion", target="positive")
    contrast = didact.explain("a good film", model, "occlusion", target=("positive", "negative"))
    np.testing.assert_allclose(contrast.array, 2 * alone.array)


def test_a_contrastive_target_survives_json_and_tables(model: Model) -> None:
    made = didact.explain(TEXTS[0], model, "occlusion", target=("World", "Business"))
    assert Explanation.from_json(made.to_json()) == made
    assert from_table(to_table([made])) == [made]
    plain = made.to_dict()
    plain["target"]["contrast"] = 7
    with pytest.raises(FormatError, match="the target is output 7, but there are 3"):
        Explanation.from_dict(plain)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (("World", "World"), "needs two different labels, got 'World' twice; .* has World, Business, Sci/Tech"),
        (("World", 0), "needs two different labels, got 'World' twice"),
        (("World", "Sport"), "unknown label 'Sport'"),
        (("World", "Business", "Sci/Tech"), "is a pair of labels"),
        (("World",), "is a pair of labels"),
    ],
)
def test_what_is_no_pair_of_labels_is_refused(model: Model, target: tuple[str, ...], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        didact.explain(TEXTS[0], model, "occlusion", target=target)  # type: ignore[arg-type]


def test_a_regression_has_no_labels_to_contrast() -> None:
    with pytest.raises(TargetError, match="unknown label 'good'"):
        didact.explain(TEXTS[0], load_model(tiny_model("bert", ["score"])), target=("good", "bad"))
