"""The functions of the front door, with the embedded model."""

import json
from pathlib import Path

import pytest

import didact
from didact.errors import CapabilityError, InputError, UnknownNameError
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
    assert names == [card.name for card in didact.list_methods(keyword_predict) if not card.needs_rationale]
    assert {"random", "kernel_shap", "lime", "occlusion"} <= set(names)
    assert "human" not in names
    review = didact.Example("good film", rationale=(didact.Span(0, 4),))
    assert "human" in [found.method for found in didact.compare(review, keyword_predict)]
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
    assert without_gradients >= {"kernel_shap", "lime", "occlusion", "random", "human"}
    assert not without_gradients & {"integrated_gradients", "attention"}
    assert "human" not in {card.name for card in didact.list_methods(keyword_predict, "a text without a rationale")}


def test_an_estimate_tells_the_cost_beforehand() -> None:
    told = didact.estimate([TEXT, "A dull plot."], method="lime", samples=20)
    found = didact.explain([TEXT, "A dull plot."], method="lime", samples=20)
    assert (told.method, told.examples, told.units) == ("lime", 2, sum(len(one.units) for one in found))
    assert (told.forwards, told.backwards) == (sum(one.cost.forwards for one in found), 0)
    assert told.seconds > 0
    assert told.memory is not None
    assert didact.estimate(TEXT).backwards == didact.explain(TEXT).cost.backwards > 0
    tokens = didact.estimate("An unforgettable evening", method="occlusion", level="token")
    assert tokens.units == len(didact.explain("An unforgettable evening", method="occlusion", level="token").units)
    with pytest.raises(CapabilityError, match="attention needs a model that is attentive"):
        didact.estimate(TEXT, keyword_predict, "attention")
    with pytest.raises(InputError, match="at least one text"):
        didact.estimate([])


def test_attributions_from_elsewhere_stand_beside_our_own() -> None:
    ours = didact.explain(TEXT, method="occlusion")
    arrays = {"spans": [(2, 7), (8, 17)], "scores": [0.25, 1.5], "method": "mine"}
    found = didact.import_attributions(arrays, TEXT, "default")
    assert isinstance(found, didact.Explanation)
    assert (found.method, found.prediction, found.target) == ("mine", ours.prediction, ours.target)
    assert found.units.texts == ("truly", "wonderful")
    assert found.units.positions == ours.units.positions[1:3]
    didact.show([ours, found])
    with pytest.raises(InputError, match="does not say what the model predicted"):
        didact.import_attributions(arrays, TEXT)
