"""Names: ours, third parties', unknown ones, and doubles."""

import importlib
import sys
from pathlib import Path

import pytest

from didact.attribution.base import ATTRIBUTIONS, Attribution
from didact.errors import ParameterError, UnknownNameError
from didact.metrics.base import METRICS
from didact.registry import Registry
from didact.types import Card

PLUGIN = """
from dataclasses import dataclass
from didact.attribution.base import Attribution, Outcome, register
from didact.types import Card, Cost
import numpy as np

@register(Card(name="word_length", family="control", summary="s", reference="r", cost="1 forward"))
@dataclass(frozen=True, kw_only=True)
class WordLength(Attribution):
    def attribute(self, model, units, targets):
        return [Outcome(np.array([float(len(t)) for t in unit.texts]), None) for unit in units]
    def cost(self, units):
        return Cost(forwards=1)
"""


def test_a_name_is_its_file() -> None:
    folder = Path(sys.modules[Attribution.__module__].__file__ or "").parent
    files = {path.stem for path in folder.glob("[!_]*.py")} - {"base"}
    assert set(ATTRIBUTIONS.names()) == files
    assert all(ATTRIBUTIONS.card(name).name == name for name in ATTRIBUTIONS.names())


def test_an_unknown_name_lists_the_close_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown method 'kernelshp' \(did you mean .*kernel_shap.*\?\); known: "
    ):
        ATTRIBUTIONS.get("kernelshp")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ig", "integrated_gradients"),
        ("shap", "kernel_shap"),
        ("gxi", "gradient_x_input"),
        ("Kernel-SHAP", "kernel_shap"),
    ],
)
def test_an_alias_and_another_spelling_stand_for_the_name(given: str, meant: str) -> None:
    assert ATTRIBUTIONS.resolve(given) == meant
    assert ATTRIBUTIONS.get(given) is ATTRIBUTIONS.get(meant)
    assert ATTRIBUTIONS.card(given).name == meant


def test_aliases_of_metrics_resolve() -> None:
    assert METRICS.get("deletion_auc").card.name == "deletion_area"
    assert {METRICS.resolve(alias) for alias in METRICS.aliases()} <= set(METRICS.names())


def test_a_close_alias_is_suggested() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean .*saliency"):
        ATTRIBUTIONS.get("saliancy")
    with pytest.raises(ParameterError, match=r"unknown parameter of kernel_shap 'max_eval' \(did you mean max_evals"):
        ATTRIBUTIONS.get("shap").configured(max_eval=60)


def test_names_that_begin_as_the_given_one_are_suggested() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown metric 'Comp' \(did you mean comprehensiveness"):
        METRICS.get("Comp")


def test_an_alias_stands_for_one_thing_only() -> None:
    registry: Registry[object, Card] = Registry("thing", "nowhere", [], "didact.nothing")
    for name in ("x", "y"):
        card = Card(name, "control", "s", "r", "c", aliases=("z",))
        registry.register(card)(type(name.upper(), (), {"__module__": name}))
    with pytest.raises(ValueError, match="'z', an alias of the thing 'y', is taken already"):
        registry.aliases()


def test_settings_have_the_names_of_other_libraries() -> None:
    kernel_shap, lime = ATTRIBUTIONS.get("shap"), ATTRIBUTIONS.get("lime")
    assert kernel_shap.configured(max_evals=64).parameters["evaluations"] == 64
    assert lime.configured(num_samples=30, perturbation="delete").parameters["samples"] == 30
    with pytest.raises(ParameterError, match="samples of lime is given twice, once as 'num_samples'"):
        lime.configured(samples=20, num_samples=30)
    with pytest.raises(ParameterError, match=r"samples of lime must be an int.*, got 'many'"):
        lime.configured(max_evals="many")


def test_a_name_cannot_be_taken_twice() -> None:
    registry: Registry[object] = Registry("thing", "nowhere", [], "didact.nothing")
    card = Card("x", "control", "s", "r", "c")
    registry.register(card)(type("First", (), {"__module__": "one"}))
    with pytest.raises(ValueError, match="'x' is registered twice"):
        registry.register(card)(type("Second", (), {"__module__": "two"}))


def install_plugin(folder: Path) -> None:
    """What an installer writes about a package that offers an attribution."""
    info = folder / "word_length-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: word-length\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[didact.attributions]\nword_length = word_length_plugin:WordLength\n")


def test_third_parties_register_through_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from didact.testing.conformance import applicable, check

    (tmp_path / "word_length_plugin.py").write_text(PLUGIN)
    install_plugin(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        assert "word_length" in ATTRIBUTIONS.names()
        method = ATTRIBUTIONS.get("word_length")()
        for name in applicable(method.card, "bert"):
            check(name, method, "bert")
    finally:
        ATTRIBUTIONS._classes.pop("word_length", None)
        ATTRIBUTIONS._cards.pop("word_length", None)


def test_a_package_that_is_installed_meanwhile_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "word_length" not in ATTRIBUTIONS.names()
    install_plugin(tmp_path)
    assert "word_length" in ATTRIBUTIONS.names()


def test_parameters_are_checked_in_one_sentence() -> None:
    lime = ATTRIBUTIONS.get("lime")
    with pytest.raises(ParameterError, match=r"unknown parameter of lime 'sample' \(did you mean samples"):
        lime.configured(sample=3)
    with pytest.raises(ParameterError, match="samples of lime must be an int or '2n', got 'many'"):
        lime.configured(samples="many")
    with pytest.raises(ParameterError, match="samples of lime must be at least 2, got 1"):
        lime.configured(samples=1)
    with pytest.raises(ParameterError, match="level of lime must be a str or None, got 3"):
        lime.configured(level=3)
    with pytest.raises(ParameterError, match="fit of kernel_shap must be 'smooth' or 'linear', got 'cubic'"):
        ATTRIBUTIONS.get("kernel_shap").configured(fit="cubic")
    assert lime.configured(samples=7, seed=3).parameters["samples"] == 7
