"""Folders that older versions wrote, brought to the present format: runs, explanations and learned explainers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from didact.disk import check_name
from didact.errors import FormatError, InputError
from didact.experiments.distillation.networks import Network
from didact.experiments.distillation.recipe import DistillationRecipe
from didact.experiments.distillation.records import manifest_of, settings_hash
from didact.experiments.distillation.summary import LEARNED
from didact.experiments.engine.objects import read_object, write_object
from didact.experiments.engine.toml import GRADING, Options, Plain
from didact.experiments.simulability.records import to_records
from didact.simulation.simulability import NONE, Failure, Setting, Simulation
from didact.store import columns, files
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.trained.explainer import LearnedExplainer
from didact.types import Floats

STUDENTS = "students.parquet"
"""The students of a simulation, as older versions wrote them."""


def convert(folder: Path, out: Path | None = None) -> list[Path]:
    """Convert all that a folder and the folders in it hold; returns the folders and files written.

    Args:
        folder: a run, a folder of runs, explanations (.parquet) or a learned explainer.
        out: where to write; in place when not given.

    Raises:
        InputError: there is no such folder, or nothing in it is known.
        FormatError: something is known and cannot be read; the message says what to do.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    target = folder if out is None else out
    written: list[Path] = []
    for place in (folder, *_folders(folder)):
        written += _convert(place, target / place.relative_to(folder))
    if not written:
        raise InputError(
            f"{folder} holds nothing that can be converted: no run (manifest.json), no records or explanations "
            "(.parquet) and no learned explainer"
        )
    return written


