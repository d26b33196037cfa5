"""One bad text among many: named by the error, or skipped with its reason while the others are explained."""

import pickle

import numpy as np
import pytest

import didact
from didact.errors import CapabilityError, InputError, ModelError, ParameterError, TargetError
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Span

MODEL = load_model(tiny_model("bert"))
BAD = [TEXTS[0], "   ", TEXTS[1], "\u200b", TEXTS[2]]


def fragile(texts: list[str]) -> np.ndarray:
    """A function that fails on texts with a certain word."""
    if any("dull" in text for text in texts):
        raise ValueError("no dull texts")
    return keyword_predict(texts)


def test_the_error_names_the_bad_text() -> None:
    with pytest.raises(InputError, match=r"^text 2 of 5, '   ': the text is empty or blank"):
        didact.explain(BAD, MODEL, "occlusion", progress=False)
    with pytest.raises(InputError, match=r"^text 3 of 3, 3: a text must be a string, got int"):
        didact.explain([TEXTS[0], TEXTS[1], 3], MODEL, "occlusion", progress=False)  # type: ignore[list-item]


def test_the_error_names_the_text_that_a_function_fails_on() -> None:
    model = load_model(fragile, labels=["negative", "positive"])
    with pytest.raises(ModelError, match=r"^text 2 of 3, 'the plot is dull.*no dull texts"):
        didact.explain([TEXTS[0], TEXTS[1], TEXTS[2]], model, "occlusion", progress=False)


def test_skipping_keeps_the_others_and_the_reasons() -> None:
    explanations = didact.explain(BAD, MODEL, "occlusion", on_error="skip", progress=False)
    alone = [didact.explain(text, MODEL, "occlusion", progress=False) for text in (TEXTS[0], TEXTS[1], TEXTS[2])]
    assert [made.example.text for made in explanations] == [TEXTS[0], TEXTS[1], TEXTS[2]]
    for made, own in zip(explanations, alone, strict=True):
        np.testing.assert_allclose(made.array, own.array, atol=1e-5)
    assert [note.index for note in explanations.skipped] == [1, 3]
    assert "empty or blank" in explanations.skipped[0].reason
    assert explanations.skipped[1].text == "'\\u200b'"
    assert str(explanations.skipped[0]).startswith("text 2 ('   ') was not explained by occlusion: ")


def test_skipping_texts_that_a_function_fails_on() -> None:
    model = load_model(fragile, labels=["negative", "positive"])
    texts = [TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[3], "dull", TEXTS[0] + " again"]
    explanations = didact.explain(texts, model, "occlusion", on_error="skip", progress=False)
    assert [note.index for note in explanations.skipped] == [1, 4]
    assert all("no dull texts" in note.reason for note in explanations.skipped)
    assert [made.example.text for made in explanations] == [texts[0], texts[2], texts[3], texts[5]]


def test_a_method_may_skip_texts_too() -> None:
    texts = [Example(TEXTS[0], rationale=(Span(0, 1),)), Example(TEXTS[1])]
    explanations = didact.explain(texts, MODEL, "human", on_error="skip", progress=False)
    assert len(explanations) == 1
    assert [note.index for note in explanations.skipped] == [1]


def test_nothing_is_skipped_when_all_is_well() -> None:
    explanations = didact.explain(list(TEXTS), MODEL, "occlusion", on_error="skip", progress=False)
    assert len(explanations) == len(TEXTS)
    assert explanations.skipped == ()
    assert pickle.loads(pickle.dumps(explanations)).skipped == ()


def test_mistakes_of_the_call_are_raised_whatever_the_texts() -> None:
    with pytest.raises(TargetError):
        didact.explain(BAD[::2], MODEL, "occlusion", target="no such", on_error="skip", progress=False)
    with pytest.raises(ParameterError, match=r"on_error of explain\(\) must be 'raise' or 'skip', got 'ignore'"):
        didact.explain(BAD, MODEL, "occlusion", on_error="ignore", progress=False)  # type: ignore[arg-type]
    box = load_model(keyword_predict)
    with pytest.raises(CapabilityError, match="needs a model that is differentiable"):
        didact.explain(BAD, box, "integrated_gradients", on_error="skip", progress=False)

    def broken(texts: list[str]) -> np.ndarray:
        raise ValueError("always")

    with pytest.raises(ModelError, match="always"):
        didact.explain(["same", "same"], load_model(broken, labels=["a", "b"]), "lime", on_error="skip")


def test_a_single_text_raises() -> None:
    with pytest.raises(InputError, match=r"^the text is empty or blank"):
        didact.explain("  ", MODEL, "occlusion", on_error="skip", progress=False)


def test_comparing_skips_methods_that_cannot_explain_the_text() -> None:
    methods = ["occlusion", "human", "random"]
    with pytest.raises(InputError):
        didact.compare(TEXTS[0], MODEL, methods, progress=False)
    compared = didact.compare(TEXTS[0], MODEL, methods, on_error="skip", progress=False)
    assert [made.method for made in compared] == ["occlusion", "random"]
    assert [note.method for note in compared.skipped] == ["human"]
    empty = didact.compare(" ", MODEL, methods, on_error="skip", progress=False)
    assert (len(empty), len(empty.skipped)) == (0, 1)
