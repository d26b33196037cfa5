"""The nouns: frozen, JSON-serialisable, and strict about what they hold."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

from didact.errors import FormatError, InputError
from didact.types import (
    Box,
    Card,
    Cost,
    Example,
    Explanation,
    Image,
    Prediction,
    Span,
    Target,
    Units,
    overlap_matrix,
    overlapping,
    overlaps,
)


@pytest.fixture
def explanation() -> Explanation:
    example = Example("good film", label="positive", rationale=(Span(0, 4),), id="7")
    units = Units(example, "word", (Span(0, 4), Span(5, 9)), ((1,), (2, 3)), truncated=0.25)
    return Explanation(
        method="lime",
        units=units,
        scores=(0.1 + 0.2, -1e-17),
        target=Target(1, "positive", "probability"),
        prediction=Prediction(("negative", "positive"), (-0.5, 1.5), (0.2, 0.8)),
        parameters={"samples": 10, "absence": None},
        cost=Cost(11, 0, 9, 0.5),
        details={"r_squared": 0.9},
    )


def test_json_round_trip_is_exact(explanation: Explanation) -> None:
    assert Explanation.from_json(explanation.to_json()) == explanation
    assert json.loads(explanation.to_json())["scores"] == [0.1 + 0.2, -1e-17]


def test_pickle_and_copy(explanation: Explanation) -> None:
    assert pickle.loads(pickle.dumps(explanation)) == explanation
    assert copy.deepcopy(explanation) == explanation


def test_nothing_can_be_changed(explanation: Explanation) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.scores = (1.0, 2.0)  # type: ignore[misc]
    with pytest.raises(TypeError):
        explanation.parameters["samples"] = 5  # type: ignore[index]
    explanation.array[0] = 99.0
    assert explanation.scores[0] == 0.1 + 0.2


def test_top_ranks_by_strength(explanation: Explanation) -> None:
    flipped = dataclasses.replace(explanation, scores=(0.5, -2.0))
    assert flipped.top(1) == [("film", -2.0)]
    assert dataclasses.replace(flipped, signed=False).top(1) == [("good", 0.5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": (1.0,)}, "one score per unit: 1 for 2"),
        ({"scores": (1.0, float("nan"))}, "scores must be finite"),
        ({"target": Target(2, "other")}, "the target is output 2, but there are 2"),
    ],
)
def test_what_an_explanation_refuses(explanation: Explanation, change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dataclasses.replace(explanation, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not JSON"),
        ("[]", "is a JSON object, got list"),
        ("{}", "field 'method' is missing"),
        ('{"method": "x", "units": 3}', "not an explanation"),
    ],
)
def test_broken_json_is_named(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Explanation.from_json(text)


@pytest.mark.parametrize("blank", ["", "   ", "\n\t"])
def test_blank_texts_are_refused(blank: str) -> None:
    with pytest.raises(InputError, match="empty or blank"):
        Example.of(blank)
    with pytest.raises(InputError, match="empty or blank"):
        Example.of(("text", blank))


def test_what_an_example_may_come_as() -> None:
    assert Example.of("a") == Example("a")
    assert Example.of(("a", "b")) == Example("a", "b")
    assert Example.of(Example("a")).fields == ("a",)
    with pytest.raises(InputError, match="must be a string, got int"):
        Example.of(3)  # type: ignore[arg-type]


def test_fingerprints_depend_on_what_the_model_reads() -> None:
    assert Example("a", label=1).fingerprint == Example("a").fingerprint
    assert len({Example("ab").fingerprint, Example("a", "b").fingerprint, Example("b", "a").fingerprint}) == 3


def test_predictions_on_every_scale() -> None:
    prediction = Prediction(("no", "yes"), (0.0, 1.0), (0.25, 0.75))
    assert prediction.label == "yes"
    assert prediction.value(Target(0, "no", "probability")) == 0.25
    assert prediction.value(Target(1, "yes", "logit")) == 1.0
    assert prediction.value(Target(0, "no", "log_probability")) == pytest.approx(-1.3862943)


def test_cards_are_plain_data() -> None:
    card = Card("x", "control", "s", "r", "c", needs=frozenset({"b", "a"}))
    assert json.loads(json.dumps(card.to_dict()))["needs"] == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (Span(0, 4), Span(3, 6), True),
        (Span(0, 4), Span(4, 6), False),
        (Span(0, 4), Span(0, 4, 1), False),
        (Box(0, 0, 4, 4), Box(3, 3, 9, 9), True),
        (Box(0, 0, 4, 4), Box(4, 0, 8, 4), False),
        (Box(0, 0, 4, 4), Box(0, 4, 4, 8), False),
        (Box(0, 0, 4, 4), Box(0, 0, 4, 4, 1), False),
    ],
)
def test_regions_overlap_where_they_share_a_character_or_a_pixel(one: Span, other: Span, shared: bool) -> None:
    assert overlaps(one, other) is shared
    assert overlaps(other, one) is shared


def test_overlaps_of_many_regions() -> None:
    words, marked = [Span(0, 2), Span(3, 5), Span(6, 8)], [Span(4, 7), Span(0, 8, 1)]
    assert overlap_matrix(words, marked).tolist() == [[False, False], [True, False], [True, False]]
    assert overlapping(words, marked).tolist() == [False, True, True]
    assert overlapping(words, []).tolist() == [False, False, False]


def picture(height: int = 4, width: int = 6) -> Image:
    return Image(np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3))


def test_an_example_may_be_an_image() -> None:
    example = Example.of(picture())
    assert example == Example(picture())
    assert example.fingerprint != Example(picture(6, 4)).fingerprint
    assert Example.from_dict(json.loads(json.dumps(example.to_dict()))) == example
    with pytest.raises(InputError, match="field 0 of this example is an image"):
        _ = example.text


def test_units_of_an_image_are_boxes() -> None:
    units = Units(Example(picture()), "patch", (Box(0, 0, 3, 2), Box(3, 0, 6, 2)), ((1,), (2,)))
    assert units.texts == ("0:0:3:2", "3:0:6:2")
    assert Units.from_dict(json.loads(json.dumps(units.to_dict()))) == units
    with pytest.raises(InputError, match="of an image"):
        _ = units.spans
    with pytest.raises(FormatError, match="of an image of 6 x 4 pixels"):
        Units(units.example, "patch", (Box(0, 0, 7, 2),))
    with pytest.raises(FormatError, match="a Span, which does not fit a Image"):
        Units(units.example, "patch", (Span(0, 1),))


@pytest.mark.parametrize("label", ["positive", 3, 0.73, Span(0, 4), (Span(0, 4), Span(5, 9))])
def test_gold_answers_of_every_kind_survive_json(label: object) -> None:
    example = Example("good film", label=label)  # type: ignore[arg-type]
    found = Example.from_dict(json.loads(json.dumps(example.to_dict())))
    assert found == example
    assert type(found.label) is type(label)


@pytest.mark.parametrize(
    ("prediction", "kind", "answer"),
    [
        (Prediction(("no", "yes"), (0.0, 1.0), (0.3, 0.7)), "class", "yes"),
        (Prediction(("score",), (0.73,)), "number", 0.73),
        (Prediction(("answer",), (-0.2,), (), Span(3, 5, 1)), "span", Span(3, 5, 1)),
        (Prediction(("answer",), (-0.2,), (), "a film"), "text", "a film"),
    ],
)
def test_a_prediction_is_of_one_of_four_kinds(prediction: Prediction, kind: str, answer: object) -> None:
    assert (prediction.kind, prediction.answer) == (kind, answer)
    assert Prediction.from_dict(json.loads(json.dumps(prediction.to_dict()))) == prediction


def test_units_written_by_older_versions_are_read(explanation: Explanation) -> None:
    older = explanation.units.to_dict()
    older["spans"] = older.pop("regions")
    assert Units.from_dict(older) == explanation.units
