"""Training for a metric: in Python, from the command line, and with metrics that have no value."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import didact
from didact.cli import main
from didact.data.corpus import generate
from didact.errors import ParameterError
from didact.experiments.masking.judges import judge
from didact.experiments.masking.search import JOURNAL
from didact.experiments.masking.tuning import TrainingTrial, TuningConfig, TuningTask, tunable, tune
from didact.models.load import load_model
from didact.protocols import Model
from didact.trained.explainer import LearnedExplainer
from didact.trained.judging import Judge
from didact.trained.presets.aml import AML
from didact.trained.presets.base import TrainingInput
from didact.trained.signals.mask import MaskSignal
from didact.types import Explanation, Floats

pytestmark = pytest.mark.filterwarnings("ignore::didact.trained.held_out.FidelityWarning")  # few texts and epochs


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("default", device="cpu")


def task(model: Model, by: Judge) -> TuningTask:
    texts = generate(8, seed=5)
    return TuningTask("aml", {"epochs": 1}, lambda: model, by, texts[:5], texts[5:])


def test_a_trial_is_worth_the_mean_of_the_explanations_that_its_weights_give(model: Model) -> None:
    given, weights = task(model, judge("comp")), {"preserve": 0.5, "sparse": 0.1, "destroy": 0.9}
    explainer = AML.configured(epochs=1, **weights).train(
        TrainingInput(model=model, examples=given.train, validation=given.validation, held_out=0.0, judge=given.judge)
    )
    wanted = judge("comp").mean(model, explainer.explain(model, given.validation))
    assert TrainingTrial(given)(weights) == wanted


def test_marks_are_as_large_as_those_of_the_metric(model: Model, tmp_path: Path) -> None:
    given = task(model, judge("aopc_comp"))
    explainer = AML.configured(epochs=1, masking="top").train(
        TrainingInput(model=model, examples=given.train, validation=given.validation, held_out=0.0, judge=given.judge)
    )
    explainer.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model)
    assert cast("MaskSignal", loaded.signal).shares == pytest.approx((0.01, 0.05, 0.1, 0.2, 0.5))


def test_a_metric_without_a_value_fails_its_trial_with_the_reason(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    comp, seen = judge("comp"), [0]

    def sometimes(explained: Model, explanations: Sequence[Explanation]) -> Floats:
        seen[0] += 1
        grades = comp.grades(explained, explanations)
        return np.full_like(grades, np.nan) if seen[0] == 1 else grades

    result = tune(task(model, Judge("sometimes", False, sometimes)), TuningConfig(trials=2, epochs=1), tmp_path)
    assert len(result.search.trials) == 2
    (failed,) = result.search.failed
    assert failed.number == 0
    assert failed.failure.startswith("ParameterError: sometimes is defined on none of the 3 validation texts")
    assert result.best.number == 1


def test_the_best_trials_are_trained_in_full_once_and_the_best_of_these_is_taken(model: Model, tmp_path: Path) -> None:
    """The judge prefers what was trained for an epoch while it searches, and the other trial in the full trainings."""
    pytest.importorskip("optuna")
    calls: list[float] = []

    def graded(explained: Model, explanations: Sequence[Explanation]) -> Floats:
        calls.append([0.9, 0.9, 0.1, 0.1, 0.2, 0.2, 0.8, 0.8][len(calls)])  # an epoch, and the value of the trial
        return np.full(len(explanations), calls[-1])

    given, config = task(model, Judge("turning", False, graded)), TuningConfig(trials=2, epochs=1, finalists=2)
    result = tune(given, config, tmp_path)
    assert [trial.value for trial in result.search.ranked] == pytest.approx([0.9, 0.1])
    assert result.finals == {0: pytest.approx(0.2), 1: pytest.approx(0.8)}
    assert result.best.number == 1
    assert tune(given, config, tmp_path) == result
    assert len(calls) == 8


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("optuna")
    folder = tmp_path_factory.mktemp("aml") / "out"
    options = ["--metric", "comp", "--trials", "1", "--limit", "16", "--epochs", "1", "--device", "cpu"]
    assert main(["train", "aml", *options, "--out", str(folder)]) == 0
    return folder


def test_the_command_searches_trains_and_saves(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (out / "search" / JOURNAL).is_file()
    assert main(["explain", "A warm and funny film.", "--explainer", str(out), "--device", "cpu"]) == 0
    assert "funny" in capsys.readouterr().out


def test_python_in_one_call_uses_the_trials_of_the_command(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same texts, model and settings: the trial is in the journal, so no trial is trained again."""
    calls: list[object] = []
    monkeypatch.setattr(TrainingTrial, "__call__", lambda self, tried: calls.append(tried))
    model = load_model("default", device="cpu")
    didact.train("aml", generate(16), model, metric="comp", trials=1, epochs=1, out=out, progress=False)
    assert calls == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["aml", "--trials", "3"], "--trials and --metric-set go with --metric NAME"),
        (["aml", "--metric", "comp", "--trials", "-1"], "--trials must not be negative"),
        (["aml", "--metric", "seed_stability"], "seed_stability cannot choose between explanations of one text"),
        (["aml", "--metric", "comprehensivness"], "comprehensiveness"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *arguments, "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_a_dry_run_of_training_tells_passes_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--metric", "comp", "--trials", "30", "--limit", "20", "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(["train", "aml", "--dry-run", *options]) == 0
    rows = {line.split()[0]: line.replace(",", "").split() for line in capsys.readouterr().out.splitlines() if line}
    train, validation = 14, 3  # of 20 texts
    assert rows["training"][3:5] == [str(train * 21 + validation * (1 + 3 * 10)), str(train * 20)]
    assert rows["search"][3:5] == [str(30 * (train * 5 + validation * (1 + 3 * 2))), str(30 * train * 4)]
    assert rows["finalists"][3:5] == [str(3 * int(number)) for number in rows["training"][3:5]]
    assert not (tmp_path / "out" / "config.json").exists()


def test_what_is_not_trained_for_a_metric_is_refused(model: Model) -> None:
    with pytest.raises(ParameterError, match=r"l2e is not trained for a metric: .* aml can be"):
        tunable("l2e")
    with pytest.raises(ParameterError, match="l2e is not trained for a metric, only aml"):
        didact.train("l2e", generate(20), model, "occlusion", metric="comp", progress=False)
    with pytest.raises(ParameterError, match="trials=3 search weights by a metric, and none is given"):
        didact.train("aml", generate(20), model, trials=3, progress=False)
    given = {"preserve": 1.0, "sparse": 1.0, "destroy": 1.0}
    with pytest.raises(ParameterError, match="all weights of aml are given"):
        didact.train("aml", generate(20), model, metric="comp", trials=3, progress=False, **given)  # type: ignore[arg-type]


def test_a_setting_of_the_search_out_of_range_is_named() -> None:
    with pytest.raises(ParameterError, match="trials of the search must be at least 1"):
        TuningConfig(trials=0)
