"""What explanations offer beyond data: shown, saved, as a DataFrame, at a prompt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.errors import InputError
from didact.testing.tiny import corner_predict, keyword_predict

TEXTS = ["a wonderful film", "avoid it"]
LABELS = ["bad", "good"]


@pytest.fixture(scope="module")
def model() -> object:
    return didact.load_model(keyword_predict, labels=LABELS)


def test_an_explanation_is_a_row_per_unit(model: object) -> None:
    pytest.importorskip("pandas")
    explanation = didact.explain(TEXTS[0], model, "occlusion")
    table = explanation.to_dataframe()
    assert table["text"].to_list() == ["a", "wonderful", "film"]
    assert table["score"].to_list() == list(explanation.scores)
    assert [TEXTS[0][row.start : row.end] for row in table.itertuples()] == table["text"].to_list()
    assert set(table["method"]) == {"occlusion"}
    assert set(table["target"]) == {"good"}
    assert table["probability"].iloc[0] == explanation.prediction.probabilities[1]
    assert table["error"].isna().all()
    assert "id" not in table


def test_lists_number_their_examples(model: object) -> None:
    pytest.importorskip("pandas")
    several = didact.explain([didact.Example(text, id=text[:1]) for text in TEXTS], model, "kernel_shap", seed=1)
    table = didact.to_dataframe(several)
    assert table.equals(several.to_dataframe())
    assert table.groupby("example").size().to_list() == [3, 2]
    assert table["id"].to_list() == ["a"] * 5
    methods = didact.compare(TEXTS[0], model, ["occlusion", "lime"]).to_dataframe()
    assert set(methods["example"]) == {0}
    assert didact.to_dataframe([]).empty
    with pytest.raises(InputError, match="an explanation or a list of explanations is needed"):
        didact.to_dataframe("text")


def test_units_of_images_have_corners() -> None:
    pytest.importorskip("pandas")
    model = didact.load_model(corner_predict, inputs="image")
    pixels = np.full((16, 16, 3), 200, dtype=np.uint8)
    table = didact.explain(pixels, model, "occlusion", level="patch").to_dataframe()
    assert table[["left", "top", "right", "bottom"]].iloc[0].to_list() == [0, 0, 2, 2]


def test_explanations_are_shown_and_saved_by_themselves(
    model: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = didact.explain(TEXTS, model, "occlusion")
    several[0].show()
    one = capsys.readouterr().out
    several.show()
    both = capsys.readouterr().out
    assert "wonderful" in one
    assert "avoid" not in one
    assert "avoid" in both
    for ending in ("html", "json", "svg", "txt", "tex"):
        assert several[0].save(tmp_path / f"one.{ending}").stat().st_size
    assert several.save(str(tmp_path / "all.json")) == tmp_path / "all.json"
    with pytest.raises(InputError, match="cannot be written as 'docx'; allowed are json, html"):
        several[0].save(tmp_path / "one.docx")


def test_reprs_fit_a_prompt(model: object) -> None:
    explanation = didact.explain(TEXTS[0], model, "occlusion", target="good")
    assert repr(explanation).startswith("Explanation('a wonderful film' -> good 88.1%; occlusion for good: wonderful +")
    several = didact.explain([*TEXTS, " "] * 3, model, "occlusion", on_error="skip")
    lines = repr(several).splitlines()
    assert lines[0] == "6 explanations, 3 skipped"
    assert lines[-1] == "  ... and 1 more"
    assert repr(model) == "BlackBox('keyword_predict': text -> bad, good)"
    assert repr(didact.load_model()) == "NetworkModel('didact/sentiment (embedded)': text -> negative, positive)"
    assert repr(didact.load_data(TEXTS)) == "Dataset('list', split 'all', 2 examples)"
    labelled = didact.load_data({"text": TEXTS, "label": LABELS})
    assert repr(labelled) == "Dataset('columns', split 'all', 2 examples, labels bad, good)"


def test_tables_are_explained_row_by_row(model: object) -> None:
    pandas = pytest.importorskip("pandas")
    expected = [explanation.scores for explanation in didact.explain(TEXTS, model, "occlusion")]
    table = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    given = (table, table["text"], table["text"].to_numpy(), table.to_dict("list"), table.to_dict("records"))
    for several in (*given, didact.load_data(table), {"train": table.iloc[:1], "test": table}):
        assert [explanation.scores for explanation in didact.explain(several, model, "occlusion")] == expected
    alone = didact.explain({"text": TEXTS[0], "label": "good"}, model, "occlusion")
    assert isinstance(alone, didact.Explanation)
    assert (alone.scores, alone.example.label) == (expected[0], "good")
    assert didact.estimate(table, model, "occlusion").examples == 2


def picky(texts: list[str]) -> object:
    if "refused" in texts:
        raise ValueError("not this one")
    return keyword_predict(texts)


def test_rows_without_a_text_are_skipped_or_named() -> None:
    pandas = pytest.importorskip("pandas")
    model = didact.load_model(picky, labels=LABELS)
    table = pandas.DataFrame({"text": ["a wonderful film", None, "avoid it", 5, "refused"]}, index=list("abcde"))
    with pytest.raises(didact.DidactError, match="DataFrame, index 'b': field 'text' holds no text"):
        didact.explain(table, model, "occlusion")
    several = didact.explain(table, model, "occlusion", on_error="skip")
    skipped = {note.index: note.reason for note in several.skipped}
    assert [explanation.example.text for explanation in several] == ["a wonderful film", "avoid it"]
    assert skipped.keys() == {1, 3, 4}
    assert "must be text, got int 5" in skipped[3]
    assert "not this one" in skipped[4]
    with pytest.raises(didact.DidactError, match="holds no text"):
        didact.explain(table.loc[["b"]], model, "occlusion", on_error="skip")


def test_data_that_is_shown_imports_nothing_before() -> None:
    code = (
        "import sys, didact.types as types; units = types.Units(types.Example('ab'), 'word', (types.Span(0, 2),));"
        "one = types.Explanation('m', units, (1.0,), types.Target(0, 'x'), types.Prediction(('x',), (1.0,)));"
        "assert 'didact.render' not in sys.modules; one.show(); assert 'pandas' not in sys.modules"
    )
    assert "ab" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
