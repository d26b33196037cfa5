"""Simulations as records: a row per student and test example.

A student's test score is a ``Record``: ``explainer`` is the method whose explanations it was taught with ("none" for no
explanations), ``null`` the name of the control where they explain nothing, ``seed`` its subset of training examples,
``student``, ``channel`` and ``size`` the setting, ``example`` the test example. Where numbers are imitated, ``part``
"answer" has the student's number and, without a student, "truth" the teacher's. A student that does not count has NaN
and the reason as its ``failure``. Where there are learning curves, the rows of a student during its training have the
``part`` "epoch 3 step 48", and those of its numbers "answer epoch 3 step 48".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.errors import FormatError, InputError
from didact.experiments.engine.toml import Options
from didact.provenance import content_hash
from didact.simulation.simulability import NONE, Failure, LearningCurves, Setting, Simulation
from didact.store import columns
from didact.store import records as record_store
from didact.types import Floats

Ints = NDArray[np.int64]

TEACHER = "teacher"
"""Explainer of the rows that hold the teacher's own numbers."""

ANSWER = "answer"
TRUTH = "truth"
_POINT = re.compile(rf"({ANSWER} )?epoch (\d+) step (\d+)")

_Time = tuple[int, int]
"""Epoch and step of a point of a learning curve."""


def to_records(simulation: Simulation, manifest: Options, names: Sequence[str]) -> pa.Table:
    """All scores, and numbers where they are imitated.

    Args:
        simulation: what the students answered.
        manifest: of the run: its teacher, arms, students and channels decide the settings' hash.
        names: of the test examples, in their order.
    """
    same = {
        "metric": simulation.metric,
        "model": str(manifest.get("teacher", {}).get("fingerprint", "")),
        "data": str((manifest.get("test") or manifest.get("exam") or {}).get("name", "")),
    }
    tables = [_block(names, values, same | about) for values, about in _blocks(simulation, manifest)]
    return pa.concat_tables(tables) if tables else record_store.to_table([])


def from_records(table: pa.Table) -> Simulation:
    """The simulation whose records these are; rows of other kinds are left out."""
    rows = _student_rows(table)
    students = [row for row in rows if row.setting.student and not row.part]
    if not students:
        raise InputError("the records hold no student")
    truth = next((row.values for row in rows if row.part == TRUTH), None)
    first = _first_channels(students)
    failures = tuple(
        Failure(first.get(row.setting, row.setting), row.method, row.subset, row.failure)
        for row in students
        if row.failure
    )
    answers = [row for row in rows if row.part == ANSWER]
    return Simulation(
        _matrices(students),
        failures,
        frozenset(row.method for row in students if row.control),
        students[0].metric,
        _matrices(students, answers) if truth is not None else {},
        truth,
        _read_curves(students, rows),
    )


def _blocks(simulation: Simulation, manifest: Options) -> Iterator[tuple[Floats, dict[str, str | int]]]:
    """(values, what their rows have in common) of every student; "none" is the same for all channels, so it is once."""
    if simulation.truth is not None:
        yield simulation.truth, {"explainer": TEACHER, "part": TRUTH, **_empty(manifest)}
    failures = {(one.setting, one.method, one.subset): one.why for one in simulation.failures}
    seen: set[tuple[str, int]] = set()
    for setting, table in simulation.scores.items():
        for method, matrix in table.items():
            if method == NONE and (setting.student, setting.size) in seen:
                continue
            seen.add((setting.student, setting.size))
            about = _about(simulation, manifest, setting, method)
            for subset, scores in enumerate(matrix):
                why = failures.get((setting, method, subset))
                if not np.isfinite(scores).all() and why is None:
                    continue  # not taught
                own = about | {"seed": subset} | ({"failure": why} if why is not None else {})
                yield (scores if why is None else np.full_like(scores, np.nan)), own
                if simulation.answers and why is None:
                    yield simulation.answers[setting][method][subset], own | {"part": ANSWER}
                if setting in simulation.curves.scores and why is None:
                    yield from _curve_blocks(simulation.curves, setting, method, own)


def _curve_blocks(
    curves: LearningCurves, setting: Setting, method: str, about: Mapping[str, str | int]
) -> Iterator[tuple[Floats, dict[str, str | int]]]:
    """The points of a student's learning curve."""
    subset = int(about["seed"])
    for at, (epoch, step) in enumerate(zip(curves.epochs[setting], curves.steps[setting], strict=True)):
        part = f"epoch {epoch} step {step}"
        yield curves.scores[setting][method][subset, at], {**about, "part": part}
        if curves.answers:
            yield curves.answers[setting][method][subset, at], {**about, "part": f"{ANSWER} {part}"}


def _about(simulation: Simulation, manifest: Options, setting: Setting, method: str) -> dict[str, str | int]:
    arm: Options = next((one for one in manifest.get("arms", ()) if one["label"] == method), {})
    explainer = manifest.get("explainers", {}).get(arm.get("explainer"), {})
    shown = {name: value for name, value in arm.items() if name not in ("label", "bits")}
    channel = "" if method == NONE else setting.channel
    settings = [
        *(simulation.metric, shown, explainer),
        *(manifest.get("students", {}).get(setting.student), manifest.get("channels", {}).get(channel)),
        *(setting.size, manifest.get("plan", {}).get("seed")),
    ]
    return {
        "explainer": method,
        "method": str(explainer.get("method", arm.get("explainer", method))),
        "null": method if method in simulation.controls else "",
        "part": "",
        "settings": content_hash(settings),
        "student": setting.student,
        "size": setting.size,
        **({"channel": channel} if channel else {}),
    }


