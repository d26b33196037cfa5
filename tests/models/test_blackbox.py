"""A plain function as a model: what it may return, and how texts are rewritten for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from didact.errors import CapabilityError, InputError, ModelError, ParameterError
from didact.models.load import load_model
from didact.testing.tiny import keyword_predict
from didact.types import Example, Target


def recorder() -> tuple[Callable[[list[str]], Any], list[str]]:
    seen: list[str] = []

    def predict(texts: list[str]) -> Any:
        seen.extend(texts)
        return keyword_predict(texts)

    return predict, seen


def test_predictions_are_the_functions_own() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    prediction = model.predict([Example("a wonderful film")])[0]
    np.testing.assert_allclose(prediction.probabilities, keyword_predict(["a wonderful film"])[0])
    assert prediction.label == "positive"


def test_labels_are_counted_when_not_named() -> None:
    assert load_model(keyword_predict).labels == ("class 0", "class 1")


@pytest.mark.parametrize(
    ("absence", "expected"),
    [("delete", ["A film, truly.", "A great, truly.", "", ","]), ("token:***", ["A *** film, truly."])],
)
def test_rewritten_texts(absence: str, expected: list[str]) -> None:
    predict, seen = recorder()
    model = load_model(predict)
    units = model.units([Example("A great film, truly.")])
    assert units[0].texts == ("A", "great", "film", ",", "truly", ".")
    rows = np.array([[1, 0, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1], [0] * 6, [0, 0, 0, 1, 0, 0]], dtype=bool)
    seen.clear()
    model.score(units, [Target(1, "class 1", "probability")], [rows], absence)
    assert seen[: len(expected)] == expected


def test_the_full_text_stays_as_it_was() -> None:
    predict, seen = recorder()
    model = load_model(predict)
    text = "  two  blanks\tand a tab "
    units = model.units([Example(text)])
    seen.clear()
    model.score(units, [Target(0, "class 0", "probability")], [np.ones((1, 5), dtype=bool)])
    assert seen == [text]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda t: np.full((len(t) + 1, 2), 0.5), r"returned shape \(2, 2\); expected \(1, "),
        (lambda t: np.full(len(t), 0.5), r"returned shape \(1,\); expected \(1, number of labels, at least 2\)"),
        (lambda t: np.ones((len(t), 1)), r"returned shape \(1, 1\)"),
        (lambda t: np.full((len(t), 2), 0.7), r"row 0 is \[0.7, 0.7\] and adds up to 1.4; apply softmax first"),
        (lambda t: np.full((len(t), 77), 0.5), r"is \[0.5, 0.5, 0.5, 0.5, 0.5\] and 72 more and adds up to 38.5;"),
        (lambda t: np.array([[1.5, -0.5]] * len(t)), "must return probabilities"),
        (lambda t: np.full((len(t), 2), np.nan), "returned NaN or infinity for 'a short probe'"),
        (lambda t: None, "must return an array of probabilities|returned shape"),
        (lambda t: [["x", "y"]], "must return an array of probabilities, got list"),
        (lambda t: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_bad_answers_are_told_apart(answer: Callable[[list[str]], Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(answer)


def test_a_function_that_goes_wrong_later_names_the_text() -> None:
    def predict(texts: list[str]) -> Any:
        rows = keyword_predict(texts)
        rows[["bad" in text for text in texts]] = np.nan
        return rows

    model = load_model(predict)
    with pytest.raises(ModelError, match="NaN or infinity for 'a bad text'"):
        model.predict([Example("a good text"), Example("a bad text")])


def test_a_random_function_is_caught() -> None:
    from didact.attribution.base import ATTRIBUTIONS
    from didact.errors import MismatchError

    rng = np.random.default_rng(0)

    def predict(texts: list[str]) -> Any:
        share = rng.random(len(texts))
        return np.stack([share, 1 - share], axis=1)

    with pytest.raises(MismatchError, match="is the model random"):
        ATTRIBUTIONS.get("occlusion")().explain(load_model(predict), ["some text"])


def test_what_a_function_cannot() -> None:
    from didact.attribution.base import ATTRIBUTIONS

    model = load_model(keyword_predict)
    with pytest.raises(CapabilityError, match=r"work with it: .*random.*kernel_shap.*lime.*occlusion"):
        ATTRIBUTIONS.get("integrated_gradients")().explain(model, ["some text"])
    with pytest.raises(ParameterError, match="shows no tokens"):
        model.units([Example("a")], "token")
    with pytest.raises(InputError, match="a pair was given"):
        model.units([Example("a", "b")])
    with pytest.raises(ParameterError, match="use the perturbation absence='delete', 'token:X' or 'sample:SEED'"):
        model.score(model.units([Example("a")]), [Target(0, "", "probability")], [np.ones((1, 1), bool)], "mask")
    with pytest.raises(InputError, match=r"no word to explain|empty or blank"):
        model.units([Example(" ")])
