"""A record of probes may keep the rows of static methods of an earlier one that is of the same model and texts."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import cast

import pytest

from benchmarks import probe
from didact.attribution.lime import Lime
from didact.experiments.distillation.labels import label_rows
from didact.experiments.masking.judges import panel
from didact.meter import metered
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.provenance import content_hash
from didact.store import files, keys
from didact.types import Example

LOWER = [judge.name for judge in panel() if judge.lower_is_better]


class Named:
    """As much of a model as a record says of it."""

    name = "tiny"

    def fingerprint(self) -> str:
        return "0123"


def run_of(monkeypatch: pytest.MonkeyPatch, out: Path, *options: str) -> probe.Run:
    """A run of the part ``quality`` that has these options."""
    monkeypatch.setattr(sys, "argv", ["probe", "quality", "--model", "tiny", "--out", str(out), *options])
    return probe.Run(probe._options().parse_args(), cast("NetworkModel", Named()))


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


def test_explanations_that_a_study_kept_are_not_computed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = cast("NetworkModel", load_model(device="cpu"))
    texts, method = [Example("A warm film."), Example("Dull, all of it.")], Lime(samples=8)
    made = [dataclasses.replace(one, scores=(7.0,) * len(one.units)) for one in method.explain(model, texts)]
    settings = content_hash([keys.origin(model), keys.identity(method)])
    files.write(tmp_path / "labels.parquet", label_rows("lime", "test", [0, 1], settings, made))
    options = ["--labels", str(tmp_path / "labels.parquet"), "--work", str(tmp_path / "work")]
    run = run_of(monkeypatch, tmp_path, *options)
    run.model = model
    assert f" --labels {tmp_path / 'labels.parquet'} " in run.record["command"]
    with metered() as meter:
        assert [set(one.scores) for one in run.explained(method, texts)] == [{7.0}] * 2
    assert meter.forwards == 0
    for other, given in ((Lime(samples=9), texts), (method, [*texts, Example("A third one.")])):
        assert all(set(one.scores) != {7.0} for one in run.explained(other, given))
