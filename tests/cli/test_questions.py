"""Questions about a passage, and words that have labels, on the command line."""

from pathlib import Path

import pytest

from didact.cli import main
from didact.render.jsonio import load
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Explanation, Span

QUESTION, PASSAGE = "is it good food", TEXTS[3]


def saved(folder: Path, auto_class: str, labels: tuple[str, ...]) -> str:
    for part in tiny_model("bert", labels, auto_class=auto_class):
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("answering"), "AutoModelForQuestionAnswering", ("start", "end"))


@pytest.fixture(scope="module")
def tagging(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("tagging"), "AutoModelForTokenClassification", ("O", "PER"))


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Explanation]:
    assert main([*arguments, "--format", "json"]) == 0
    return load(capsys.readouterr().out)


def test_a_question_is_answered_and_explained(
    answering: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "passage.txt"
    file.write_text(f"{PASSAGE}\n{TEXTS[0]}\n")
    model = ("--model", answering, "--method", "occlusion")
    (made,) = explained(capsys, "explain", "--question", QUESTION, "--passage", PASSAGE, *model)
    assert made.example.texts == (QUESTION, PASSAGE)
    assert made.prediction.kind == "span"
    (made,) = explained(capsys, "explain", "--question", QUESTION, "--passage", str(file), *model)
    assert made.example.texts == (QUESTION, f"{PASSAGE}\n{TEXTS[0]}")
    both = explained(
        capsys,
        "compare",
        "--question",
        QUESTION,
        "--passage",
        PASSAGE,
        "--model",
        answering,
        "--methods",
        "lime,random",
    )
    assert [one.method for one in both] == ["lime", "random"]
    assert main(["explain", "--question", QUESTION, "--passage", PASSAGE, *model]) == 0
    assert f"passage  {PASSAGE[:20]}" in capsys.readouterr().out


def test_an_answer_is_given_by_its_text_or_its_characters(answering: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = PASSAGE.index("company")
    for given in ("company", f"{place}:{place + 7}"):
        (made,) = explained(
            capsys, "explain", "--question", QUESTION, "--passage", PASSAGE, "--model", answering, "--answer", given
        )
        assert (made.target.label, made.target.answer) == ("given answer", Span(place, place + 7, 1))


def test_a_word_and_its_label(tagging: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = ("--model", tagging, "--method", "occlusion")
    (made,) = explained(capsys, "explain", TEXTS[0], *model, "--answer", "film", "--target", "PER")
    assert (made.target.label, made.target.answer) == ("PER", Span(18, 22))
    (made,) = explained(capsys, "explain", TEXTS[0], *model, "--answer", "film")
    assert made.target.answer == Span(18, 22)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--question", QUESTION), "--question goes with --passage"),
        (("--passage", PASSAGE), "--passage goes with --question"),
        ((TEXTS[0], "--question", QUESTION, "--passage", PASSAGE), "not both"),
        ((), "nothing to explain"),
        (("--question", QUESTION, "--passage", " "), "empty or blank"),
        (("--question", QUESTION, "--passage", "."), "is a directory"),
        (("--question", QUESTION, "--passage", PASSAGE, "--answer", "nobody"), "does not stand in the text"),
        (
            ("--question", QUESTION, "--passage", PASSAGE, "--answer", "good"),
            "stands 2 times in the text; give one of 0:4, 14:18",
        ),
        (("--question", QUESTION, "--passage", PASSAGE, "--answer", "50:500"), "characters 50 to 500"),
        ((QUESTION,), "only one text was given"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, answering: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments, "--model", answering]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_wrong_labels_of_words_are_refused(tagging: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", TEXTS[0], "--model", tagging, "--answer", "film", "--target", "LOC"]) == 2
    assert "unknown label 'LOC'; known: O, PER" in capsys.readouterr().err


def test_the_embedded_model_of_texts_answers_no_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--question", QUESTION, "--passage", PASSAGE]) == 2
    assert "--question goes with --model, a network for questions (default:questions" in capsys.readouterr().err
