"""Classifiers with predict_proba, and zero-shot classification."""

from __future__ import annotations

import numpy as np
import pytest

import didact
from didact.errors import ModelError, ParameterError
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example

sklearn = pytest.importorskip("sklearn")
WORDS = ["good film", "wonderful heart", "dull plot", "avoid it"]
OPINIONS = ["good", "good", "bad", "bad"]
NLI = ("contradiction", "neutral", "entailment")


def fitted(classifier):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(), classifier).fit(WORDS, OPINIONS)


def test_a_scikit_learn_pipeline_is_explained_by_its_weights() -> None:
    from sklearn.linear_model import LogisticRegression

    pipeline = fitted(LogisticRegression())
    explanation = didact.explain(
        "a good but dull film", pipeline, "kernel_shap", scale="log_probability", target="good"
    )
    assert explanation.prediction.labels == ("bad", "good")
    assert explanation.model["name"] == "CountVectorizer + LogisticRegression"
    weights = dict(zip(pipeline[0].get_feature_names_out(), pipeline[1].coef_[0], strict=True))
    for word, score in zip(explanation.units.texts, explanation.scores, strict=True):
        assert np.sign(round(score, 6)) == np.sign(weights.get(word, 0))


def test_another_fit_is_another_model() -> None:
    from sklearn.linear_model import LogisticRegression

    prints = {load_model(fitted(LogisticRegression(C=c))).fingerprint() for c in (1.0, 1.0, 2.0)}
    assert len(prints) == 2


def test_what_has_no_probabilities_is_refused() -> None:
    from sklearn.linear_model import LinearRegression
    from sklearn.svm import LinearSVC

    message = (
        "CountVectorizer [+] LinearSVC has no predict_proba.* wrap it in sklearn.calibration.CalibratedClassifierCV"
    )
    with pytest.raises(ModelError, match=message):
        load_model(fitted(LinearSVC()))
    with pytest.raises(ModelError, match="LinearRegression has no predict_proba"):
        load_model(LinearRegression())


def test_an_unfitted_pipeline_is_named() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    with pytest.raises(ModelError, match=r"CountVectorizer \+ LogisticRegression raised NotFittedError"):
        load_model(make_pipeline(CountVectorizer(), LogisticRegression()))


def test_anything_with_predict_proba() -> None:
    class Counting:
        def predict_proba(self, texts: list[str]) -> np.ndarray:
            return keyword_predict(texts)

    model = load_model(Counting(), labels=["bad", "good"])
    assert model.name == "Counting"
    assert didact.explain(TEXTS[0], model, "occlusion").top(1)[0][0] == "wonderful"


def zero_shot(**settings):
    from transformers import pipeline

    network, tokenizer = tiny_model("bert", NLI)
    return pipeline("zero-shot-classification", model=network, tokenizer=tokenizer, device="cpu", **settings)


@pytest.mark.parametrize("template", [None, "It is about {}."])
def test_a_zero_shot_pipeline_predicts_what_it_does_itself(template: str | None) -> None:
    pipe = zero_shot(**({} if template is None else {"hypothesis_template": template}))
    model = load_model(pipe, labels=["films", "food", "rain"])
    for text, prediction in zip(TEXTS, model.predict([Example(text) for text in TEXTS]), strict=True):
        own = pipe(text, candidate_labels=["films", "food", "rain"])
        expected = dict(zip(own["labels"], own["scores"], strict=True))
        np.testing.assert_allclose(prediction.probabilities, [expected[label] for label in model.labels], atol=1e-5)
    explanation = didact.explain(TEXTS[0], model, "occlusion", target="food")
    assert explanation.units.texts == tuple(TEXTS[0].split())


def test_zero_shot_by_a_network_of_pairs() -> None:
    labels = ["films", "food"]
    model = load_model(tiny_model("bert", NLI), inputs="zero_shot", labels=labels)
    same = load_model(zero_shot(candidate_labels=labels))
    text = [Example(TEXTS[0])]
    assert model.predict(text)[0].probabilities == same.predict(text)[0].probabilities
    assert model.fingerprint() == same.fingerprint()
    assert model.fingerprint() != load_model(zero_shot(candidate_labels=["films", "rain"])).fingerprint()


def test_zero_shot_without_labels_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"candidate labels, and none was given; name at least two"):
        load_model(zero_shot())
    with pytest.raises(ParameterError, match=r"and only 'films' was given"):
        load_model(zero_shot(), labels=["films"])
    with pytest.raises(ModelError, match=r"multi_label=True"):
        load_model(zero_shot(candidate_labels=["a", "b"], multi_label=True))
    with pytest.raises(ModelError, match=r"a label that begins with 'entail'; .* has negative, positive"):
        load_model(tiny_model(), inputs="zero_shot", labels=["a", "b"])
    with pytest.raises(ParameterError, match=r"one \{\} for the label, got 'about'"):
        load_model(zero_shot(hypothesis_template="about"), labels=["a", "b"])
