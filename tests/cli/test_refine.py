"""``didact explain --explainer DIR --refine`` and ``didact.refined`` as a user meets them."""

import json
from typing import Any

import pytest

import didact
from didact.cli import main
from didact.errors import DidactError
from didact.models.load import load_model
from didact.render.jsonio import load
from didact.testing.tiny import TEXTS, tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.probe import Probe
from didact.trained.signals.mask import MaskSignal
from didact.types import Example

RATE = ("--refine-set", "learning_rate=0.05")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    for part in tiny_model("bert"):
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def saved(network: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    model, folder = load_model(network, device="cpu"), tmp_path_factory.mktemp("explainer")
    shape = Probe.build(model, model.units([Example(text) for text in TEXTS]), 1, {"width": 16})
    LearnedExplainer(shape, MaskSignal(), ExplainerMetadata.of(model, method="aml")).save_pretrained(folder)
    return str(folder)


def run(*arguments: str) -> int:
    return main(["explain", *arguments])


def test_refined_by_a_metric(network: str, saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = (TEXTS[1], "--model", network, "--explainer", saved, "--format", "json")
    assert run(*given, "--refine", "4", "--refine-by", "comprehensiveness", *RATE) == 0
    (one,) = load(capsys.readouterr().out)
    assert one.method == "aml_refined"
    assert one.details["steps"] == 4
    assert one.details["comprehensiveness, chosen"] >= one.details["comprehensiveness, unrefined"]
    assert any("Selected on this text by comprehensiveness" in line for line in one.warnings)
    assert run(*given, "--refine-seconds", "0.001") == 0
    (one,) = load(capsys.readouterr().out)
    assert one.details["steps"] == 1
    assert "loss of mask, chosen" in one.details


def test_a_dry_run_has_the_passes_of_steps_and_judge(
    network: str, saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refining = ("--refine", "7", "--refine-by", "aopc_comp")
    given = (TEXTS[1], "--model", network, "--explainer", saved, *refining, "--format", "json")
    assert run(*given, "--dry-run") == 0
    (estimate,) = json.loads(capsys.readouterr().out)
    assert run(*given) == 0
    (one,) = load(capsys.readouterr().out)
    assert (estimate["forwards"], estimate["backwards"]) == (one.cost.forwards, one.cost.backwards)
    assert one.cost.backwards == 14
    assert estimate["memory"] > 0


def test_the_terminal_shows_how_it_was_chosen(network: str, saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TEXTS[0], "--model", network, "--explainer", saved, "--refine", "1") == 0
    assert "Selected on this text by loss of mask, out of 2 maps" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--refine", "0"], "steps of refinement must be at least 1, got 0"),
        (["--refine", "3", "--refine-by", "comprehensivness"], "did you mean comprehensiveness"),
        (["--refine", "3", "--refine-by", "stability"], "unknown metric"),
        (["--refine", "3", "--refine-set", "rang=2"], "did you mean rank"),
        (["--refine", "3", "--refine-set", "rank=two"], "rank of refinement must be"),
        (["--refine-seconds", "-1"], "seconds of refinement must be above 0"),
        (["--refine", "3", "--fallback", "lime"], "give --fallback or --refine, not both"),
    ],
)
def test_a_mistake_is_one_line(
    network: str, saved: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(TEXTS[0], "--model", network, "--explainer", saved, *arguments) == 2
    shown = capsys.readouterr().err.strip()
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_refinement_goes_with_a_learned_explainer(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TEXTS[0], "--model", network, "--refine", "3") == 2
    assert "go with --explainer DIR" in capsys.readouterr().err


def test_from_python(network: str, saved: str) -> None:
    precise = didact.refined(saved, "sufficiency", steps=2, rank=1)
    (one, other) = didact.explain([TEXTS[0], TEXTS[1]], network, precise)
    assert one.parameters["rank"] == other.parameters["rank"] == 1
    assert one.parameters["chosen_by"] == "sufficiency"


@pytest.mark.parametrize(
    "given", [{"metric": "no such metric"}, {"steps": "ten"}, {"explainer": "/nowhere/at/all"}, {"metric": 3}]
)
def test_mistakes_in_python(saved: str, given: dict[str, Any]) -> None:
    with pytest.raises(DidactError):
        didact.refined(given.pop("explainer", saved), given.pop("metric", None), **given)
