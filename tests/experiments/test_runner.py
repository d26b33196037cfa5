"""The runner: what it writes, what it does not do twice, and what a kill leaves behind."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pytest

from didact.data.load import load_data
from didact.errors import CapabilityError, InputError, ParameterError
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import GradingExperiment, prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.grading.report import write_report
from didact.meter import metered
from didact.models.load import load_model
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.testing.tiny import keyword_predict, tiny_model

RECIPE = GradingRecipe.from_dict(
    {
        "name": "small",
        "data": {"source": "corpus", "limit": 6},
        "explainers": ["occlusion", {"method": "lime", "label": "few", "samples": 30}],
        "metrics": ["comprehensiveness", "rationale_auc", "top_k_agreement", "forwards", "seconds", "seed_stability"],
        "seeds": [0, 1],
        "chunk": 4,
    }
)


def run(experiment: GradingExperiment, out: Path, *, store: Path | None = None, command: str = "") -> Path:
    return run_job(GradingJob(experiment, RunOptions(out, store, command=command))).folder


@pytest.fixture(scope="module")
def experiment() -> GradingExperiment:
    return prepare(RECIPE, model=load_model(tiny_model("bert")))


@pytest.fixture(scope="module")
def folder(experiment: GradingExperiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(experiment, tmp_path_factory.mktemp("run"), command="test")


def test_every_explainer_is_graded_by_every_metric_that_applies(folder: Path) -> None:
    records = record_store.from_table(record_store.read(folder / "records.parquet"))
    values = [record for record in records if record.part == "" and record.null == ""]
    found = {(record.explainer, record.seed, record.metric) for record in values}
    labels = {"occlusion": (0,), "few": (0, 1), "random": (0, 1), "trivial": (0,)}
    wanted = {
        (label, seed, metric)
        for label, seeds in labels.items()
        for seed in seeds
        for metric in ("comprehensiveness", "rationale_auc", "top_k_agreement", "forwards")
    } | {(label, seed, "seed_stability") for label in ("few", "random") for seed in (0, 1)}
    assert found == wanted
    assert len(values) == 6 * len(wanted)
    assert {record.method for record in records if record.explainer == "few"} == {"lime"}


def test_times_are_kept_apart(folder: Path) -> None:
    lasting, timed = (record_store.read(folder / f"{name}.parquet") for name in ("records", "timings"))
    assert "seconds" not in pc.unique(lasting["metric"]).to_pylist()
    assert pc.unique(timed["metric"]).to_pylist() == ["seconds"]


def test_broken_copies_are_graded_beside_real_explanations(folder: Path) -> None:
    records = record_store.from_table(record_store.read(folder / "records.parquet"))
    nulls = {(record.explainer, record.seed, record.metric, record.null) for record in records if record.null}
    assert nulls == {
        (label, 0, metric, null)
        for label in ("occlusion", "few")
        for metric, null in (
            ("comprehensiveness", "shuffle"),
            ("rationale_auc", "shuffle"),
        )
    }


def test_all_explanations_and_where_they_came_from_are_kept(folder: Path, experiment: GradingExperiment) -> None:
    table = explanation_store.read(folder / "explanations.parquet")
    assert table.num_rows == 6 * 6
    found = explanation_store.from_table(table.filter(pc.equal(table["explainer"], "few")))
    assert [one.method for one in found] == ["lime"] * 12
    assert [one.example for one in found[:6]] == list(experiment.data.examples)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model"]["fingerprint"] == experiment.model.fingerprint()
    assert manifest["explainers"]["few"]["parameters"]["samples"] == 30
    assert manifest["data"]["examples"] == 6
    assert GradingRecipe.from_toml(folder / "recipe.toml") == RECIPE


def test_what_is_stored_is_not_computed_again(folder: Path, experiment: GradingExperiment, tmp_path: Path) -> None:
    with metered() as meter:
        again = run(experiment, tmp_path, store=folder / "parts", command="test")
    assert meter.forwards == 0
    for name in ("records", "timings", "explanations"):
        assert (again / f"{name}.parquet").read_bytes() == (folder / f"{name}.parquet").read_bytes()


def test_another_explainer_costs_its_own_evaluations_only(
    folder: Path, experiment: GradingExperiment, tmp_path: Path
) -> None:
    recipe = GradingRecipe.from_dict(
        {**RECIPE.to_dict(), "explainers": ["occlusion", "attention"], "metrics": ["forwards"]}
    )
    more = prepare(recipe, model=experiment.model)
    with metered() as meter:
        run(more, tmp_path, store=folder / "parts")
    assert meter.forwards == 2 * 6  # attention: the prediction and the observed pass of each text


def test_another_model_or_text_shares_nothing(folder: Path, experiment: GradingExperiment, tmp_path: Path) -> None:
    other = prepare(RECIPE, model=load_model(tiny_model("bert", seed=1)))
    with metered() as meter:
        run(other, tmp_path / "model", store=folder / "parts")
    assert meter.forwards > 0
    texts = load_data([dataclasses.replace(one, fields=(one.text + " Really.",)) for one in experiment.data.examples])
    with metered() as meter:
        run(prepare(RECIPE, model=experiment.model, data=texts), tmp_path / "data", store=folder / "parts")
    assert meter.forwards > 0


def test_what_cannot_be_run_is_refused_before_any_work() -> None:
    model = load_model(tiny_model("bert"))
    plain = load_data(["a text without a rationale"])
    for changes, error, message in (
        ({"metrics": ["rationale_auc"]}, InputError, "rationale_auc needs human rationales"),
        ({"explainers": ["human"]}, InputError, "human needs human rationales"),
        ({"metrics": ["seed_stability"], "seeds": [0]}, ParameterError, "at least two"),
        ({"explainers": [{"method": "lime", "sampels": 3}]}, ParameterError, "did you mean samples"),
    ):
        with pytest.raises(error, match=message):
            prepare(GradingRecipe.from_dict({"metrics": ["forwards"], **changes}), model=model, data=plain)
    box = load_model(keyword_predict)
    attention = GradingRecipe.from_dict({"explainers": ["attention"], "metrics": ["forwards"]})
    with pytest.raises(CapabilityError, match="attention needs a model"):
        prepare(attention, model=box, data=plain)


KILLED = """
name = "killed"
chunk = 2
explainers = ["occlusion", "random", { method = "lime", samples = 100 }]
metrics = ["comprehensiveness", "deletion_area", "rationale_auc", "top_k_agreement"]
[data]
source = "corpus"
limit = 6
"""


def _finished(parts: Path) -> int:
    """How many parts there are; none where a run that begins has just tried whether the folder can be made."""
    return sum(name.endswith(".parquet") for _, _, names in os.walk(parts) for name in names)


def test_a_run_killed_three_times_gives_the_same_bytes(tmp_path: Path) -> None:
    recipe = tmp_path / "killed.toml"
    recipe.write_text(KILLED, encoding="utf-8")
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}  # sums depend on how many there are; here there is one
    whole = run(prepare(GradingRecipe.from_toml(recipe)), tmp_path / "whole")
    total = len(list((whole / "parts").rglob("*.parquet")))
    folder = tmp_path / "broken"
    command = [sys.executable, "-m", "didact", "run", str(recipe), "--out", str(folder)]
    for moment in sorted(random.Random(5).sample(range(1, total - 1), 3)):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=threads)
        while _finished(folder / "parts") < moment and child.poll() is None:
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        errors = child.communicate()[1]
        assert child.returncode == -signal.SIGKILL, errors.decode()
        assert not (folder / "records.parquet").exists()
    run(prepare(GradingRecipe.from_toml(recipe)), folder)
    assert (folder / "records.parquet").read_bytes() == (whole / "records.parquet").read_bytes()


def test_a_run_that_is_out_of_time_reports_what_is_graded_on_all_examples(
    experiment: GradingExperiment, tmp_path: Path
) -> None:
    job = GradingJob(experiment, RunOptions(tmp_path))
    job.begin()
    done = []
    for planned in job.rounds():
        for step in planned.steps:
            job.do(step)
            done.append(step)
    lost = next(step for step in done if step.name.startswith("grade/comprehensiveness/occlusion/0/whole"))
    (job.parts.root / lost.key[:2] / f"{lost.key}.parquet").unlink()
    job.finish(complete=False)
    rows = record_store.from_table(record_store.read(tmp_path / "records.parquet"))
    graded = {(row.explainer, row.metric) for row in rows if not row.null}
    assert ("occlusion", "comprehensiveness") not in graded
    assert {("occlusion", "rationale_auc"), ("few", "comprehensiveness")} <= graded
    assert any(path.name == "report.html" for path in write_report(tmp_path))
