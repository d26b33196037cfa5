"""Plain data from outside: what is read is what was written, and everything else is refused by name."""

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from didact.errors import DidactError, FormatError, InputError
from didact.types import Cost, Example, Explanation, Prediction, Span, Target, Units
from didact.validation import dump_json, parse_json, shown

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def plain() -> dict[str, Any]:
    example = Example("good film", label="positive", rationale=(Span(0, 4),), id="7", annotators=((Span(0, 4),),))
    units = Units(example, "word", (Span(0, 4), Span(5, 9)), ((1,), (2, 3)), truncated=0.25, unknown=0.5)
    return Explanation(
        method="lime",
        units=units,
        scores=(0.3, -1.0),
        target=Target(1, "positive", "probability"),
        prediction=Prediction(("negative", "positive"), (-0.5, 1.5), (0.2, 0.8)),
        parameters={"samples": 10, "absence": None},
        cost=Cost(11, 0, 9, 0.5),
        details={"r_squared": 0.9},
        model={"name": "m"},
        versions={"didact": "1"},
        errors=(0.1, 0.2),
        warnings=("a warning",),
    ).to_dict()


def at(*path: str | int, value: object) -> Change:
    """A change of one value deep inside."""

    def change(data: dict[str, Any]) -> None:
        *way, last = path
        inner: Any = data
        for step in way:
            inner = inner[step]
        inner[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        at("units", "regions", 0, value=[0.5, 4, 0]),
        at("units", "regions", 0, value=[True, 4, 0]),
        at("units", "regions", 0, value=[0, 40, 0]),
        at("units", "regions", 0, value=[4, 0, 0]),
        at("units", "regions", 0, value=[0, 4, 7]),
        at("units", "regions", 0, value=[0]),
        at("units", "regions", 0, value="04"),
        at("units", "regions", value={"0": 1}),
        at("units", "positions", 0, value=[-1]),
        at("units", "positions", 0, value=[0.5]),
        at("units", "positions", value=[[1]]),
        at("units", "truncated", value=7),
        at("units", "truncated", value=float("nan")),
        at("units", "unknown", value=-0.1),
        at("units", "level", value=3),
        at("units", "example", "text", value=3),
        at("units", "example", "text", value="good \ud800 film"),
        at("units", "example", "rationale", value=[[0, 99, 0]]),
        at("units", "example", "rationale", value=[[0.5, 1, 0]]),
        at("units", "example", "annotators", value=[[[0, 99, 0]]]),
        at("units", "example", "label", value=float("inf")),
        at("units", "example", "label", value={"span": [0, 99]}),
        at("units", "example", "label", value=[1]),
        at("units", "example", "id", value=7),
        at("scores", value=[0.1, float("nan")]),
        at("scores", value=[0.1, "0.2"]),
        at("scores", value="12"),
        at("scores", value=[True, 1.0]),
        at("scores", value=[10**400, 1.0]),
        at("prediction", "probabilities", value=[0.2, 7]),
        at("prediction", "probabilities", value=[0.9, 0.9]),
        at("prediction", "probabilities", value=[float("nan"), 0.8]),
        at("prediction", "outputs", value=[float("inf"), 1.5]),
        at("prediction", "labels", value=[0, 1]),
        at("prediction", "labels", value="no"),
        at("target", "index", value=0.5),
        at("target", "index", value=-1),
        at("target", "index", value=True),
        at("target", "scale", value="odds"),
        at("target", "scale", value=["logit"]),
        at("target", "label", value=None),
        at("target", "more", value=1),
        at("cost", "forwards", value=-1),
        at("cost", "forwards", value=1.5),
        at("cost", "seconds", value=float("nan")),
        at("cost", "more", value=1),
        at("details", "r_squared", value=float("nan")),
        at("details", "r_squared", value="high"),
        at("details", value=[1]),
        at("parameters", "samples", value=[1, 2]),
        at("model", "name", value=3),
        at("versions", value=None),
        at("signed", value="false"),
        at("signed", value=1),
        at("errors", value=[0.1, -1.0]),
        at("warnings", value="one"),
        at("method", value=None),
        at("more", value=1),
    ],
)
def test_what_no_explanation_can_hold_is_refused(plain: dict[str, Any], change: Change) -> None:
    assert Explanation.from_dict(copy.deepcopy(plain)).to_dict() == plain
    change(plain)
    with pytest.raises(FormatError, match="not an explanation"):
        Explanation.from_json(json.dumps(plain))


