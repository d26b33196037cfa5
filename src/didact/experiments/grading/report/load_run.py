"""A run's folder as the report needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from didact.errors import FormatError, InputError
from didact.experiments.engine.objects import read_object
from didact.experiments.grading.summary import ExplainerInfo, MetricInfo, ResultArrays, gather
from didact.experiments.report.formatting import plural
from didact.store import explanations, records
from didact.store.regions import row_fields
from didact.types import Example, Explanation
from didact.validation import object_value

CONTROLS = ("random", "trivial", "human")

_NOT_MEASURED = "memory"
"""Records of older runs: the memory of the process, which depends on what it had done before."""


class ManifestEntry(TypedDict, total=False):
    """An explainer or metric of a run: its registered name, settings and card."""

    method: str
    metric: str
    parameters: dict[str, object]
    card: dict[str, object]


class GradingManifest(TypedDict, total=False):
    """What was run, as the runner wrote it; a report lacks what is not there."""

    name: str
    command: str
    model: dict[str, object]
    data: dict[str, object]
    seeds: list[int]
    versions: dict[str, str]
    explainers: dict[str, ManifestEntry]
    metrics: dict[str, ManifestEntry]


@dataclass(frozen=True)
class Spent:
    """What an explainer took per explanation, on average; None where it was not measured."""

    forwards: float | None = None
    backwards: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: where it lies.
        manifest: what was run, as the runner wrote it.
        measured: the records as arrays.
        kept: all explanations; None where there are none.
        costs: by explainer.
    """

    folder: Path
    manifest: GradingManifest
    measured: ResultArrays
    kept: Kept | None
    costs: Mapping[str, Spent]

    @property
    def name(self) -> str:
        """Of the experiment."""
        return str(self.manifest.get("name") or self.folder.resolve().name)

    @property
    def wanted(self) -> int | None:
        """How many texts were given, where only some of them fitted into the time budget."""
        given = (self.manifest.get("data") or {}).get("wanted")
        return given if isinstance(given, int) else None

    @property
    def texts(self) -> str:
        """On how many texts it was carried out, in words."""
        count, wanted = len(self.measured.examples), self.wanted
        return f"{count:,}{'' if wanted is None else f' of {wanted:,}'} {plural(wanted or count, 'text', 'texts')}"


@dataclass(frozen=True, eq=False)
class Kept:
    """The explanations of a run, looked up by example.

    Attributes:
        table: one explanation per row, with "explainer" and "seed"; at least one row.
        labels: the explainers in the order in which they are shown.
        examples: names of the examples in the records.
    """

    table: pa.Table
    labels: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def truncated(self) -> float:
        """Share of the texts that the model's length limit cut."""
        cut = self._once.column("truncated").to_pylist()
        return float(np.mean([share > 0 for share in cut]))

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """By example: whether the prediction is known to differ from the gold label."""
        wrong = np.zeros(len(self.examples), dtype=bool)
        once = self._once
        for place, labels, gold, is_number, predicted in zip(
            self._places, *(once.column(name).to_pylist() for name in _GOLD), strict=True
        ):
            name = labels[int(gold)] if is_number and gold.isdecimal() and int(gold) < len(labels) else gold
            if place is not None and name in labels:
                wrong[place] = name != predicted
        return wrong

    def explained(self, examples: Sequence[int]) -> dict[int, dict[str, Explanation]]:
        """The explanations of some examples, by example and explainer; of several seeds the first."""
        place_of = dict(zip(self._places, range(self._once.num_rows), strict=True))
        explained: dict[int, dict[str, Explanation]] = {}
        for example in examples:
            row = None if example not in place_of else self._once.slice(place_of[example], 1).to_pylist()[0]
            explained[example] = {} if row is None else self._of(row)
        return explained

    def _of(self, row: Mapping[str, object]) -> dict[str, Explanation]:
        table = self.table
        for name in (name for name in _EXAMPLE if name in row):
            column, wanted = table.column(name).cast(pa.string()), row[name]
            table = table.filter(pc.is_null(column) if wanted is None else pc.equal(column, wanted))
        labels, seeds = (table.column(name).to_pylist() for name in ("explainer", "seed"))
        order = sorted(range(table.num_rows), key=lambda at: seeds[at], reverse=True)
        first = {labels[at]: at for at in order}
        shown = [label for label in self.labels if label in first]
        made = explanations.from_table(table.take(pa.array([first[label] for label in shown], pa.int64())))
        return dict(zip(shown, made, strict=True))

    @cached_property
    def _once(self) -> pa.Table:
        """One row per example: what does not depend on the explainer."""
        table = self.table.select([name for name in _SOURCE if name in self.table.column_names])
        first = table.slice(0, 1)
        same = [pc.equal(table.column(name), first.column(name)[0]) for name in ("explainer", "seed")]
        return table.filter(pc.and_(*same))

    @cached_property
    def _places(self) -> list[int | None]:
        """The number of each of these rows among the examples of the records."""
        known = {name: place for place, name in enumerate(self.examples)}
        rows = self._once.select([name for name in _EXAMPLE if name in self._once.column_names]).to_pylist()
        return [known.get(_key(row)) for row in rows]


