"""What holds for every text that a model accepts, whatever its characters."""

import functools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from didact.errors import DidactError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Units

PROPERTY = settings(max_examples=25, deadline=None, derandomize=True)
WORDS = sorted({word for text in TEXTS for word in text.split()})
PIECE = st.sampled_from(WORDS) | st.text(st.characters(), min_size=1, max_size=5)
ANY = st.lists(PIECE, min_size=1, max_size=8).map(" ".join)
CASES = ("bert", "roberta", "gpt2", "distilbert", "function")


@functools.cache
def model(case: str) -> Model:
    if case == "function":
        return load_model(keyword_predict, labels=["negative", "positive"])
    return load_model(tiny_model(case))


def read(case: str, text: str, level: str | None = None) -> Units:
    """The units of a text; texts that are refused by an error of ours are left out."""
    try:
        return model(case).units([Example.of(text)], level)[0]
    except DidactError:
        assume(False)
        raise


@pytest.mark.parametrize("case", CASES)
@PROPERTY
@given(ANY)
def test_units_are_stretches_of_the_text_in_order(case: str, text: str) -> None:
    units = read(case, text)
    ends = [0, *(span.end for span in units.spans)]
    assert all(
        0 <= before <= span.start < span.end <= len(text) for before, span in zip(ends, units.spans, strict=False)
    )
    assert units.texts == tuple(text[span.start : span.end] for span in units.spans)


@pytest.mark.parametrize("case", [case for case in CASES if case != "function"])
@PROPERTY
@given(ANY)
def test_no_position_belongs_to_two_words(case: str, text: str) -> None:
    for level in ("word", "token"):
        positions = [position for own in read(case, text, level).positions for position in own]
        assert len(set(positions)) == len(positions)


@pytest.mark.parametrize("case", CASES)
@PROPERTY
@given(ANY)
def test_the_score_of_the_whole_text_is_the_prediction(case: str, text: str) -> None:
    own = model(case)
    units = read(case, text)
    (prediction,) = own.predict([units.example])
    target = own.target(None, prediction, own.scales[0])
    masks = np.ones((2, len(units)), dtype=np.bool_)
    masks[1, 0] = False
    (values,) = own.score([units], [target], [masks])
    assert abs(values[0] - prediction.value(target)) <= own.precision * (1 + abs(values[0]))
    assert np.isfinite(values).all()


@PROPERTY
@given(st.lists(ANY, min_size=2, max_size=4))
def test_neighbours_in_a_batch_change_nothing(texts: list[str]) -> None:
    own = model("bert")
    examples = [read("bert", text).example for text in texts]
    together = own.predict(examples)
    for example, prediction in zip(examples, together, strict=True):
        (alone,) = own.predict([example])
        np.testing.assert_allclose(alone.outputs, prediction.outputs, rtol=1e-4, atol=1e-5)


@PROPERTY
@given(st.text(st.characters(), max_size=12))
def test_a_label_is_known_or_refused_by_name(label: str) -> None:
    own = model("bert")
    assert isinstance(own, NetworkModel)
    (prediction,) = own.predict([Example(TEXTS[0])])
    if label in own.labels:
        assert own.target(label, prediction, "logit").label == label
    else:
        with pytest.raises(DidactError, match="positive"):
            own.target(label, prediction, "logit")
