"""The functions of the front door, with the embedded model."""

import json
from pathlib import Path

import pytest

import didact
from didact.errors import InputError, UnknownNameError
from didact.render.html import read_page
from didact.testing.tiny import keyword_predict

TEXT = "A truly wonderful film."


def test_one_text_gives_one_explanation_and_a_list_a_list() -> None:
    one = didact.explain(TEXT, method="occlusion")
    several = didact.explain([TEXT, "A dull plot."], method="occlusion")
    assert isinstance(one, didact.Explanation)
    assert [found.example.text for found in several] == [TEXT, "A dull plot."]
    assert one.prediction.label == "positive"
    assert one.top(1)[0][0] == "wonderful"


def test_the_default_method_suits_the_model() -> None:
    assert didact.explain(TEXT).method == "integrated_gradients"
    assert didact.explain(TEXT, keyword_predict).method == "kernel_shap"


def test_targets_and_settings_are_recorded() -> None:
    found = didact.explain(TEXT, method="lime", target="negative", samples=20, seed=5, scale="probability")
    assert found.target == didact.Target(0, "negative", "probability")
    assert (found.parameters["samples"], found.parameters["seed"]) == (20, 5)
    assert found.model["name"] == "didact/sentiment (embedded)"
    assert found.versions["didact"] == "0.1.0"


def test_compare_uses_what_the_model_allows() -> None:
    names = [found.method for found in didact.compare("good film", keyword_predict)]
    assert names == ["random", "kernel_shap", "lime", "occlusion"]
    chosen = didact.compare(TEXT, methods=["random", didact.load_explainer("occlusion", absence="delete")])
    assert [found.parameters.get("absence") for found in chosen] == [None, "delete"]


def test_mistakes_are_told() -> None:
    with pytest.raises(UnknownNameError, match="did you mean occlusion"):
        didact.explain(TEXT, method="oclusion")
    with pytest.raises(InputError, match="beside a ready explainer"):
        didact.explain(TEXT, method=didact.load_explainer("random"), seed=1)
    with pytest.raises(InputError, match="at least one method"):
        didact.compare(TEXT, methods=[])
    with pytest.raises(AttributeError, match="no attribute 'explan'"):
        didact.explan  # noqa: B018


def test_saving_by_ending(tmp_path: Path) -> None:
    found = didact.compare(TEXT, methods=["random", "occlusion"])
    for ending, start in (("json", "{"), ("html", "<!"), ("tex", "%"), ("svg", "<svg"), ("txt", "")):
        path = didact.save(found, tmp_path / "deep" / f"x.{ending}")
        assert path.read_text(encoding="utf-8").lower().startswith(start)
    assert len(json.loads((tmp_path / "deep" / "x.json").read_text())["explanations"]) == 2
    assert read_page((tmp_path / "deep" / "x.html").read_text()) == found
    with pytest.raises(InputError, match="cannot be written as 'docx'"):
        didact.save(found, tmp_path / "x.docx")


def test_show_prints_outside_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    didact.show(didact.explain(TEXT, method="occlusion"))
    shown = capsys.readouterr().out
    assert "A truly wonderful film." in shown
    assert "positive" in shown


def test_methods_are_listed_by_card() -> None:
    assert {card.name for card in didact.list_methods()} >= {"lime", "attention", "random"}
    without_gradients = {card.name for card in didact.list_methods(keyword_predict)}
    assert without_gradients == {"kernel_shap", "lime", "occlusion", "random"}
