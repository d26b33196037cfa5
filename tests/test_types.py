"""The nouns: frozen, JSON-serialisable, and strict about what they hold."""

import copy
import dataclasses
import json
import pickle

import pytest

from didact.errors import FormatError, InputError
from didact.types import Card, Cost, Example, Explanation, Prediction, Span, Target, Units


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
