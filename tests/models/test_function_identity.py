"""Fingerprints of functions: code, closures, state and answers count; counters and caches do not."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import didact
from didact.errors import InputError
from didact.models.functions.blackbox import BlackBox
from didact.models.functions.identity import PROBES
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Floats

Predict = Callable[[list[str]], Any]


def shares(values: list[float]) -> Floats:
    positive = 1 / (1 + np.exp(-np.array(values)))
    return np.stack([1 - positive, positive], axis=1)


def by_word(word: str) -> Predict:
    return lambda texts: shares([text.count(word) for text in texts])


def counted(text: str) -> float:
    return float(text.count("film"))


def through_a_name(texts: list[str]) -> Floats:
    return shares([counted(text) for text in texts])


class Scorer:
    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, texts: list[str]) -> Floats:
        return shares([text.count(self.word) for text in texts])

    def predict(self, texts: list[str]) -> Floats:
        return self(texts)


def fingerprint(function: Predict, **options: Any) -> str:
    return load_model(function, **options).fingerprint()


@pytest.mark.parametrize("make", [by_word, Scorer, lambda word: Scorer(word).predict])
def test_closures_and_callable_objects_are_told_apart(make: Callable[[str], Predict]) -> None:
    """The words are in no probe text, so that only code and state can tell."""
    assert fingerprint(make("zebra")) == fingerprint(make("zebra")) != fingerprint(make("giraffe"))


def test_called_functions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fingerprint(through_a_name)
    monkeypatch.setitem(globals(), "counted", lambda text: float(text.count("zebra")))
    assert fingerprint(through_a_name) != first


def test_a_change_between_calls_is_noticed() -> None:
    scorer = Scorer("zebra")
    model = load_model(scorer)
    first = model.fingerprint()
    assert model.fingerprint() == first
    scorer.word = "giraffe"
    assert model.fingerprint() != first


def test_weights_in_a_closure_count_and_a_change_in_place_too() -> None:
    network, tokenizer = tiny_model("bert")

    def predict(texts: list[str]) -> Any:
        with torch.no_grad():
            batch = tokenizer(texts, return_tensors="pt", padding=True)
            return network(**batch).logits.softmax(-1)

    model = load_model(predict)
    first = model.fingerprint()
    network.get_input_embeddings().weight.data[11, 3] += 1e-4
    assert model.fingerprint() != first
    assert isinstance(model, BlackBox)
    assert model.identity_limits == ""


def test_counters_caches_and_what_is_loaded_at_the_first_call_do_not_change_it() -> None:
    seen: list[str] = []
    known: dict[str, float] = {}
    loaded: dict[str, str] = {}

    def predict(texts: list[str]) -> Floats:
        loaded.setdefault("word", "zebra")
        seen.extend(texts)
        for text in texts:
            known.setdefault(text, float(text.count(loaded["word"])))
        return shares([known[text] for text in texts])

    model = load_model(predict)
    first = model.fingerprint()
    model.predict([didact.Example(text) for text in TEXTS])
    assert model.fingerprint() == first == fingerprint(predict)
    loaded["word"] = "giraffe"
    assert model.fingerprint() != first


def test_answers_count_where_nothing_else_can_be_seen() -> None:
    class Remote:
        """A model that lives elsewhere, behind an object that shows nothing."""

        def __init__(self, word: str) -> None:
            self.connection = (shares([text.count(word) for text in texts]) for texts in self._calls())
            self.texts: list[str] = []

        def _calls(self) -> Any:
            while True:
                yield self.texts

        def __call__(self, texts: list[str]) -> Floats:
            self.texts = texts
            rows: Floats = next(self.connection)
            return rows

    models = [load_model(Remote(word)) for word in ("film", "film", "plot")]
    with pytest.warns(UserWarning, match=r"identified by its answers to 8 texts where .*generator.*name and a version"):
        prints = [model.fingerprint() for model in models]
    assert prints[0] == prints[1] != prints[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_model(Remote("film"), version="1").fingerprint() not in prints


def test_name_and_version_are_the_users_word() -> None:
    seen: list[str] = []

    def predict(texts: list[str]) -> Floats:
        seen.extend(texts)
        return keyword_predict(texts)

    first = load_model(predict, labels=("a", "b"), name="sentiment", version="3")
    assert first.name == "sentiment"
    assert first.fingerprint() == fingerprint(by_word("film"), labels=("a", "b"), name="sentiment", version="3")
    assert seen == []  # a function that has a version is not asked
    others = [{"name": "other", "version": "3"}, {"name": "sentiment", "version": "4"}, {"name": "sentiment"}]
    assert len({first.fingerprint(), *(fingerprint(predict, labels=("a", "b"), **one) for one in others)}) == 4


def test_a_function_that_refuses_the_probe_texts_has_a_fingerprint() -> None:
    def predict(texts: list[str]) -> Floats:
        if any(text in PROBES for text in texts):
            raise KeyError("not a text of mine")
        return keyword_predict(texts)

    assert fingerprint(predict) == fingerprint(predict)


def test_evaluate_into_the_same_folder_does_not_return_another_functions_grades(tmp_path: Path) -> None:
    def values(word: str, *, overwrite: bool = False) -> list[float]:
        asked = (list(TEXTS), by_word(word), ["occlusion"], ["comprehensiveness"])
        result = didact.evaluate(*asked, out=tmp_path, overwrite=overwrite, progress=False)
        return [row.value for row in result.records() if row.explainer == "occlusion" and not row.null]

    first = values("film")
    with pytest.raises(InputError, match="holds a run of another recipe, with other model"):
        values("food")
    assert values("food", overwrite=True) != first