def test_a_detail_that_is_not_defined_is_null(plain: dict[str, Any]) -> None:
    plain["details"]["r_squared"] = None
    again = Explanation.from_dict(plain)
    assert math.isnan(again.details["r_squared"])
    assert json.loads(again.to_json(), parse_constant=pytest.fail)["details"] == {"r_squared": None}


def test_labels_that_may_hold_together_have_probabilities_of_their_own() -> None:
    several = Prediction(("a", "b"), (2.0, 2.0), (0.8808, 0.8808))
    assert Prediction.from_dict(several.to_dict()) == several


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 101 + "]" * 101, '{"a":' * 900 + "1" + "}" * 900, "1" * 5_000, "{", "\ufeff1"]
)
def test_json_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_json(text)
    with pytest.raises(FormatError):
        Explanation.from_json(text)


def test_json_that_is_deep_within_reason_is_read() -> None:
    assert parse_json("[" * 100 + "]" * 100)


def test_values_of_any_size_can_be_named_in_a_message() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "list"
    assert shown(10**5_000) == "int"


def test_json_can_be_written_and_printed_anywhere() -> None:
    text = dump_json({"a\ud800\x9b": "é"})
    assert text.encode() == b'{"a\\ud800\\u009b": "\xc3\xa9"}'
    assert parse_json(text) == {"a\ud800\x9b": "é"}


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Example("good \ud800 film"), "the text is not valid Unicode: character 5 .*U\\+D800"),
        (lambda: Example.of("\udfff"), "character 0"),
        (lambda: Example.of(("fine", "bad \udc80")), "text 2 of the example is not valid Unicode: character 4"),
        (lambda: Example("fine", label="\ud800"), "the label of the example"),
        (lambda: Example("fine", id="\ud800"), "the id of the example"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_where_an_example_is_made(make: Callable[[], Example], place: str) -> None:
    with pytest.raises(InputError, match=place):
        make()


def test_whole_surrogate_pairs_and_all_scripts_are_fine() -> None:
    for text in ("👍 fine", "很好看", "a\x00b", "\ufffe"):
        assert Example.of(text).fingerprint


def test_numbers_of_numpy_are_written_and_other_objects_refused() -> None:
    assert parse_json(dump_json({"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True)})) == {
        "a": 3,
        "b": 0.5,
        "c": True,
    }
    with pytest.raises(FormatError, match=r"cannot be written as JSON .*there is a memoryview"):
        dump_json([memoryview(b"x")])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", None),
        ("method", "\ud800"),
        ("units", "word"),
        ("scores", True),
        ("scores", ("1", "2")),
        ("target", 1),
        ("prediction", None),
        ("parameters", "samples"),
        ("parameters", {"\ud800": 1}),
        ("signed", "yes"),
        ("cost", "much"),
        ("details", {"fit": "good"}),
        ("model", {"name": "\udfff"}),
        ("versions", 3),
        ("errors", None),
        ("warnings", "one"),
        ("warnings", ("\ud83d\ude00",)),
    ],
)
def test_parts_of_another_kind_are_refused(plain: dict[str, Any], name: str, value: object) -> None:
    with pytest.raises(DidactError):
        dataclasses.replace(Explanation.from_dict(plain), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("labels", [("\ud800", "b"), (1, 2), ("a",)])
def test_labels_that_no_file_can_hold_are_refused(labels: Any) -> None:
    with pytest.raises(DidactError):
        Prediction(labels, (0.1, 0.2), (0.5, 0.5))
