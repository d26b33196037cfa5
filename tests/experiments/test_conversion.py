"""Folders of older versions: converted by one command, and named where they are read as they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from didact.cli import main
from didact.errors import FormatError, InputError
from didact.experiments.conversion import convert
from didact.experiments.papers import l2e
from didact.experiments.simulability.findings import find
from didact.simulation.simulability import NONE, Failure, Setting
from didact.store import explanations as explanation_store
from didact.store import files
from didact.store import records as record_store
from didact.types import Record
from tests.experiments.synthetic import typical_run

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
STUDENTS = pa.schema(
    [
        ("student", pa.string()),
        ("channel", pa.string()),
        ("size", pa.int64()),
        ("method", pa.string()),
        ("control", pa.bool_()),
        ("subset", pa.int64()),
        ("scores", pa.list_(pa.float64())),
        ("answers", pa.list_(pa.float64())),
        ("trouble", pa.string()),
    ]
)


def old_simulation(folder: Path) -> Path:
    """A run as versions before records of students wrote it."""
    folder.mkdir(parents=True)
    rows = []
    for channel in ("attention", "labelling"):
        for method, control, shift in ((NONE, False, 0.0), ("lime", False, 0.5), ("random", True, 0.0)):
            for subset in range(2):
                lost = method == "lime" and subset == 1 and channel == "labelling"
                scores = None if lost else [0.0 + shift, 1.0, float(subset)]
                rows.append(("ridge", channel, 8, method, control, subset, scores, None, "diverged" if lost else None))
    table = pa.Table.from_pylist([dict(zip(STUDENTS.names, row, strict=True)) for row in rows], STUDENTS)
    files.write(folder / "students.parquet", table.replace_schema_metadata({b"didact.metric": b"accuracy"}))
    arms = [
        {"label": name, "explainer": name, "format": "10 %", "noise": 0.0, "control": name == "random", "bits": 1.0}
        for name in ("lime", "random")
    ]
    manifest = {
        "kind": "simulability",
        "name": "old",
        "arms": arms,
        "exam": {"name": "corpus"},
        "teacher": {"name": "a model", "fingerprint": "f00d"},
        "explainers": {"lime": {"method": "lime", "parameters": {}}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "extras.json").write_text("{}")
    return folder


def test_students_become_records(tmp_path: Path) -> None:
    folder = old_simulation(tmp_path / "old")
    with pytest.raises(FormatError, match=f"didact convert {folder}"):
        find(folder)
    assert main(["convert", str(tmp_path)]) == 0
    assert not (folder / "students.parquet").exists()
    found = find(folder).simulation
    setting = Setting("ridge", "labelling", 8)
    assert found.settings == [Setting("ridge", "attention", 8), setting]
    assert found.methods == ["lime", "random"]
    assert found.controls == {"random"}
    assert found.failures == (Failure(setting, "lime", 1, "diverged"),)
    assert found.scores[setting][NONE].tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    assert np.isnan(found.scores[setting]["lime"][1]).all()
    rows = record_store.from_table(record_store.read(folder / "records.parquet"))
    assert {(row.explainer, row.null) for row in rows} == {(NONE, ""), ("lime", ""), ("random", "random")}
    assert {row.model for row in rows} == {"f00d"}
    assert all(row.settings for row in rows)


def test_studies_get_a_folder_each_and_their_records_settings(tmp_path: Path) -> None:
    source = tmp_path / "old"
    source.mkdir()
    rows = [
        Record(name, "m", 0, "", "log_odds_difference", "", f"{i:05d}", v, "f", "sst2", "")
        for name, values in (("lime", (1.0, 2.0)), ("l2e ranking(lime)", (3.0, 4.0)))
        for i, v in enumerate(values)
    ]
    old = record_store.to_table(rows).drop_columns(["student", "channel", "size", "failure"])
    files.write(source / "records-sst2.parquet", old)
    study = {
        "name": "sst2",
        "model": "minilm",
        "teachers": [{"label": "lime", "name": "lime", "settings": {"samples": 10}}],
        "data": {split: [{"source": "sst2", "split": split}] for split in ("train", "validation", "test")},
        "changes": [{"teacher": "lime", "training": {"epochs": 3}}],
        "encoder": None,
    }
    versus = [{"metric": "log_odds_difference", "learned": "l2e ranking(lime)", "teacher": "lime"}]
    summary = {"study": study, "facts": {"sst2/lime/tokens/ranking/0": {"texts": 7}}, "versus": versus, "speed": {}}
    (source / "summary-sst2.json").write_text(json.dumps(summary))
    with pytest.raises(FormatError, match="didact convert"):
        l2e.read(source)
    out = tmp_path / "new"
    assert convert(source, out) == [out / "sst2"]
    assert (source / "records-sst2.parquet").is_file()
    found = l2e.read(out)
    assert found.grades["sst2"]["log_odds_difference"]["lime"].tolist() == [1.0, 2.0]
    assert "lime 7" in l2e.table(9, found)
    again = record_store.from_table(record_store.read(out / "sst2" / "records.parquet"))
    assert [row.value for row in again] == [row.value for row in rows]
    assert len({row.settings for row in again} - {""}) == 2


def test_gradings_and_explanations_are_read_and_written_again(tmp_path: Path) -> None:
    folder = typical_run(tmp_path / "run", examples=4)
    before = record_store.from_table(record_store.read(folder / "records.parquet"))
    table = record_store.read(folder / "records.parquet")
    files.write(folder / "records.parquet", table.drop_columns(["student", "channel", "size", "failure"]))
    made = explanation_store.from_table(explanation_store.read(folder / "explanations.parquet"))
    convert(folder)
    assert repr(record_store.from_table(record_store.read(folder / "records.parquet"))) == repr(before)
    again = explanation_store.read(folder / "explanations.parquet")
    assert explanation_store.from_table(again) == made
    assert {"explainer", "seed"} <= set(again.column_names)
    assert json.loads((folder / "manifest.json").read_text())["kind"] == "grading"


def test_what_cannot_be_converted_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        convert(tmp_path / "none")
    with pytest.raises(InputError, match="nothing that can be converted"):
        convert(tmp_path)
    folder = old_simulation(tmp_path / "torn")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(FormatError, match=r"manifest\.json is not JSON"):
        convert(folder)
    folder = old_simulation(tmp_path / "other")
    files.write(folder / "students.parquet", pa.table({"a": [1]}))
    with pytest.raises(FormatError, match="no table of students"):
        convert(folder)


def test_the_results_in_the_documentation_have_the_present_format() -> None:
    for place in (*(RESULTS / "simulability").iterdir(), *(RESULTS / "l2e").iterdir()):
        table = record_store.read(place / "records.parquet")
        assert table.num_rows > 1000
        assert "" not in table.column("settings").unique().to_pylist()
