"""A learned explainer says whether it follows its reference: at the end of training, on its card, and in use."""

import dataclasses
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.occlusion import Occlusion
from didact.cli import main
from didact.errors import FormatError
from didact.models.load import load_model
from didact.protocols import Model
from didact.render.formats import render
from didact.testing.tiny import keyword_predict
from didact.trained.disagreement import SCOPE
from didact.trained.explainer import LearnedExplainer
from didact.trained.held_out import FidelityWarning, HeldOutAgreement, RankCorrelation, held_out_agreement
from didact.trained.signals.labelling import Labelling
from didact.trained.signals.ranking import Ranking
from didact.trained.train import train

WORDS = ("wonderful", "warm", "good", "dull", "worse", "avoid", "film", "plot", "acting", "the", "a", "with", "saw")
SMALL = {"width": 16, "blocks": 1, "min_count": 1}


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.permutation(WORDS)[: rng.integers(4, 10)]) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=("negative", "positive"))


@pytest.fixture(scope="module")
def good(model: Model) -> LearnedExplainer:
    return train("l2e", model, texts(150), Occlusion(), signal="labelling", epochs=20, learning_rate=5e-3, **SMALL)


@pytest.fixture(scope="module")
def bad(model: Model) -> LearnedExplainer:
    """It learned the reverse of its reference's scores."""
    labels = Occlusion().explain(model, texts(150))
    reverse = [dataclasses.replace(one, scores=tuple(-score for score in one.scores)) for one in labels[:-40]]
    with pytest.warns(FidelityWarning, match=r"occlusion, no better than chance: Spearman -0\.\d+ \["):
        return train(
            "l2e",
            model,
            [*reverse, *labels[-40:]],
            held_out=[one.example for one in labels[-40:]],
            signal="labelling",
            epochs=20,
            learning_rate=5e-3,
            **SMALL,
        )


def test_a_good_explainer_says_so_and_warns_nowhere(good: LearnedExplainer, model: Model, tmp_path: Path) -> None:
    assert good.caution == ""
    assert "This explainer follows its reference, occlusion: Spearman 0." in good.verdict
    assert "held-out texts" in good.verdict
    assert "chance 0" in good.verdict
    good.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = LearnedExplainer.from_pretrained(tmp_path, model=model)
    assert loaded.verdict == good.verdict
    assert loaded.explain(model, ["a dull film"])[0].warnings == ()
    assert good.verdict in (tmp_path / "README.md").read_text("utf-8")


def test_a_bad_explainer_is_warned_about_everywhere(bad: LearnedExplainer, model: Model, tmp_path: Path) -> None:
    assert "no better than chance" in bad.verdict
    bad.save_pretrained(tmp_path)
    assert bad.caution in (tmp_path / "README.md").read_text("utf-8")
    stored = json.loads((tmp_path / "config.json").read_text("utf-8"))["about"]["agreement"]["as_given"]
    assert stored["high"] < 0
    with pytest.warns(FidelityWarning, match="no better than chance"):
        loaded = LearnedExplainer.from_pretrained(tmp_path, model=model)
    (explanation,) = loaded.explain(model, ["a dull film"])
    assert explanation.warnings == (bad.caution,)
    assert "no better than chance" in " ".join(render([explanation], "txt").split())


def test_the_command_prints_the_verdict_and_what_the_threshold_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "l2e", "--reference", "gradient_x_input", "--limit", "60", "--epochs", "1", "--width", "16"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "its reference, gradient_x_input" in out
    assert "Spearman" in out
    assert SCOPE in out
    assert SCOPE in (tmp_path / "README.md").read_text("utf-8")


def test_the_sign_of_the_reference_counts(model: Model) -> None:
    explained = Occlusion().explain(model, ["good dull film plot"] * 20)
    reference = [dataclasses.replace(one, scores=(2.0, -3.0, 1.0, 0.0)) for one in explained]
    learned = [dataclasses.replace(one, scores=(2.0, 3.0, 1.0, 0.0)) for one in explained]
    of_sizes, signed = (held_out_agreement(learned, reference, signal) for signal in (Ranking(), Labelling()))
    # ranks 3, 4, 2, 1 against 4, 1, 3, 2: d = -1, 3, -1, -1, rho = 1 - 6 * 12 / (4 * 15) = -0.2
    assert of_sizes.as_given.mean == signed.as_given.mean == pytest.approx(-0.2)
    assert of_sizes.learned.mean == pytest.approx(1.0)
    assert (of_sizes.verdict, signed.verdict) == ("follows", "chance")
    assert "with the signed ones -0.20" in of_sizes.sentence("lime")


@pytest.mark.parametrize(
    ("mean", "low", "n", "verdict"),
    [
        (0.3, 0.1, 10, "follows"),
        (0.3, -0.1, 10, "chance"),
        (0.9, math.nan, 9, "unknown"),
        (math.nan, math.nan, 0, "unknown"),
    ],
)
def test_the_bar(mean: float, low: float, n: int, verdict: str) -> None:
    agreement = HeldOutAgreement(RankCorrelation(mean, low, mean, n, 2))
    assert agreement.verdict == verdict
    assert bool(agreement.caution("lime")) is (verdict != "follows")
    weakly = agreement.sentence("lime", kept=0.4)
    assert ("its reference, lime, weakly: Spearman" in weakly) is (verdict == "follows")
    assert ("it keeps 0.40 of what lime gains" in agreement.caution("lime", kept=0.4)) is (verdict == "follows")
    assert agreement.caution("lime", kept=0.5) == agreement.caution("lime")
    again = HeldOutAgreement.from_dict(json.loads(json.dumps(agreement.to_dict())))
    assert again.sentence("lime") == agreement.sentence("lime")


def test_a_damaged_agreement_is_refused() -> None:
    for data in ({}, {"as_given": None, "absolute": None}, {"as_given": {"mean": "x"}, "absolute": None}):
        with pytest.raises(FormatError):
            HeldOutAgreement.from_dict(data)