def read_run(folder: Path) -> Run:
    """Read a finished run.

    Raises:
        InputError: there is no such folder, it is no run, or the run is not finished.
        FormatError: a file of the run is damaged.
    """
    _check(folder)
    manifest = _manifest(folder / "manifest.json")
    tables = [records.read(folder / "records.parquet")]
    if (folder / "timings.parquet").is_file():
        tables.append(records.read(folder / "timings.parquet"))
    tables = [table.filter(pc.not_equal(table.column("metric"), _NOT_MEASURED)) for table in tables]
    filled = [table for table in tables if table.num_rows]
    if not filled:
        raise InputError(f"{folder} has no records: nothing was graded, so there is nothing to report")
    measured = gather(pa.concat_tables(filled), _explainers(manifest), _metrics(manifest))
    place = folder / "explanations.parquet"
    table = _explanations(place) if place.is_file() else None
    labels = tuple(s.label for s in sorted(measured.explainers, key=lambda explainer: explainer.control))
    kept = None if table is None else Kept(table, labels, measured.examples)
    return Run(folder, manifest, measured, kept, _costs(measured, table))


_GOLD = ("labels", "label", "label_is_number", "predicted")
_EXAMPLE = ("id", "text", "text_pair", "fields")
_SOURCE = ["explainer", "seed", *_EXAMPLE, "truncated", *_GOLD]


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give the folder of a run, as `didact run` names it at its end")
    missing = [name for name in ("manifest.json", "records.parquet") if not (folder / name).is_file()]
    if not missing:
        return
    parts = sum(1 for path in (folder / "parts").rglob("*.parquet")) if (folder / "parts").is_dir() else 0
    if parts or (folder / "recipe.toml").is_file():
        raise InputError(
            f"{folder} is an unfinished run: {parts} {'part is' if parts == 1 else 'parts are'} there, "
            f"{' and '.join(missing)} not yet; run `didact run {folder / 'recipe.toml'}` again, "
            "it resumes where it stopped"
        )
    raise InputError(f"{folder} is no run: it has no {' and no '.join(missing)}; make one with `didact run RECIPE`")


def _manifest(path: Path) -> GradingManifest:
    manifest = read_object(path, f"{path} is missing; run the recipe again")
    for name in ("explainers", "metrics"):
        for label, entry in object_value(manifest.get(name) or {}, f"{path}: {name}").items():
            facts = object_value(entry, f"{path}: {name}, {label}")
            object_value(facts.get("card") or {}, f"{path}: card of {label}")
    return cast("GradingManifest", manifest)


def _explanations(path: Path) -> pa.Table | None:
    table = explanations.read(path)
    for name in ("explainer", "seed"):
        if name not in table.column_names:
            raise FormatError(f"{path} lacks the column {name!r}; delete it and run the recipe again")
    return table if table.num_rows else None


def _key(row: Mapping[str, str | None]) -> str:
    """The example's name in the records."""
    return row["id"] if row["id"] is not None else Example(fields=row_fields(row)).fingerprint


def _costs(measured: ResultArrays, table: pa.Table | None) -> dict[str, Spent]:
    """Means over texts and seeds."""
    if table is None:
        return {}
    names = ("forwards", "backwards", "seconds")
    means = table.group_by("explainer").aggregate([(name, "mean") for name in names]).to_pylist()
    costs = {row["explainer"]: Spent(*(row[f"{name}_mean"] for name in names)) for row in means}
    return {info.label: costs[info.label] for info in measured.explainers if info.label in costs}


def _explainers(manifest: GradingManifest) -> list[ExplainerInfo]:
    infos = []
    for label, entry in (manifest.get("explainers") or {}).items():
        card = entry.get("card") or {}
        method = str(entry.get("method", label))
        control = card.get("family") == "control" or method in CONTROLS
        infos.append(ExplainerInfo(label, method, control, entry.get("parameters") or {}, str(card.get("summary", ""))))
    return infos


def _metrics(manifest: GradingManifest) -> list[MetricInfo]:
    infos = []
    for label, entry in (manifest.get("metrics") or {}).items():
        card = entry.get("card") or {}
        better, family = card.get("higher_is_better", True), str(card.get("family", "other"))
        metric, summary = str(entry.get("metric", label)), str(card.get("summary", ""))
        direction, timed = None if better is None else bool(better), bool(card.get("timed", False))
        infos.append(MetricInfo(label, metric, family, direction, entry.get("parameters") or {}, summary, timed))
    return infos
