"""Carries out the simulability protocol: trains the students whose outcomes are not stored yet, and collects scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import InputError
from didact.progress import advance, working
from didact.provenance import content_hash
from didact.regions import plain_regions
from didact.simulation.curves import best_point, points
from didact.simulation.scoring import item_scores
from didact.simulation.simulability import (
    NONE,
    Execution,
    Failure,
    LearningCurves,
    Plan,
    Setting,
    SimulabilityData,
    Simulation,
    WeightedChannel,
    matching_channels,
)
from didact.stats.crossed import crossed_gain, precise_enough
from didact.students.base import CurvePoint, Hint, LabelledExample, Student, StudentOutcome, StudentRun, TaskSetup
from didact.students.matching import check_examples
from didact.types import Floats, Region, Span

FORMAT = 2
"""Part of every key; raised when stored outcomes must not be used any more."""

_KIND_IN_KEYS = {"class": "classes"}
"""How keys name a kind of answer; fixed, so that stored outcomes stay valid."""


def simulate(
    data: SimulabilityData,
    students: Mapping[str, Student],
    channels: Mapping[str, WeightedChannel],
    plan: Plan | None = None,
    execution: Execution | None = None,
) -> Simulation:
    """Train students with and without hints, and score their answers.

    Args:
        data: training pool, test examples and hints.
        students: by label.
        channels: by label; each student uses those that reach it.
        plan: how many students.
        execution: where and how long.
    """
    matches = matching_channels(students, channels, data.kind)
    for student in students.values():
        check_examples(student.card, (labelled.example for labelled in (*data.pool, *data.test)))
    runs = _StudentRuns(data, students, channels, plan or Plan(), execution or Execution())
    groups = [_Group(student, size, matches[student]) for student in students for size in runs.plan.sizes]
    total = sum(len(runs.of_group(group, range(runs.plan.last))) for group in groups)
    with working("training students", total):
        for start in range(0, runs.plan.last, runs.plan.subsets):
            subsets = range(start, min(start + runs.plan.subsets, runs.plan.last))
            for group in groups:
                runs.complete(group, subsets)
            groups = [group for group in groups if not runs.is_precise(group)]
    return runs.simulation(matches)


@dataclass(frozen=True)
class _Group:
    """Students of one kind and size; the student without hints is shared by the channels."""

    student: str
    size: int
    channels: list[str]


@dataclass(frozen=True, eq=False)
class _Tested:
    """A student's learning curve on the test examples, and which of its points counts as the end.

    Attributes:
        scores: (points, items).
        answers: the answers behind them (points, items or items x 2).
        end: number of the point.
    """

    scores: Floats
    answers: Floats
    end: int


@dataclass(frozen=True)
class _Run:
    """One student to be trained; its channel is empty where it has no hints."""

    student: str
    channel: str
    method: str
    size: int
    subset: int


class _StudentRuns:
    """Trains students whose outcomes are not stored, and arranges the outcomes in tables."""

    def __init__(
        self,
        data: SimulabilityData,
        students: Mapping[str, Student],
        channels: Mapping[str, WeightedChannel],
        plan: Plan,
        execution: Execution,
    ) -> None:
        self.data, self.students, self.channels, self.plan, self.execution = data, students, channels, plan, execution
        if plan.choose == "best" and not data.validation:
            raise InputError("the best epoch of a student is chosen by validation texts, and none were given")
        self.validation = list(data.validation) if plan.choose == "best" else []
        self.test = [labelled.example for labelled in (*self.validation, *data.test)]
        self.outcomes: dict[_Run, StudentOutcome] = {}
        self.tested: dict[_Run, _Tested] = {}
        self._hint_hashes: dict[tuple[str, int], str] = {}
        self._span_bytes: dict[int, bytes] = {}  # many explainers have the same spans
        kind = _KIND_IN_KEYS.get(data.kind, data.kind)
        pool = [_example_hash(labelled) for labelled in data.pool]
        self._common = content_hash([FORMAT, kind, data.outputs, pool, [example.fingerprint for example in self.test]])

    def of_group(self, group: _Group, subsets: range) -> list[_Run]:
        """The students of a group, those without hints first, then channel by channel and subset by subset."""
        none = [_Run(group.student, "", NONE, group.size, subset) for subset in subsets]
        return none + [
            _Run(group.student, channel, method, group.size, subset)
            for channel in group.channels
            for subset in subsets
            for method in self.data.hints
        ]

    def complete(self, group: _Group, subsets: range) -> None:
        """Read or train all students of a group."""
        runs = self.of_group(group, subsets)
        missing = [run for run in runs if not self._read(run)]
        advance(len(runs) - len(missing))
        for channel in group.channels:
            # Those without hints are trained beside the first channel's, where their weight of 0 keeps hints away.
            own = [run for run in missing if (run.channel or group.channels[0]) == channel]
            for start in range(0, len(own), self.plan.group):
                if self.execution.enough is not None and self.execution.enough():
                    return
                self._train(own[start : start + self.plan.group], channel)
                advance(len(own[start : start + self.plan.group]))

    def is_precise(self, group: _Group) -> bool:
        """Whether the interval of every method's gain, controls left out, is narrow enough."""
        if self.plan.precision is None:
            return False
        methods = [method for method in self.data.hints if method not in self.data.controls]
        scores = {run: tested.scores[tested.end] for run, tested in self.tested.items()}
        none = self._matrix(group, "", NONE, scores)
        gains = (
            crossed_gain(self._matrix(group, channel, method, scores), none)
            for channel in group.channels
            for method in methods
        )
        return all(precise_enough(gain, self.plan.precision) for gain in gains)

    def simulation(self, matches: Mapping[str, Sequence[str]]) -> Simulation:
        """All outcomes as matrices."""
        groups = [
            (Setting(student, channel, size), _Group(student, size, [channel]))
            for student, channels in matches.items()
            for channel in channels
            for size in self.plan.sizes
        ]
        scores = {run: tested.scores[tested.end] for run, tested in self.tested.items()}
        answers, truth = {}, None
        if self.data.kind == "number":
            answers = self._tables(groups, {run: tested.answers[tested.end] for run, tested in self.tested.items()})
            truth = np.array([labelled.answer for labelled in self.data.test], dtype=np.float64)
        return Simulation(
            self._tables(groups, scores),
            tuple(self._failures(matches)),
            self.data.controls,
            self.data.metric,
            answers,
            truth,
            self._curves(groups) if self.plan.curve else LearningCurves(),
        )

    def _curves(self, groups: Sequence[tuple[Setting, _Group]]) -> LearningCurves:
        """Learning curves of the settings in which any student was trained."""
        times = {
            (run.student, run.size): [(point.epoch, point.steps) for point in points(outcome)]
            for run, outcome in self.outcomes.items()
        }
        trained = [(setting, group) for setting, group in groups if (group.student, group.size) in times]
        epochs, steps = (
            {setting: tuple(time[part] for time in times[group.student, group.size]) for setting, group in trained}
            for part in (0, 1)
        )
        answers = {}
        if self.data.kind == "number":
            answers = self._tables(trained, {run: tested.answers for run, tested in self.tested.items()})
        scores = self._tables(trained, {run: tested.scores for run, tested in self.tested.items()})
        return LearningCurves(epochs, steps, scores, answers)

    def _tables(
        self, groups: Sequence[tuple[Setting, _Group]], values: Mapping[_Run, Floats]
    ) -> dict[Setting, dict[str, Floats]]:
        return {setting: self._table(setting, group, values) for setting, group in groups}

    def _table(self, setting: Setting, group: _Group, values: Mapping[_Run, Floats]) -> dict[str, Floats]:
        none = {NONE: self._matrix(group, "", NONE, values)}
        return none | {name: self._matrix(group, setting.channel, name, values) for name in self.data.hints}

    def _matrix(self, group: _Group, channel: str, method: str, values: Mapping[_Run, Floats]) -> Floats:
        """(subsets, ...) of each student's values; as many rows as any student of this kind and size has."""
        alike = [run for run in self.outcomes if (run.student, run.size) == (group.student, group.size)]
        shape = next((values[run].shape for run in alike if run in values), (len(self.data.test),))
        rows = np.full((max((run.subset for run in alike), default=-1) + 1, *shape), np.nan)
        for subset in range(len(rows)):
            run = _Run(group.student, channel, method, group.size, subset)
            if run in values and self.outcomes[run].failure is None:
                rows[subset] = values[run]
        return rows

    def _failures(self, matches: Mapping[str, Sequence[str]]) -> Iterator[Failure]:
        for run, outcome in self.outcomes.items():
            if outcome.failure is not None:
                channel = run.channel or next(iter(matches[run.student]), "")
                yield Failure(Setting(run.student, channel, run.size), run.method, run.subset, outcome.failure)

    def _read(self, run: _Run) -> bool:
        """Take a stored outcome; whether there is one."""
        memory = self.execution.memory
        outcome = memory.get(self._key(run)) if memory is not None else None
        if outcome is not None:
            self._add(run, outcome)
        return outcome is not None

    def _train(self, runs: Sequence[_Run], channel: str) -> None:
        data, execution = self.data, self.execution
        setup = TaskSetup(
            *(data.kind, data.outputs, self.channels[channel].channel, execution.device),
            together=execution.together,
            curve=self.plan.curve,
        )
        student = self.students[runs[0].student]
        outcomes = student.train_and_predict(data.pool, [self._training_run(run) for run in runs], self.test, setup)
        for run, outcome in zip(runs, outcomes, strict=True):
            if execution.memory is not None:
                execution.memory.put(self._key(run), outcome)
            self._add(run, outcome)

    def _add(self, run: _Run, outcome: StudentOutcome) -> None:
        self.outcomes[run] = outcome
        if outcome.failure is None:
            self.tested[run] = self._tested(points(outcome))

    def _tested(self, curve: Sequence[CurvePoint]) -> _Tested:
        kind, metric = self.data.kind, self.data.metric
        answers = [np.asarray(point.answers)[len(self.validation) :] for point in curve]
        scores = np.stack([item_scores(kind, some, self.data.test, metric) for some in answers])
        end = best_point(curve, self.validation, kind, metric) if self.validation else len(curve) - 1
        return _Tested(scores, np.stack(answers).astype(np.float64), end)

    def _training_run(self, run: _Run) -> StudentRun:
        places, seed = self.plan.drawn(len(self.data.pool), run.size, run.subset), self.plan.seed + run.subset
        if not run.channel:
            return StudentRun(places, [None] * len(places), 0.0, seed)
        hints = [self._hint(run.method, place) for place in places.tolist()]
        return StudentRun(places, hints, self.channels[run.channel].weight, seed)

    def _hint(self, method: str, place: int) -> Hint:
        hint = self.data.hints[method][place]
        if hint is None:
            raise InputError(f"{method} has no hint for example {place} of the pool, which is used; explain it too")
        return hint

    def _key(self, run: _Run) -> str:
        """Hash of all that decides the outcome; versions of libraries do not."""
        student = self.students[run.student]
        places = self.plan.drawn(len(self.data.pool), run.size, run.subset).tolist()
        hints: list[object] = []
        if run.channel:
            channel, weight = self.channels[run.channel].channel, self.channels[run.channel].weight
            hashes = [self._hint_hash(run.method, place) for place in places]
            hints = [channel.card.name, channel.parameters, weight, hashes]
        drawn: list[object] = [places, self.plan.seed + run.subset]
        if self.plan.curve:  # a test does not change what is trained, but what is stored
            drawn.append({"curve": self.plan.curve})
        return content_hash(["student", self._common, student.card.name, student.parameters, drawn, hints])

    def _hint_hash(self, method: str, place: int) -> str:
        if (method, place) not in self._hint_hashes:
            hint = self._hint(method, place)
            if id(hint.spans) not in self._span_bytes:
                self._span_bytes[id(hint.spans)] = _span_bytes(hint)
            self._hint_hashes[method, place] = _hint_hash(hint, self._span_bytes[id(hint.spans)])
        return self._hint_hashes[method, place]


def _example_hash(labelled: LabelledExample) -> str:
    answer = labelled.answer if isinstance(labelled.answer, (int, float)) else repr(labelled.answer)
    return content_hash([labelled.example.fingerprint, answer])


def _span_bytes(hint: Hint) -> bytes:
    places = [number for region in hint.spans for number in _place(region)]
    return np.array(places, dtype=np.int64).tobytes()


def _hint_hash(hint: Hint, spans: bytes) -> str:
    digest = hashlib.sha256(spans)
    digest.update(np.asarray(hint.weights, dtype=np.float64).tobytes())
    links = [(first.start, first.end, second.start, second.end) for first, second in hint.links]
    digest.update(np.array(links, dtype=np.int64).tobytes())
    return digest.hexdigest()[:16]


def _place(region: Region) -> Sequence[int]:
    if isinstance(region, Span):  # by far the most
        return region.start, region.end, region.field
    return plain_regions([region])[0]
