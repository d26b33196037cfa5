"""The table of words against averages worked out by hand."""

import json
import math
from pathlib import Path

import pytest

import didact
from didact.cli import main
from didact.errors import InputError, ParameterError
from didact.types import Example, Explanation, Prediction, Span, Target, Units

PREDICTION = Prediction(("negative", "positive"), (-1.0, 1.0), (0.12, 0.88))


def explained(text: str, scores: list[float], label: int = 1, method: str = "made") -> Explanation:
    spans, place = [], 0
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        spans.append(Span(start, place))
    target = Target(label, PREDICTION.labels[label])
    return Explanation(method, Units(Example(text), "word", tuple(spans)), tuple(scores), target, PREDICTION)


def test_means_are_over_texts_and_by_class() -> None:
    made = didact.words(
        [
            explained("Good good film", [1.0, 3.0, 0.5]),
            explained("a good day", [0.1, 4.0, 0.0]),
            explained("good grief", [-2.0, 0.0], label=0),
            explained("no good", [0.0, -4.0], label=0),
        ],
        least=2,
    )
    rows = {(row.label, row.word): row for row in made.rows}
    assert list(rows) == [("negative", "good"), ("positive", "good")]
    assert rows["positive", "good"].mean == 3.0  # (2 + 4) / 2: occurrences of a text are averaged first
    assert (rows["positive", "good"].texts, rows["positive", "good"].count) == (2, 3)
    assert rows["negative", "good"].mean == -3.0
    assert (made.texts, made.left_out) == (4, 5)


def test_examples_are_the_strongest_occurrences_in_their_context() -> None:
    made = didact.words([explained("a good film", [0, 1, 0]), explained("so good !", [0, 5, 0])], least=2, examples=1)
    (row,) = made.rows
    (example,) = row.examples
    assert (example.explanation, example.score) == (1, 5.0)
    assert (example.before, example.word, example.after) == ("so ", "good", " !")


def test_intervals_need_ten_texts() -> None:
    scores = [0.2 * number for number in range(12)]
    few, many = (
        didact.words([explained("good", [score]) for score in scores[:count]], least=1).rows[0] for count in (9, 12)
    )
    assert math.isnan(few.low)
    assert many.low < many.mean < many.high
    assert json.loads(json.dumps(didact.words([explained("good", [1.0])], least=1).to_dict()))["rows"][0]["low"] is None


def test_the_page_shows_words_and_examples_and_lets_nothing_act(tmp_path: Path) -> None:
    made = didact.words([explained("<b>bold</b> <script>", [1.0, -2.0])], least=1)
    page = made.save(tmp_path / "words.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "too few texts" in page
    assert "−2.000" in page
    assert made.to_dataframe()[["word", "mean"]].to_numpy().tolist() == [["<script>", -2.0], ["<b>bold</b>", 1.0]]


def test_scores_that_cannot_be_averaged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"several methods cannot be averaged \(lime, made\)"):
        didact.words([explained("good", [1.0]), explained("good", [1.0], method="lime")])
    with pytest.raises(InputError, match="the list of explanations is empty"):
        didact.words([])
    with pytest.raises(InputError, match="words takes a list of explanations"):
        didact.words(["good"])  # type: ignore[list-item]
    with pytest.raises(ParameterError, match="least must be at least 1"):
        didact.words([explained("good", [1.0])], least=0)
    with pytest.raises(InputError, match=r"written as \.html or \.json, got 'words\.csv'"):
        didact.words([explained("good", [1.0])], least=1).save(tmp_path / "words.csv")


def test_the_command_explains_a_file_or_reads_explanations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\na good day\na dull film\n", encoding="utf-8")
    stored, place = tmp_path / "explained.json", tmp_path / "words.json"
    assert main(["explain", str(texts), "--method", "occlusion", "--target", "all", "--out", str(stored)]) == 0
    assert (
        main(["words", str(texts), "--method", "occlusion", "--target", "all", "--least", "2", "--out", str(place)])
        == 0
    )
    fresh = json.loads(place.read_text(encoding="utf-8"))
    assert main(["words", str(stored), "--least", "2", "--out", str(place)]) == 0
    again = json.loads(place.read_text(encoding="utf-8"))
    assert fresh["rows"] == again["rows"]
    assert {row["label"] for row in fresh["rows"]} == {"negative", "positive"}
    assert "explained class: positive" in capsys.readouterr().out
    assert main(["words", str(texts), "--out", str(tmp_path / "words.csv")]) == 2
    assert main(["explain", "a good film", "--target", "positive", "--versus", "positive"]) == 2
    assert "two different labels, got 'positive' twice" in capsys.readouterr().err
    assert main(["explain", "a good film", "--method", "occlusion", "--versus", "negative"]) == 0
    assert "positive rather than negative, difference of logits" in capsys.readouterr().out