def _folders(folder: Path) -> Iterator[Path]:
    """The folders inside, without parts of runs, which hold results by key and need no conversion."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in ("parts", "checkpoints"):
            yield path
            yield from _folders(path)


def _convert(folder: Path, target: Path) -> list[Path]:
    for applies, convert_one in _FORMATS:
        if applies(folder):
            target.mkdir(parents=True, exist_ok=True)
            return convert_one(folder, target)
    return []


def _students(folder: Path, target: Path) -> list[Path]:
    """A simulation whose students lay in a table of their own."""
    manifest = _json(folder / "manifest.json")
    simulation = read_students(folder / STUDENTS)
    items = next(len(matrix[0]) for table in simulation.scores.values() for matrix in table.values() if len(matrix))
    _copy(folder, target, leave=STUDENTS)
    names = [f"{number:05d}" for number in range(items)]
    record_store.write(target / "records.parquet", to_records(simulation, manifest, names))
    (target / STUDENTS).unlink(missing_ok=True)
    return [target]


def _studies(folder: Path, target: Path) -> list[Path]:
    """Studies of learned explainers that lay in one folder, records without settings."""
    written = []
    for path in sorted(folder.glob("records-*.parquet")):
        name = path.stem.removeprefix("records-")
        check_name(name, f"the end of {path.name!r}")
        summary = _reference_words(_json(folder / f"summary-{name}.json"), name)
        place = target / name
        place.mkdir(parents=True, exist_ok=True)
        recipe = DistillationRecipe.from_dict(_recipe(summary["study"], name), str(path))
        record_store.write(place / "records.parquet", _with_settings(record_store.read(path), recipe))
        for file, content in (("summary", summary), ("manifest", manifest_of(recipe, "didact convert"))):
            write_object(place / f"{file}.json", content)
        written.append(place)
        if target == folder:
            path.unlink()
            (folder / f"summary-{name}.json").unlink()
    return written


def _grading_run(folder: Path, target: Path) -> list[Path]:
    """A grading run: its manifest names no kind, and its records lack the columns of students."""
    _copy(folder, target)
    manifest = {"kind": GRADING} | _json(folder / "manifest.json")
    write_object(target / "manifest.json", manifest)
    for name in ("records", "timings"):
        if (folder / f"{name}.parquet").is_file():
            record_store.write(target / f"{name}.parquet", record_store.read(folder / f"{name}.parquet"))
    return [target, *_explanations(folder, target)]


def _explanations(folder: Path, target: Path) -> list[Path]:
    """Files of explanations, read and written again."""
    written = []
    for path in sorted(folder.glob("*.parquet")):
        if _is_of_explanations(path):
            table = explanation_store.read(path)
            made = explanation_store.from_table(table)
            named = [columns.values(table.column(name)) for name in ("explainer", "seed") if name in table.column_names]
            explanation_store.write(target / path.name, explanation_store.to_table(made, *named))
            written.append(target / path.name)
    return written


def _explainer(folder: Path, target: Path) -> list[Path]:
    """A learned explainer, loaded and saved again."""
    LearnedExplainer.from_pretrained(folder, device="cpu").save_pretrained(target)
    return [target]


def _is_of_explanations(path: Path) -> bool:
    return {"scores", "method", "text", "units"} <= set(files.read(path).column_names)


def _has_manifest(folder: Path, kind: str) -> bool:
    path = folder / "manifest.json"
    return path.is_file() and _json(path).get("kind", GRADING) == kind


_FORMATS: tuple[tuple[Callable[[Path], bool], Callable[[Path, Path], list[Path]]], ...] = (
    (lambda folder: (folder / STUDENTS).is_file(), _students),
    (lambda folder: any(folder.glob("records-*.parquet")), _studies),
    (lambda folder: (folder / "config.json").is_file() and (folder / "model.safetensors").is_file(), _explainer),
    (lambda folder: _has_manifest(folder, GRADING), _grading_run),
    (lambda folder: any(map(_is_of_explanations, folder.glob("*.parquet"))), _explanations),
)


def read_students(path: Path) -> Simulation:
    """The table of students that older versions wrote: a row per student and channel with all its scores."""
    table = files.read(path)
    wanted = {"student", "channel", "size", "method", "control", "subset", "scores", "answers", "trouble"}
    if not wanted <= set(table.column_names):
        raise FormatError(f"{path} is no table of students: its columns are {', '.join(table.column_names)}; run again")
    metric = (table.schema.metadata or {}).get(b"didact.metric", b"accuracy").decode()
    every = table.to_pylist()
    truth = next((np.array(row["answers"]) for row in every if not row["student"]), None)
    rows = [row for row in every if row["student"]]
    if not rows:
        raise InputError(f"{path} holds no student")
    failures = tuple(
        Failure(_setting(row), row["method"], row["subset"], row["trouble"])
        for row in rows
        if row["trouble"] is not None
    )
    controls = frozenset(row["method"] for row in rows if row["control"])
    answers = _matrices(rows, "answers") if truth is not None else {}
    return Simulation(_matrices(rows, "scores"), failures, controls, metric, answers, truth)


def _matrices(rows: list[Plain], column: str) -> dict[Setting, dict[str, Floats]]:
    items = next((len(row[column]) for row in rows if row[column] is not None), 0)
    subsets: dict[Setting, int] = {}
    for row in rows:
        subsets[_setting(row)] = max(subsets.get(_setting(row), 0), row["subset"] + 1)
    by_setting: dict[Setting, dict[str, Floats]] = {}
    for row in rows:
        empty = np.full((subsets[_setting(row)], items), np.nan)
        matrices = by_setting.setdefault(_setting(row), {NONE: empty.copy()})
        matrix = matrices.setdefault(row["method"], empty)
        if row[column] is not None:
            matrix[row["subset"]] = row[column]
    return by_setting


def _setting(row: Options) -> Setting:
    return Setting(row["student"], row["channel"], row["size"])


def _with_settings(table: pa.Table, recipe: DistillationRecipe) -> pa.Table:
    """Records with the hash of each explainer's and metric's settings."""
    pairs = list(zip(*(columns.values(table.column(name)) for name in ("explainer", "metric")), strict=True))
    hashes = {pair: settings_hash(recipe, pair[0], pair[1], _network(pair[0])) for pair in dict.fromkeys(pairs)}
    place = table.schema.get_field_index("settings")
    filled = pa.array([hashes[pair] for pair in pairs], pa.string()).dictionary_encode()
    return columns.conform(table.set_column(place, "settings", filled), record_store.SCHEMA, "records")


def _network(label: str) -> Network | None:
    matched = LEARNED.fullmatch(label)
    if matched is None:
        return None
    reading = matched["kind"].removeprefix("l2e").removeprefix("_") or "tokens"
    return Network(matched["reference"], reading, matched["signal"], 0)


def _reference_words(summary: Plain, name: str) -> Plain:
    """A summary in the present words: references instead of teachers, steps instead of pieces."""
    study = dict(summary["study"])
    if "teachers" in study:
        study["references"] = [_entry(one) for one in study.pop("teachers")]
    study["changes"] = [_renamed(one) for one in study.get("changes", ())]
    facts = {step.replace(f"{name}/", "learn/", 1): fact for step, fact in summary["facts"].items()}
    return {**summary, "study": study, "facts": facts, "versus": [_renamed(row) for row in summary["versus"]]}


def _renamed(row: Options) -> Plain:
    return {"reference" if key == "teacher" else key: value for key, value in row.items()}


def _entry(given: Options) -> Plain:
    return {"label": given["label"], "method": given["name"], **given["settings"]}


def _recipe(study: Options, name: str) -> Plain:
    known = {key: value for key, value in study.items() if value is not None}
    return {**known, "name": name, "model": {"source": study["model"]}}


def _copy(folder: Path, target: Path, leave: str = "") -> None:
    """The files of a folder, where they are written to another place."""
    if target == folder:
        return
    for path in folder.iterdir():
        if path.is_file() and path.name != leave:
            shutil.copy2(path, target / path.name)


def _json(path: Path) -> Plain:
    return read_object(path, f"{path} is missing, and the folder cannot be converted without it; run again")