def _empty(manifest: Options) -> dict[str, str | int]:
    return {"method": TEACHER, "seed": 0, "null": "", "settings": content_hash(manifest.get("teacher", {}))}


def _block(names: Sequence[str], values: Floats, about: Mapping[str, str | int]) -> pa.Table:
    columns = {"example": pa.array(names, pa.string()), "value": pa.array(values, pa.float64())}
    return record_store.with_constants(pa.table(columns), about)


@dataclass(frozen=True, eq=False)
class _StudentRow:
    """The values of one student on all test examples; its setting has no channel where it saw no explanations."""

    setting: Setting
    method: str
    control: bool
    subset: int
    part: str
    metric: str
    failure: str
    values: Floats


_KEYS = ("student", "channel", "size", "explainer", "null", "seed", "part", "metric", "failure")


_LARGEST = 2**62


def _student_rows(table: pa.Table) -> list[_StudentRow]:
    """Records grouped by student, in the order in which they first appear."""
    checked = columns.conform(table, record_store.SCHEMA, "records")
    keys = [columns.numbered(checked[name]) for name in _KEYS]
    examples, named = columns.numbered(checked["example"])
    scores = checked["value"].to_numpy()
    items: Ints | None = None
    rows: list[_StudentRow] = []
    for group in _groups([places for places, _ in keys], len(checked)):
        cells = (known[places[group[0]]] for places, known in keys)
        student, channel, size, method, null, seed, part, metric, failure = cells
        if not student and part != TRUTH:
            continue
        if items is None:
            items = np.full(len(named), -1)
            items[examples[group]] = np.arange(len(group))
        places = items[examples[group]]
        if (places < 0).any():
            raise FormatError(f"records of {student or TEACHER} name test examples that the first student has not")
        values = np.full(int(items.max()) + 1, np.nan)
        values[places] = scores[group]
        setting = Setting(student or "", channel or "", size or 0)
        rows.append(_StudentRow(setting, method, bool(null), seed, part, metric, failure or "", values))
    return rows


def _groups(keys: Sequence[Ints], many: int) -> list[Ints]:
    """The numbers of the rows that are alike in all keys, group by group as they first appear."""
    alike, kinds = np.zeros(many, dtype=np.int64), 1
    for places in keys:
        size = int(places.max(initial=0)) + 1
        if kinds * size >= _LARGEST:
            alike = np.unique(alike, return_inverse=True)[1]
            kinds = int(alike.max(initial=0)) + 1
        alike, kinds = alike * size + places, kinds * size
    order = np.argsort(alike, kind="stable")
    cuts = np.flatnonzero(np.diff(alike[order])) + 1
    return sorted(np.split(order, cuts), key=lambda group: int(group[0])) if many else []


def _first_channels(rows: Sequence[_StudentRow]) -> dict[Setting, Setting]:
    """Setting without a channel -> the first setting of the same student and size that has one."""
    first: dict[Setting, Setting] = {}
    for row in rows:
        if row.setting.channel:
            first.setdefault(_without_channel(row.setting), row.setting)
    return first


def _matrices(
    students: Sequence[_StudentRow], given: Sequence[_StudentRow] | None = None
) -> dict[Setting, dict[str, Floats]]:
    """Setting -> method -> (subsets, items); NaN where a student failed or was not taught.

    Args:
        students: all students, by which settings, methods and subsets are known.
        given: the rows whose values are filled in; those of ``students`` when not given.
    """
    matrices: dict[Setting, dict[str, Floats]] = {}
    items = len(students[0].values)
    for setting in dict.fromkeys(row.setting for row in students if row.setting.channel):
        without = _without_channel(setting)
        own = [row for row in students if row.setting in (setting, without)]
        subsets = max(row.subset for row in own) + 1
        methods = dict.fromkeys([NONE, *(row.method for row in own)])
        matrices[setting] = {method: np.full((subsets, items), np.nan) for method in methods}
        for row in students if given is None else given:
            if row.setting in (setting, without):
                matrices[setting][row.method][row.subset] = row.values
    return matrices


def _read_curves(students: Sequence[_StudentRow], rows: Sequence[_StudentRow]) -> LearningCurves:
    """Learning curves from the rows that have an epoch as their part."""
    parts: dict[tuple[Setting, str], dict[_Time, list[_StudentRow]]] = {}
    for row in rows:
        named = _POINT.fullmatch(row.part)
        if named is not None:
            times = parts.setdefault((_without_channel(row.setting), named[1] or ""), {})
            times.setdefault((int(named[2]), int(named[3])), []).append(row)
    epochs: dict[Setting, tuple[int, ...]] = {}
    steps: dict[Setting, tuple[int, ...]] = {}
    scores: dict[Setting, dict[str, Floats]] = {}
    answers: dict[Setting, dict[str, Floats]] = {}
    for setting in dict.fromkeys(row.setting for row in students if row.setting.channel):
        own = [row for row in students if row.setting in (setting, _without_channel(setting))]
        for part, tables in (("", scores), (f"{ANSWER} ", answers)):
            times = parts.get((_without_channel(setting), part), {})
            if times:
                epochs[setting], steps[setting] = map(tuple, zip(*sorted(times), strict=True))
                points = [_matrices(own, times[time])[setting] for time in sorted(times)]
                tables[setting] = {method: np.stack([one[method] for one in points], 1) for method in points[0]}
    return LearningCurves(epochs, steps, scores, answers)


def _without_channel(setting: Setting) -> Setting:
    return Setting(setting.student, "", setting.size)
