"""LIME against the lime package's own regression, a slow closed form, and functions with known truth."""

import numpy as np
import pytest
from lime.lime_base import LimeBase
from lime.lime_text import LimeTextExplainer

from didact.attribution.lime import Lime
from didact.models.load import load_model
from didact.ops.coalitions import lime_samples
from didact.protocols import Model
from didact.testing.tiny import TEXTS, keyword_predict
from didact.types import Explanation
from tests.reference.plain import text_model

PLANTED = {"good": 0.12, "warm": 0.05, "film": 0.0, "dull": -0.08, "worse": -0.15, "plot": 0.02}


def planted(texts: list[str]) -> np.ndarray:
    """A function that is linear in the presence of its words."""
    positive = np.array([0.5 + sum(PLANTED.get(word, 0.0) for word in text.split()) for text in texts])
    return np.stack([1 - positive, positive], axis=1)


def negated(texts: list[str]) -> np.ndarray:
    """ "good" supports, "not good" against: the same word counts differently in two places."""
    positive = []
    for text in texts:
        words = text.split()
        signs = [-1 if i and words[i - 1] == "not" else 1 for i, word in enumerate(words) if word == "good"]
        positive.append(0.5 + 0.2 * sum(signs))
    return np.stack([1 - np.array(positive), np.array(positive)], axis=1)


def spied(method: Lime, model: Model, text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Explanation, ...]:
    """The explanation, and the masks and values it was fitted on."""
    score = model.score
    seen = []

    def spy(units, targets, keep, absence=None):  # type: ignore[no-untyped-def]
        values = score(units, targets, keep, absence)
        seen.append((keep[0], values[0]))
        return values

    monkeypatch.setattr(model, "score", spy)
    (found,) = method.explain(model, [text])
    return found, *seen[0]


def cosine_distances(rows: np.ndarray) -> np.ndarray:
    """To the first row, in hundredths, from the definition; an empty row is as far away as can be."""
    first = rows[0] / np.linalg.norm(rows[0])
    return np.array([100 * (1 - (row @ first) / np.linalg.norm(row)) if row.any() else 100.0 for row in rows])


@pytest.mark.parametrize("kernel_width", [25.0, 60.0])
@pytest.mark.parametrize("scale", ["logit", "probability"])
@pytest.mark.parametrize("level", ["word", "token"])
def test_equals_the_regression_of_the_lime_package(
    level: str, scale: str, kernel_width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Lime(samples=150, level=level, scale=scale, kernel_width=kernel_width)
    found, keep, values = spied(method, text_model("bert"), "an unforgettable evening, good and warm", monkeypatch)
    rows = keep.astype(float)
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / kernel_width**2)))
    intercept, pairs, fit, _ = base.explain_instance_with_data(
        rows, values[:, None], cosine_distances(rows), 0, rows.shape[1], feature_selection="none"
    )
    theirs = np.array([dict(pairs)[i] for i in range(rows.shape[1])])
    np.testing.assert_allclose(found.array, theirs, atol=1e-8)
    assert found.details["intercept"] == pytest.approx(intercept, abs=1e-8)
    assert found.details["r_squared"] == pytest.approx(fit, abs=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.3, 10.0])
