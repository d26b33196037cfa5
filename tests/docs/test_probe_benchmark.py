"""A record of probes may keep the rows of static methods of an earlier one that is of the same model and texts."""

import json
import sys
from pathlib import Path
from typing import cast

import pyarrow.compute as pc
import pytest

from benchmarks import probe
from didact.experiments.engine.naming import example_names
from didact.experiments.masking.judges import panel
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.store import records
from didact.types import Example
from tests.docs.test_docs import REPO

RESULTS = REPO / "docs" / "results"
LOWER = [judge.name for judge in panel() if judge.lower_is_better]


class Named:
    """As much of a model as a record says of it."""

    name = "tiny"

    def fingerprint(self) -> str:
        return "0123"


def run_of(
    monkeypatch: pytest.MonkeyPatch,
    out: Path,
    *options: str,
    model: NetworkModel | None = None,
    part: str = "quality",
) -> probe.Run:
    """A run of a part that has these options."""
    monkeypatch.setattr(sys, "argv", ["probe", part, "--model", "tiny", "--out", str(out), *options])
    return probe.Run(probe._options().parse_args(), model or cast("NetworkModel", Named()))


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A record of a run before, with rows of two static methods and of a probe."""
    run = run_of(monkeypatch, tmp_path, "--name", "earlier", "--test", "40", "--train", "100")
    for name in ("deeplift", "random", "probe"):
        run.add({"name": name, "seconds": 1.0})
    return run.place


def test_rows_of_static_methods_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, earlier: Path) -> None:
    other = ("--test", "40", "--train", "900", "--set", 'signal="erasure"', "--half")
    run = run_of(monkeypatch, tmp_path, "--beside", str(earlier), *other)
    assert [row["name"] for row in run.record["rows"]] == ["deeplift", "random"]  # the training has no part in these
    assert not run.done("probe")
    assert run_of(monkeypatch, tmp_path, *other).record["rows"] == []
    few = run_of(monkeypatch, tmp_path, "--beside", str(earlier), *other, "--only", "probe", "random")
    assert [row["name"] for row in few.record["rows"]] == ["random"]


def test_the_command_of_a_record_names_what_decided_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, earlier: Path
) -> None:
    run = run_of(monkeypatch, tmp_path, "--beside", str(earlier), "--test", "40", "--half")
    assert f" --beside {earlier} " in run.record["command"]
    assert " --half " in run.record["command"]
    run.add({"name": "probe"})
    again = run_of(monkeypatch, tmp_path, "--beside", str(earlier), "--test", "40", "--half")
    assert [row["name"] for row in again.record["rows"]] == ["deeplift", "random", "probe"]  # nothing is kept twice
    full = run_of(monkeypatch, tmp_path, "--beside", str(earlier), "--test", "40")
    assert "--half" not in full.record["command"]
    assert not full.done("probe")


@pytest.mark.parametrize(
    "options", [("--test", "4"), ("--test", "40", "--seed", "1"), ("--test", "40", "--truth", "15")]
)
def test_a_record_of_other_texts_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, earlier: Path, options: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match=r"quality-earlier\.json is of another model or other texts"):
        run_of(monkeypatch, tmp_path, "--beside", str(earlier), *options)


@pytest.mark.parametrize("name", ["fingerprint", "data", "lower"])
def test_a_record_of_another_model_or_data_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, earlier: Path, name: str
) -> None:
    known = json.loads(earlier.read_text(encoding="utf-8"))
    assert known["lower"] == LOWER
    earlier.write_text(json.dumps(known | {name: "another"}), encoding="utf-8")
    with pytest.raises(SystemExit, match="is of another model or other texts"):
        run_of(monkeypatch, tmp_path, "--beside", str(earlier), "--test", "40")


def test_references_of_a_study_have_the_rows_that_a_record_of_their_own_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: Path
) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    study = RESULTS / "l2e" / "default-sst2"
    options = ["--data", "sst2", "--beside", str(study)]
    model = cast("NetworkModel", load_model(str(shared / "weights" / "minilm-sst2"), device="cpu", max_truncated=1.0))
    rows = {row["name"]: row for row in run_of(monkeypatch, tmp_path, *options, model=model).record["rows"]}
    known = json.loads((RESULTS / "probe" / "quality-sst2.json").read_text(encoding="utf-8"))["rows"]
    assert rows.pop("random")["metrics"]["comprehensiveness"]["n"] == 1821
    assert set(rows) == {"kernel_shap 500", "lime 1000"}
    for name, row in rows.items():
        (own,) = (one["metrics"] for one in known if one["name"] == name)
        assert row["metrics"].keys() == own.keys()
        for metric, measured in row["metrics"].items():
            assert measured["n"] == own[metric]["n"] == 1821
            assert measured["mean"] == pytest.approx(own[metric]["mean"], abs=1e-5)
    with pytest.raises(SystemExit, match="default-sst2 is of another model or other texts"):
        run_of(monkeypatch, tmp_path, *options, "--test", "900", model=model)
    with pytest.raises(SystemExit, match="default-ag_news is of another model or other texts"):
        run_of(monkeypatch, tmp_path, *options[:-1], str(study.parent / "default-ag_news"), model=model)


def test_the_network_of_a_study_stands_beside_a_probe_text_by_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: Path
) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    study = RESULTS / "l2e" / "command-sst2"
    options = ["--data", "sst2", "--beside", str(study), "--only", "l2e", "random"]
    model = cast("NetworkModel", load_model(str(shared / "weights" / "minilm-sst2"), device="cpu", max_truncated=1.0))
    run = run_of(monkeypatch, tmp_path, *options, model=model)
    rows = {row["name"]: row for row in run.record["rows"]}
    assert set(rows) == {"l2e", "random"}
    table = records.read(study / "records.parquet")
    names = example_names(run.tested())
    for metric in ("comprehensiveness", "deletion_area"):
        chosen = table.filter((pc.field("metric") == metric) & (pc.field("explainer") == "l2e_model combined(both)"))
        known = dict(zip(chosen["example"].to_pylist(), chosen["value"].to_pylist(), strict=True))
        assert rows["l2e"]["values"][metric] == pytest.approx([known[name] for name in names], abs=1e-5)
    saved = run_of(monkeypatch, tmp_path / "saved", *options, "--explainer", "runs/l2e", model=model)
    assert [row["name"] for row in saved.record["rows"]] == ["random"]  # the saved one is to be graded as l2e
    several = str(study.parent / "sst2")
    with pytest.raises(SystemExit, match="sst2 has not one network but"):
        run_of(monkeypatch, tmp_path, *options[:3], several, *options[4:], model=model)


def test_a_text_that_stands_twice_is_graded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = run_of(monkeypatch, tmp_path)
    first, second = Example("A warm film."), Example("Dull, all of it.")
    monkeypatch.setattr(run, "texts", lambda *_: [first, second, Example(first.text, id="again")])
    assert run.tested() == [first, second]


def test_a_probe_of_all_texts_stands_beside_what_was_measured_on_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second, third = (Example(text) for text in ("A warm film.", "Dull, all of it.", "Not bad."))
    whole = run_of(monkeypatch, tmp_path, "--name", "all")
    whole.add({"name": "probe", "values": {"comprehensiveness": [0.1, 0.2, None]}})
    run = run_of(monkeypatch, tmp_path, "--test", "3", "--of", str(whole.place), part="among")
    monkeypatch.setattr(run, "texts", lambda _, count, *__: [third, first, third] if count else [first, second, third])
    probe.among(run)
    (row,) = run.record["rows"]
    assert row["values"] == {"comprehensiveness": [None, 0.1]}  # each text once
    assert row["metrics"]["comprehensiveness"]["n"] == 1
    assert row["metrics"]["comprehensiveness"]["mean"] == 0.1
    assert "--train" not in run.record["command"]
    monkeypatch.setattr(run, "texts", lambda _, count, *__: [first])
    with pytest.raises(SystemExit, match=r"quality-all\.json is of another model or other texts"):
        probe.among(run)
