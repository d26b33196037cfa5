import json

import pytest

from didact.errors import FormatError, InputError
from didact.render.jsonio import dump, load
from tests.render.conftest import NASTY, VALUE, Make


@pytest.mark.parametrize("kind", NASTY)
def test_round_trip(make: Make, kind: str) -> None:
    given = [make(NASTY[kind], pair=NASTY["emoji"]), make(prediction=VALUE, scores=[1 / 3, 1e-300, -0.0, 5e8, 1, 2])]
    text = dump(given)
    text.encode("utf-8")
    assert load(text) == given
    assert load(dump(given, indent=2)) == given


def test_document_has_a_header(make: Make) -> None:
    document = json.loads(dump([make()]))
    assert document["format"] == "didact-explanations"
    assert document["version"] == 1
    assert len(document["explanations"]) == 1


def test_refuses_an_empty_list() -> None:
    with pytest.raises(InputError, match="at least one"):
        dump([])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"format": "other"}', "didact-explanations"),
        (
            '{"format": "didact-explanations", "version": 2, "explanations": []}',
            "version 2; this didact reads version 1",
        ),
        ('{"format": "didact-explanations", "version": 1}', "must be a list, got NoneType"),
        ('{"format": "didact-explanations", "version": 1, "explanations": [7]}', "explanation 0: .* got int"),
    ],
)
def test_says_what_is_wrong_with_the_document(text: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        load(text)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["scores"], [1.0], "one score per unit"),
        (["prediction"], [1], "explanation 1"),
        (["prediction", "labels"], ["one"], "one label per output"),
        (["target", "index"], 9, "output 9"),
        (["target", "odd"], 9, "odd"),
        (["units", "regions", 2], [0, 999, 0], "unit 2 covers characters 0 to 999"),
        (["units", "regions", 2], [0, 1, 4], "unit 2 lies in field 4"),
        (["units"], None, "explanation 1"),
        (["cost"], None, "explanation 1"),
    ],
)
def test_names_the_wrong_explanation(make: Make, path: list, value: object, complaint: str) -> None:
    document = json.loads(dump([make(), make()]))
    place = document["explanations"][1]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=f"explanation 1: .*{complaint.removeprefix('explanation 1')}"):
        load(json.dumps(document))


def test_names_the_missing_field(make: Make) -> None:
    document = json.loads(dump([make()]))
    del document["explanations"][0]["method"]
    with pytest.raises(FormatError, match=r"explanation 0: .*'method' is missing"):
        load(json.dumps(document))