def test_equals_a_slow_closed_form(ridge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found, keep, values = spied(Lime(samples=120, ridge=ridge), text_model("roberta"), TEXTS[0], monkeypatch)
    n = keep.shape[1]
    system, right = np.diag([0.0] + [ridge] * n), np.zeros(n + 1)
    for row, y, distance in zip(keep.astype(float), values, cosine_distances(keep.astype(float)), strict=True):
        x = np.append(1.0, row)
        weight = np.sqrt(np.exp(-(distance**2) / 25.0**2))
        system += weight * np.outer(x, x)
        right += weight * y * x
    solved = np.linalg.solve(system, right)
    np.testing.assert_allclose(found.array, solved[1:], atol=1e-8)
    assert found.details["intercept"] == pytest.approx(solved[0], abs=1e-8)


def test_default_weights_are_those_of_limes_text_explainer() -> None:
    rows = lime_samples(9, 60, np.random.default_rng(0))
    theirs = LimeTextExplainer(random_state=0).base.kernel_fn(cosine_distances(rows.astype(float)))
    np.testing.assert_allclose(Lime()._weights(rows), theirs, rtol=1e-9)
    assert Lime()._weights(np.ones((1, 4), dtype=bool)) == pytest.approx([1.0])
    assert Lime()._weights(np.zeros((1, 4), dtype=bool)) == pytest.approx([np.exp(-8.0)])


def test_the_neighbourhood_starts_with_the_text_and_lacks_one_to_all_units() -> None:
    rows = lime_samples(5, 4000, np.random.default_rng(0))
    assert rows[0].all()
    assert rows.shape == (4000, 5)
    removed = (~rows[1:]).sum(axis=1)
    np.testing.assert_allclose(np.bincount(removed, minlength=6) / 3999, [0] + [0.2] * 5, atol=0.03)
    np.testing.assert_allclose((~rows[1:]).mean(axis=0), 0.6, atol=0.03)  # no position is preferred


def test_recovers_a_planted_linear_function() -> None:
    model = load_model(planted, labels=("negative", "positive"))
    (found,) = Lime(scale="probability").explain(model, [" ".join(PLANTED)], ["positive"])
    truth = np.array(list(PLANTED.values()))
    assert np.argsort(found.array).tolist() == np.argsort(truth).tolist()
    strong = truth != 0
    assert (np.sign(found.array[strong]) == np.sign(truth[strong])).all()
    (exact,) = Lime(scale="probability", ridge=0.0).explain(model, [" ".join(PLANTED)], ["positive"])
    np.testing.assert_allclose(exact.array, truth, atol=1e-8)
    assert exact.details["intercept"] == pytest.approx(0.5, abs=1e-8)
    assert exact.details["r_squared"] == pytest.approx(1.0, abs=1e-8)


def test_a_word_that_occurs_twice_keeps_two_weights() -> None:
    model = load_model(negated, labels=("negative", "positive"))
    (found,) = Lime(scale="probability").explain(model, ["good but not good"], ["positive"])
    first, second = (s for text, s in zip(found.units.texts, found.scores, strict=True) if text == "good")
    assert first > 0.1
    assert second < 0


def test_a_piece_that_occurs_twice_keeps_two_weights() -> None:
    model = text_model("bert")
    (found,) = Lime(samples=200, level="token").explain(model, ["an unforgettable letter"])
    pieces = model.tokenizer.tokenize("an unforgettable letter")
    assert len(found.scores) == len(pieces) > len(set(pieces))
    scores = [s for piece, s in zip(pieces, found.scores, strict=True) if piece == "##t"]
    assert len(scores) == len(set(scores)) >= 4


@pytest.mark.parametrize("case", ["bert", "black_box"])
def test_the_seed_and_the_text_alone_decide_the_variants(case: str) -> None:
    model = load_model(keyword_predict) if case == "black_box" else text_model("bert")
    (first,) = Lime(samples=60, seed=3).explain(model, [TEXTS[1]])
    (again,) = Lime(samples=60, seed=3).explain(model, [TEXTS[1]])
    (other,) = Lime(samples=60, seed=4).explain(model, [TEXTS[1]])
    amid = Lime(samples=60, seed=3).explain(model, [TEXTS[0], TEXTS[1], TEXTS[2]])[1]
    assert first.scores == again.scores
    np.testing.assert_allclose(amid.array, first.array, atol=1e-5)  # batches differ in the last digits only
    assert np.abs(first.array - other.array).max() > 1e-3


def test_samples_can_be_twice_the_units() -> None:
    method = Lime(samples="2n")
    model = text_model("bert")
    found = method.explain(model, [TEXTS[0], "an unforgettable evening, good and warm"])
    for one in found:
        assert one.cost.forwards == method.cost(one.units).forwards == 2 * len(one.units) + 1
        assert one.parameters["samples"] == "2n"
    (same,) = Lime(samples=2 * len(found[0].units)).explain(model, [TEXTS[0]])
    assert same.scores == pytest.approx(found[0].scores)


@pytest.mark.parametrize("features", [1, 3, 40])
def test_few_features_are_those_of_the_lime_package(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method = Lime(samples=150, features=features)
    found, keep, values = spied(method, text_model("bert"), "an unforgettable evening, good and warm", monkeypatch)
    rows = keep.astype(float)
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / 25.0**2)))
    intercept, pairs, fit, _ = base.explain_instance_with_data(
        rows, values[:, None], cosine_distances(rows), 0, features, feature_selection="highest_weights"
    )
    theirs = np.zeros(rows.shape[1])
    for place, coefficient in pairs:
        theirs[place] = coefficient
    np.testing.assert_allclose(found.array, theirs, atol=1e-8)
    assert found.details["intercept"] == pytest.approx(intercept, abs=1e-8)
    assert found.details["r_squared"] == pytest.approx(fit, abs=1e-8)
