"""The decision record: what it states is what the model returns, nothing can act in it, and nothing is lost in JSON."""

import json
import math
import re
from pathlib import Path

import pytest

import didact
from didact.cli import main
from didact.decisions.page import flip_sentence
from didact.decisions.record import DecisionRecord
from didact.decisions.trust import SHUFFLES, Trust, measure_trust
from didact.errors import FormatError, InputError, ParameterError, TargetError
from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import keyword_predict, tiny_model

TEXT = "A truly wonderful film <script>alert(1)</script> & more."


@pytest.fixture(scope="module")
def record() -> DecisionRecord:
    return didact.record(TEXT, method="occlusion")


def visible(html: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL).split())


def test_the_page_has_every_part_of_the_decision(record: DecisionRecord) -> None:
    page = record.to_html()
    shown = visible(page)
    prediction = record.explanation.prediction
    assert f"predicts {prediction.label}" in shown
    assert all(label in shown for label in prediction.labels)
    assert f"Supports {prediction.label}" in shown
    assert f"Opposes {prediction.label}" in shown
    assert visible(flip_sentence(record.flip)) in shown
    assert record.trust.verdict in shown
    assert record.explanation.model["fingerprint"] in shown
    assert record.made in shown
    for library, number in record.explanation.versions.items():
        assert f"{library}={number}" in shown
    assert "@page{size:A4" in page


def test_nothing_of_the_text_acts_on_the_page(record: DecisionRecord) -> None:
    page = record.to_html()
    assert "<script" not in page
    assert "script" in visible(page)
    assert "http" not in page


def test_the_flip_is_what_a_plain_pass_of_the_model_gives(record: DecisionRecord) -> None:
    (plain,) = load_model().predict([record.flip.after])
    assert record.flip.flipped
    assert plain.label == record.flip.prediction_after.label != record.explanation.prediction.label
    assert plain.probabilities == pytest.approx(record.flip.prediction_after.probabilities, abs=1e-5)


def test_nothing_is_lost_in_json(record: DecisionRecord, tmp_path: Path) -> None:
    page, data = record.save(tmp_path / "decision.html")
    assert page.read_text(encoding="utf-8") == record.to_html()
    assert json.loads(data.read_text(encoding="utf-8")) == json.loads(json.dumps(record.to_dict()))
    assert DecisionRecord.from_dict(record.to_dict()).to_dict() == record.to_dict()
    assert record.save(tmp_path / "alone.json") == (tmp_path / "alone.json",)
    with pytest.raises(InputError, match=r"written as \.html, with \.json beside it, or \.json; got 'decision\.pdf'"):
        record.save(tmp_path / "decision.pdf")
    with pytest.raises(FormatError, match="not a decision record of version 1"):
        DecisionRecord.from_dict({**record.to_dict(), "version": 2})


def test_a_text_that_nothing_flips_has_a_documented_answer() -> None:
    model = load_model(lambda texts: [[0.9, 0.1]] * len(texts), labels=["no", "yes"], name="constant", version="1")
    made = didact.record("nothing changes this", model, "occlusion", budget=5)
    sentence = flip_sentence(made.flip)
    assert sentence.startswith("No change of words that was tried flips the prediction no (90.0 %): 5 of at most 5")
    assert sentence.endswith("This does not show that none exists.")
    assert sentence in visible(made.to_html())


@pytest.fixture(scope="module")
def keywords() -> Model:
    return load_model(keyword_predict, labels=["negative", "positive"])


def test_trust_follows_the_scores(keywords: Model) -> None:
    texts = [f"a good film about number {number} of many" for number in range(12)]
    faithful = didact.explain(texts, keywords, "occlusion")
    assert measure_trust(keywords, faithful).low > 0
    assert "significantly more faithful than chance on 12 texts" in measure_trust(keywords, faithful).verdict
    guessed = measure_trust(keywords, didact.explain(texts, keywords, "random"))
    assert guessed.value < measure_trust(keywords, faithful).value
    alone = measure_trust(keywords, faithful[:1])
    assert (alone.texts, math.isnan(alone.low)) == (1, True)
    assert 1 / (SHUFFLES + 1) <= alone.p <= 1
    assert Trust.from_dict(alone.to_dict()).to_dict() == alone.to_dict()


def test_data_to_measure_the_method_on_can_be_given(keywords: Model) -> None:
    made = didact.record("a good film", keywords, "occlusion", data=["a good day", "a bad day", "good and bad"])
    assert made.trust.texts == 3


def test_regressions_and_empty_texts_are_refused() -> None:
    with pytest.raises(TargetError, match="a flip is a change of the predicted class"):
        didact.record("some text", load_model(tiny_model("bert", ["score"])))
    with pytest.raises(InputError, match="empty or blank"):
        didact.record(" ")
    with pytest.raises(ParameterError, match="at least 1 evaluation, got 0"):
        didact.flip("a good film", budget=0)


def test_the_command_writes_page_and_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "decision.html"
    text = "A warm, funny and wonderful film, but too long."
    given = ["record", text, "--method", "occlusion", "--budget", "40", "--out", str(place)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "With “but” deleted the model predicts positive" in shown
    assert shown.splitlines()[-2:] == [str(place), str(place.with_suffix(".json"))]
    assert "--budget 40" in visible(place.read_text(encoding="utf-8"))
    assert json.loads(place.with_suffix(".json").read_text(encoding="utf-8"))["flip"]["budget"] == 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a film", "--out", "record.pdf"], "is written as .html or .json"),
        (["a film", "--budget", "0"], "--budget must be at least 1 evaluation, got 0"),
        (["{texts}"], "a decision record is about one text, and 2 were given"),
    ],
)
def test_mistakes_of_the_command_are_one_line(
    given: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("one film\nanother film\n", encoding="utf-8")
    out = [] if "--out" in given else ["--out", str(tmp_path / "record.html")]
    assert main(["record", *(part.format(texts=texts) for part in given), *out]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
