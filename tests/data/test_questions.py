"""Questions, answers and links: read whole, checked by character, and refused with the line named."""

import json
from pathlib import Path
from typing import Any

import pytest

from didact.data.load import load_data
from didact.data.questions import load_questions
from didact.errors import DidactError, FormatError, InputError
from didact.types import Example, Span

ROW: dict[str, Any] = {
    "id": "q1",
    "question": "who wrote the play",
    "passage": "The play was written by Ann Lee .",
    "answers": [{"text": "Ann Lee", "start": 24}],
    "alignments": [[[10, 18], [0, 8]]],
}


def test_a_row_becomes_a_question() -> None:
    (found,) = load_questions([ROW])
    assert found.example.fields == (ROW["question"], ROW["passage"])
    assert found.answers == (Span(24, 31, 1),)
    assert found.texts == ("Ann Lee",)
    assert found.links == ((Span(10, 18, 0), Span(0, 8, 1)),)
    assert found.example.rationale == (Span(10, 18, 0), Span(0, 8, 1))
    assert found.example.id == "q1"


def test_answers_as_squad_writes_them() -> None:
    row = {"question": ROW["question"], "context": ROW["passage"], "answers": {"text": ["Ann"], "answer_start": [24]}}
    (found,) = load_questions([row])
    assert found.texts == ("Ann",)
    assert found.links == ()
    assert found.example.rationale is None


def test_files_choices_and_questions_without_links(tmp_path: Path) -> None:
    rows = [ROW | {"id": str(n), "question": f"who wrote play {n}", "alignments": []} for n in range(6)]
    rows += [ROW | {"id": "linked"}]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert len(load_questions(path)) == 7
    assert [one.example.id for one in load_questions(path, linked=True)] == ["linked"]
    few, more = (load_questions(path, limit=n) for n in (2, 4))
    assert more[:2] == few
    columns = {"text": "question", "text_pair": "passage", "rationale": "alignments"}
    plain = load_data(path, limit=7, fields=columns)
    assert [one.example.fields for one in load_questions(path, limit=7)] == [one.fields for one in plain]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answers": [{"text": "Ann Lee", "start": 23}]}, "'Ann Lee' does not stand at character 23"),
        ({"answers": [{"text": "Ann Lee", "start": -9}]}, "does not stand at character -9"),
        ({"answers": []}, "at least one"),
        ({"answers": None}, "field 'answers' must be a list"),
        ({"answers": ["Ann Lee"]}, "an answer is {'text', 'start'}"),
        ({"alignments": [[[10, 18], [0, 99]]]}, "does not lie in the text"),
        ({"alignments": [[[10, 18]]]}, "alignments"),
        ({"passage": None, "alignments": None}, "'passage' is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | change) + "\n", encoding="utf-8")
    with pytest.raises(FormatError) as problem:
        load_questions(path)
    assert "dev.jsonl, line 2" in str(problem.value)
    assert told in str(problem.value)


@pytest.mark.parametrize(
    "unanswered",
    [
        {"answers": {"text": [], "answer_start": []}},
        {"answers": [], "is_impossible": True},
        {"answers": None, "is_impossible": True},
    ],
)
def test_a_question_that_its_passage_does_not_answer(unanswered: dict[str, Any]) -> None:
    (question,) = load_questions([ROW | unanswered])
    assert question.answers == question.texts == question.example.label == ()


def test_what_cannot_be_questions_is_refused() -> None:
    with pytest.raises(InputError, match="no answers"):
        load_questions([Example("a text")])
    with pytest.raises(InputError, match="no question with links"):
        load_questions([ROW | {"alignments": []}], linked=True)


def test_qed_that_is_nowhere_says_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    with pytest.raises(DidactError, match=r"\$DIDACT_DATA/qed"):
        load_questions("qed", split="dev")


def test_real_questions(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    found = load_questions("qed", split="validation", linked=True)
    assert len(found) == 893
    first = next(one for one in found if one.example.text == "who got the first nobel prize in physics")
    assert first.texts == ("Wilhelm Conrad Röntgen",)
    ((phrase, same),) = first.links
    assert first.example.text[phrase.start : phrase.end] == "the first nobel prize in physics"
    assert first.example.fields[1][same.start : same.end] == "The first Nobel Prize in Physics"


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["Ann"], "answer_start": []},
        {"text": "Ann", "answer_start": [0]},
        {"text": ["Ann"], "answer_start": 0},
        {"text": 3, "answer_start": 3},
        {"text": ["Ann"], "answer_start": [0.5]},
        {},
    ],
)
def test_lists_of_answers_that_do_not_fit_are_refused(answers: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="answers"):
        load_questions([{"question": "who", "passage": "Ann wrote it .", "answers": answers}])
