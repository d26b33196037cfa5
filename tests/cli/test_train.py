"""``didact train`` and ``didact explain --explainer`` as a user meets them."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.attribution.occlusion import Occlusion
from didact.cli import main, parser
from didact.data.corpus import generate
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.models.load import load_model
from didact.protocols import Evidence
from didact.render.jsonio import load
from didact.testing.tiny import tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, ExplainerPreset, PresetCard, TrainingInput, settings_of

pytestmark = pytest.mark.filterwarnings("ignore::didact.trained.held_out.FidelityWarning")  # few texts and epochs
QUICK = ("--reference", "occlusion", "--epochs", "2", "--width", "8")


def run(*arguments: str) -> int:
    return main(list(arguments))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    for part in tiny_model("bert"):
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "texts.jsonl"
    rows = [json.dumps({"text": example.text, "label": example.label}) for example in generate(100, seed=1)]
    path.write_text("\n".join(rows))
    return str(path)


@pytest.fixture(scope="module")
def out(network: str, texts: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("out") / "l2e"
    assert run("train", "l2e", "--model", network, "--data", texts, *QUICK, "--out", str(folder)) == 0
    return str(folder)


def test_a_probe_learns_from_coalitions_unless_a_reference_is_named(
    network: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("train", "probe", "--model", network, "--data", texts, "--epochs", "1", "--width", "8", "--rank", "4")
    assert run(*given, "--pairs", "2", "--rounds", "1", "--out", str(tmp_path / "own")) == 0, capsys.readouterr().err
    assert LearnedExplainer.from_pretrained(tmp_path / "own").signal.card.name == "ablate"
    assert run(*given, "--reference", "occlusion", "--out", str(tmp_path / "reference")) == 0
    assert LearnedExplainer.from_pretrained(tmp_path / "reference").signal.card.name == "regression"


def test_it_prints_fidelity_and_the_folder_last(
    network: str, texts: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = LearnedExplainer.from_pretrained(out).parameters["weights"]
    # the same command again finds labels and checkpoints, and ends with the same explainer
    assert run("train", "l2e", "--model", network, "--data", texts, *QUICK, "--out", out) == 0
    shown = capsys.readouterr().out
    assert "spearman" in shown
    assert "top-k IoU" in shown
    assert shown.strip().splitlines()[-1] == out
    assert LearnedExplainer.from_pretrained(out).parameters["weights"] == weights
    assert (Path(out) / "README.md").is_file()
    assert len(list((Path(out) / "parts").rglob("*.parquet"))) == 6  # 100 texts in parts of 32; altered ones


def test_explaining_with_it(network: str, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("explain", "a warm film", "--model", network, "--explainer", out, "--format", "json")
    assert run(*given) == 0
    (found,) = load(capsys.readouterr().out)
    assert found.method == "l2e"
    assert 0 <= found.details["disagreement"] <= 2
    assert run(*given, "--fallback", "occlusion", "--disagreement-above", "-1") == 0
    (slow,) = load(capsys.readouterr().out)
    assert slow.method == "occlusion"
    assert slow.details["disagreement"] == found.details["disagreement"]
    assert run(*given, "--fallback", "occlusion", "--disagreement-above", "2") == 0
    assert load(capsys.readouterr().out)[0].scores == found.scores


def test_labels_from_a_file(network: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load_model(network)
    lines = [json.loads(line)["text"] for line in Path(texts).read_text().splitlines()[:20]]
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(one.to_json() for one in Occlusion().explain(model, lines)))
    given = ("train", "l2e", "--model", network, "--labels", str(path), "--out", str(tmp_path / "out"))
    assert run(*given, "--epochs", "1", "--width", "8") == 0
    assert LearnedExplainer.from_pretrained(tmp_path / "out").about.reference == "occlusion"
    path.write_text(path.read_text() + '\n{"text": "good film", "scores": [NaN, 1]}')
    capsys.readouterr()
    assert run(*given) == 2
    assert "labels.jsonl, line 21: 'scores' must be a list of finite numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "l2e", "--reference", "lyme"], "unknown method 'lyme' (did you mean lime?)"),
        (["train", "l2e", "--reference", "lime,occlusion", "--set", "samples=3"], "such as lime.seed=1; got 'samples'"),
        (["train", "l2e", "--reference", "lime,occlusion", "--set", "lrp.level=word"], "the references are lime, occl"),
        (["train", "l2e", "--reference", "lime,occlusion", "--set", "lime.level=page"], "unknown level 'page'"),
        (["train", "l2e", "--reference", "lime", "--set", "level=page"], "unknown level 'page'"),
        (["train", "l2e", "--set", "samples=1"], "samples of lime must be at least 2"),
        (["train", "l2e", "--labels", "x.jsonl", "--reference", "lime"], "do not go with it"),
        (["train", "l2e", "--labels", "x.jsonl"], "there is no file x.jsonl"),
        (["train", "l2e", "--data", "missing.jsonl"], "there is no file missing.jsonl"),
        (["train", "l2e", "--limit", "0"], "limit must be a whole number"),
        (["train", "l2e", "--width", "6", "--limit", "9", "--reference", "random"], "a multiple of its 4 heads"),
        (["explain", "good film", "--fallback", "lime"], "go with --explainer"),
        (["explain", "good film", "--explainer", ".", "--method", "lime"], "not both"),
        (["explain", "good film", "--explainer", ".", "--set", "samples=3"], "name a --fallback"),
        (["explain", "good film", "--explainer", "."], "holds no explainer"),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_another_model_is_refused(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "good film", "--explainer", out) == 2
    assert "this explainer was trained for" in capsys.readouterr().err


def test_the_embedded_models_explainer_finds_planted_words(tmp_path: Path) -> None:
    settings = {"shape": "scorer", "width": 32, "learning_rate": 2e-3, "choose": "loss"}
    explainer = didact.train("l2e", generate(100), reference="occlusion", out=tmp_path, **settings)
    found = didact.explain(generate(30, seed=5), method=explainer, progress=False)
    grades = [grade.value for grade in RationaleAuc().measure(Evidence(found))]
    assert np.nanmean(grades) > 0.8  # NaN where the model does not predict the planted label
    loaded = LearnedExplainer.from_pretrained(tmp_path)
    assert loaded.parameters == explainer.parameters


@pytest.mark.parametrize("preset", PRESETS.names())
def test_every_setting_of_a_preset_is_an_option_with_help(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run("train", preset, "--help")
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for setting in settings_of(PRESETS.get(preset)):
        assert f"--{setting.name.replace('_', '-')}" in shown
        assert setting.help in shown
    assert PRESETS.card(preset).examples[0] in shown


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("train", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    for card in PRESETS.cards():
        assert f"{card.name} {card.summary}" in shown
    assert run("list", "signals", "--format", "json") == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} >= {"ranking", "labelling", "regression"}


def test_options_reach_the_training(network: str, texts: str, tmp_path: Path) -> None:
    options = ["--signal", "labelling", "--signal-settings", "classes=3", "--signal-settings", "reduce=mean"]
    options += ["--fit", "batch_rows=8", "--dropout", "0.25", "--positions", "learned", "--window", "3"]
    given = ("train", "l2e", "--model", network, "--data", texts, *QUICK, *options, "--limit", "20")
    assert run(*given, "--out", str(tmp_path)) == 0
    explainer = LearnedExplainer.from_pretrained(tmp_path)
    assert explainer.signal.parameters == {"classes": 3, "reduce": "mean"}
    settings = explainer.shape.settings
    assert [settings[name] for name in ("dropout", "positions", "window")] == [0.25, "learned", 3]


@dataclass(frozen=True, kw_only=True)
class Undescribed(ExplainerPreset):
    """Has a setting that its docstring does not describe."""

    card = PresetCard("undescribed", "test", "None.", "none", "scorer", ("ranking",))
    size: int = 3

    def train(self, given: TrainingInput) -> LearnedExplainer:
        raise NotImplementedError


def test_a_setting_without_a_description_is_refused() -> None:
    with pytest.raises(ValueError, match="undescribed does not describe its setting 'size'"):
        settings_of(Undescribed)


def test_the_signal_is_also_called_loss() -> None:
    options = parser().parse_args(["train", "l2e", "--loss", "ranking", "--loss-settings", "by=signed"])
    assert (options.signal, options.signal_settings) == ("ranking", ["by=signed"])
