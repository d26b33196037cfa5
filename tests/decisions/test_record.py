"""The decision record: what it states is what the model returns, nothing can act in it, and nothing is lost in JSON."""

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

import didact
from didact.cli import main
from didact.counterfactuals.edits import Change
from didact.decisions.page import flip_sentence
from didact.decisions.record import DecisionRecord
from didact.decisions.trust import SHUFFLES, Trust, measure_trust
from didact.errors import FormatError, InputError, ParameterError, TargetError
from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import keyword_predict, tiny_model

CHROMIUM = Path("/usr/bin/chromium")
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
    assert sentence.startswith("No change that was tried flips the prediction no (90.0 %): 5 of at most 5")
    assert sentence.endswith("Other changes may still flip it.")
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


def words_of_two_sides(texts: list[str]) -> list[list[float]]:
    """Twelve classes; the number of different words of each side decides between the first two."""
    rows = []
    for text in texts:
        balance = sum(f"good{number}" in text for number in range(10)) - sum(f"bad{n}" in text for n in range(8))
        rows.append([0.4 + 0.05 * balance / 2, 0.4 - 0.05 * balance / 2, *[0.02] * 10])
    return rows


SIDES = " ".join([*(f"good{number}" for number in range(10)), *(f"bad{number}" for number in range(8))])


def test_it_prints_on_one_page() -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("there is no Chromium")
    model = load_model(words_of_two_sides, labels=[f"intent number {number}" for number in range(12)], name="intents")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        for count in (18, 140, 260, 450):
            text = f"{'and then they all went home again ' * (count // 7 - 2)}{SIDES}"
            page.set_content(didact.record(text, model, "occlusion", budget=600).to_html())
            for paper in ("A4", "Letter"):
                sheets = page.pdf(format=paper, print_background=True)
                assert len(re.findall(rb"/Type\s*/Page\b", sheets)) == 1, (count, paper)
        browser.close()


def test_of_a_long_text_what_stands_near_a_change_is_repeated(keywords: Model) -> None:
    text = f"{'some words come first ' * 20}a good film {'and others come after ' * 20}"
    page = didact.record(text, keywords, "occlusion", budget=200).to_html()
    (part,) = re.findall(r"What would change it</h2>.*?(<p class=.*?)</section>", page)
    shown = visible(part)
    assert shown.startswith("… first some words come first some")
    assert "<del>good</del> film" in part
    assert shown.endswith("and others come after and …")
    assert len(shown.split()) < 30
    assert len(visible(page).split("Why")[1].split("Supports")[0].split()) == len(text.split())


def test_many_deleted_words_are_counted(record: DecisionRecord) -> None:
    units = record.flip.units
    every = tuple(Change(number, f"w{number}", "", span) for number, span in enumerate(units.spans))
    said = [flip_sentence(dataclasses.replace(record.flip, changes=every[:size])) for size in (1, 2, 3)]
    assert [sentence.split(" the model")[0] for sentence in said] == [
        "With “w0” deleted",
        "With “w0” and “w1” deleted",
        "With “w0”, “w1” and “w2” deleted",
    ]
    many = dataclasses.replace(record.flip, changes=every * 3)
    assert f"“w6” and {len(every) * 3 - 7} more words deleted" in flip_sentence(many)
