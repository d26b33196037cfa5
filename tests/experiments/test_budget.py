"""Evaluations state their cost before they start, and fit into a time budget."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.cli import main
from didact.data.dataset import Dataset
from didact.data.load import load_data
from didact.errors import FormatError, ParameterError
from didact.experimenting import evaluate
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.budget import FEWEST, plan
from didact.experiments.grading.forecast import Forecast, PartCost, estimates, forecast
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import GradingExperiment, prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.grading.report import write_report
from didact.models.load import load_model
from didact.testing.tiny import keyword_predict, tiny_model
from didact.types import Floats

TEXTS = 40
SETTINGS = {"explainers": ["occlusion"], "metrics": ["comprehensiveness"], "nulls": []}


def slow_predict(texts: list[str]) -> Floats:
    """A millisecond per text, so that time goes where evaluations go."""
    time.sleep(0.001 * len(texts))
    return np.asarray(keyword_predict(texts))


def experiment(predict: object = keyword_predict, **settings: object) -> GradingExperiment:
    data = {"source": "corpus", "limit": TEXTS}
    recipe = GradingRecipe.from_dict({"name": "small", "data": data, **SETTINGS, **settings})
    return prepare(recipe, model=load_model(predict, labels=["negative", "positive"]))


def shorter(whole: GradingExperiment) -> Callable[[int], Dataset]:
    return lambda texts: load_data(**{**whole.recipe.data, "limit": texts})


def test_the_default_methods_are_a_few_of_different_families() -> None:
    bert = load_model(tiny_model("bert"))
    recipe = GradingRecipe.from_dict(
        {"name": "small", "data": {"source": "corpus", "limit": 2}, "explainers": "default"}
    )
    cards = [one.card for one in prepare(recipe, model=bert).explainers.values()]
    chosen = [card for card in cards if card.family != "control"]
    assert 5 <= len(chosen) <= 8
    assert len({card.family for card in chosen}) >= 5
    assert {card.name for card in cards} - {card.name for card in chosen} == {"random", "trivial"}
    assert {card.name for card in chosen} == {card.name for card in ATTRIBUTIONS.cards() if card.default}
    black_box = experiment(explainers="default").explainers
    assert {"occlusion", "kernel_shap"} <= set(black_box) <= {"random", "trivial", *ATTRIBUTIONS.names()}


class Clock:
    """A second for every thousand texts, and a little for every look at it: no machine's pause is in it."""

    def __init__(self) -> None:
        self.now = 0.0

    def predict(self, texts: list[str]) -> Floats:
        self.now += 0.001 * len(texts)
        return np.asarray(keyword_predict(texts))

    def read(self) -> float:
        self.now += 1e-5
        return self.now


def test_a_forecast_is_near_what_the_run_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock.read)
    whole = experiment(clock.predict)
    expected = forecast(whole)
    assert expected.timed == 3
    assert set(expected.methods) == {"occlusion", "random", "trivial"}
    began = clock.now
    run_job(GradingJob(whole, RunOptions(tmp_path / "run")))
    assert 0.8 < (clock.now - began) / expected.seconds < 1.25


def test_texts_are_cut_to_the_budget_and_a_cut_run_resumes_with_the_same(tmp_path: Path) -> None:
    whole = experiment(slow_predict)
    fits = plan(whole, None, tmp_path, shorter(whole))
    assert fits.experiment is whole
    assert f"1 method and 2 controls, 1 metric, {TEXTS} texts: about" in fits.sentences[0]
    cut = plan(whole, 1e-6, tmp_path, shorter(whole))
    assert len(cut.experiment.data) == FEWEST
    assert cut.experiment.data.examples == whole.data.examples[:FEWEST]
    assert f"{TEXTS} texts would take about" in cut.sentences[0]
    assert f"so {FEWEST} of them are evaluated" in cut.sentences[0]
    assert cut.experiment.recipe.cut_from == TEXTS
    run_job(GradingJob(cut.experiment, RunOptions(tmp_path / "run")))
    write_report(tmp_path / "run")
    for name in ("report.html", "report.md"):
        written = (tmp_path / "run" / name).read_text(encoding="utf-8")
        assert written.count(f"{FEWEST} of {TEXTS} texts") == 2, name
        assert "as many as fitted into the time budget" in written, name
    again = plan(whole, 60.0, tmp_path / "run", shorter(whole))  # a machine that is faster now
    assert again.sentences == (f"Resumes on {FEWEST} of {TEXTS} texts.",)
    assert run_job(GradingJob(again.experiment, RunOptions(tmp_path / "run"))).complete


def test_another_recipe_is_not_resumed(tmp_path: Path) -> None:
    whole = experiment()
    cut = plan(whole, 1e-6, tmp_path, shorter(whole)).experiment
    GradingJob(cut, RunOptions(tmp_path)).begin()
    other = experiment(metrics=["sufficiency"])
    assert len(plan(other, None, tmp_path, shorter(other)).experiment.data) == TEXTS


def test_the_sum_of_a_dry_run_has_all_parts() -> None:
    *rows, total = estimates(experiment())
    assert [row.method for row in rows] == ["occlusion", "random", "trivial", "metric comprehensiveness"]
    assert total.method == "total"
    assert total.forwards == sum(row.forwards for row in rows) > 0
    assert total.seconds >= sum(row.seconds for row in rows)


def test_a_forecast_names_the_slowest_parts() -> None:
    methods = {"lime": PartCost(2.0, 5), "random": PartCost(0.1)}
    known = Forecast(10, 1, methods, {"seconds": PartCost(), "sufficiency": PartCost(0.5)})
    assert known.slowest(2) == [("lime", 20.0), ("sufficiency", 5.0)]
    assert known.on(20).seconds == 2 * known.seconds
    assert known.evaluations == 50


def test_the_command_states_the_cost_and_takes_aliases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", "--limit", "3", "--methods", "loo,gxi", "--metrics", "deletion_auc", "--no-nulls"]
    assert main([*given, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert "didact: 2 methods and 2 controls, 1 metric, 3 texts: about" in printed.err
    assert "budget 5 min" in printed.err
    assert "gradient_x_input" in printed.out


@pytest.mark.parametrize("minutes", [0.0, -1.0])
def test_a_budget_is_above_zero(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="minutes must be above 0"):
        evaluate(["A fine film."] * 2, limit=1, minutes=minutes, out=tmp_path / "run", progress=False)


def test_one_method_by_two_names_is_refused() -> None:
    with pytest.raises(FormatError, match="two entries are called 'integrated_gradients'"):
        prepare(
            GradingRecipe.from_dict({**SETTINGS, "name": "small", "explainers": ["ig", "integrated_gradients"]}),
            model=load_model(tiny_model("bert")),
        )
