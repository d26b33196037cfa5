"""Grading by teaching: an explanation is worth what it adds to a student who sees it only while learning.

A student learns from n lessons to imitate the teacher and is then asked about texts that it has not seen, without
hints. It is taught without hints ("none"), with the hints of every explainer, and with those of controls that explain
nothing. Everything is crossed: subset s draws the same n lessons for all of them, n grows by adding lessons, and the
student's seed is the subset's. What a student answered is remembered under a hash of all that decides it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from didact.errors import InputError, ParameterError
from didact.progress import advance, working
from didact.protocols import Model
from didact.provenance import content_hash
from didact.simulation.scoring import METRICS, item_scores
from didact.stats.crossed import crossed_gain, precise_enough
from didact.students.base import Channel, Course, Hint, Ints, Lesson, Student, StudentOutcome, Task, TaskSetup
from didact.types import Example, Floats

NONE = "none"
"""The student that is told nothing."""

FORMAT = 2
"""Raised when remembered answers must not be used any more."""


class Memory(Protocol):
    """Where outcomes are kept, by a hash of all that decides them."""

    def get(self, key: str) -> StudentOutcome | None:
        """The outcome, or None where there is none yet."""

    def put(self, key: str, outcome: StudentOutcome) -> None:
        """Keep an outcome."""


@dataclass(frozen=True)
class WeightedChannel:
    """How hints reach students: a channel, and the weight of its loss beside the task's."""

    channel: Channel
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ParameterError(
                f"the weight of {self.channel.card.name} must be above 0, got {self.weight!r}; students without hints "
                "are taught anyway"
            )


@dataclass(frozen=True)
class Plan:
    """How many students are taught.

    Attributes:
        sizes: numbers of lessons.
        subsets: subsets of the pool, each with a student of its own; of a round, where ``precision`` is given.
        precision: half-width of the 95 % interval of a gain at which a setting is left; None teaches one round.
        most: subsets at most; four rounds when not given.
        seed: of the first subset and its student.
        group: students handed over together; what a killed run loses at most.
    """

    sizes: tuple[int, ...] = (500,)
    subsets: int = 5
    precision: float | None = None
    most: int | None = None
    seed: int = 0
    group: int = 32

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 2:
            raise ParameterError(f"sizes must be numbers of lessons, at least 2 each; got {list(self.sizes)}")
        for name in ("subsets", "group"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if self.precision is not None and not self.precision > 0:
            raise ParameterError(f"precision must be above 0 (0.01 is one point of accuracy), got {self.precision!r}")

    @property
    def last(self) -> int:
        """Number of subsets that may be taught."""
        if self.precision is None:
            return self.subsets
        return max(self.subsets, 4 * self.subsets if self.most is None else self.most)

    def drawn(self, pool: int, size: int, subset: int) -> Ints:
        """Places in the pool of one subset's lessons; those of a smaller size come first."""
        if size > pool:
            raise ParameterError(f"{size} lessons were asked for, and the pool has {pool}; give more texts or fewer")
        order: Ints = np.random.default_rng([self.seed, subset]).permutation(pool)
        return order[:size]

    def used(self, pool: int) -> Ints:
        """Places in the pool that any student may be taught, in order: nothing else needs an explanation."""
        taken = [self.drawn(pool, max(self.sizes), subset) for subset in range(self.last)]
        return np.unique(np.concatenate(taken))


@dataclass(frozen=True, eq=False)
class Material:
    """What all students of a simulation have in common.

    Attributes:
        pool: lessons to be taught.
        exam: lessons to be asked; none of their texts is in the pool.
        hints: per method one for each lesson of the pool; None where the plan never draws it.
        controls: methods that explain nothing.
        task: what is imitated.
        outputs: number of classes; 1 otherwise.
        metric: how an answer is compared with the teacher's; the task's usual one when empty.
    """

    pool: Sequence[Lesson]
    exam: Sequence[Lesson]
    hints: Mapping[str, Sequence[Hint | None]]
    controls: frozenset[str] = frozenset()
    task: Task = "classes"
    outputs: int = 2
    metric: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or METRICS[self.task][0])
        if not self.pool or not self.exam:
            raise InputError(f"{len(self.pool)} lessons to teach and {len(self.exam)} to ask: both are needed")
        for name, hints in self.hints.items():
            if name == NONE:
                raise InputError(f"{NONE!r} is the student that is told nothing; call the method otherwise")
            if len(hints) != len(self.pool):
                raise InputError(f"{name} has {len(hints)} hints for {len(self.pool)} lessons; give one for each")


@dataclass(frozen=True)
class Execution:
    """Where and how long students are taught.

    Attributes:
        device: "cpu" or "cuda".
        together: students trained at once; None leaves it to the student.
        memory: what earlier simulations found; None forgets.
        enough: asked before every group; true ends the simulation with what there is.
    """

    device: str = "cpu"
    together: int | None = None
    memory: Memory | None = None
    enough: Callable[[], bool] | None = None


@dataclass(frozen=True, order=True)
class Setting:
    """Under which circumstances methods are compared."""

    student: str
    channel: str
    size: int


@dataclass(frozen=True)
class Failure:
    """A student whose answers do not count."""

    setting: Setting
    method: str
    subset: int
    why: str


@dataclass(frozen=True, eq=False)
class Simulation:
    """What came of it.

    Attributes:
        scores: per setting and method, "none" among them, a score for every subset and exam text (subsets, items); a
            row of NaN where a student diverged or was not taught.
        troubles: the students that diverged.
        controls: methods that explain nothing.
        metric: what a score is.
        answers: as ``scores``, the numbers answered; for numbers only.
        truth: the teacher's numbers; for numbers only.
    """

    scores: Mapping[Setting, Mapping[str, Floats]]
    troubles: tuple[Failure, ...] = ()
    controls: frozenset[str] = frozenset()
    metric: str = "accuracy"
    answers: Mapping[Setting, Mapping[str, Floats]] = field(default_factory=dict)
    truth: Floats | None = None

    @property
    def settings(self) -> list[Setting]:
        """All settings, in the order in which they were asked for."""
        return list(self.scores)

    @property
    def methods(self) -> list[str]:
        """All methods but "none", in the order in which they were given."""
        return list(dict.fromkeys(name for table in self.scores.values() for name in table if name != NONE))


def lessons(model: Model, examples: Sequence[Example]) -> list[Lesson]:
    """Examples with what the model says of them: the predicted class, or the number. Gold labels are not looked at."""
    found = model.predict(examples)
    answers = [one.outputs[0] if one.is_regression else one.index for one in found]
    return [Lesson(example, answer) for example, answer in zip(examples, answers, strict=True)]


def fitting(students: Mapping[str, Student], ways: Mapping[str, WeightedChannel], task: Task) -> dict[str, list[str]]:
    """Student -> the channels that reach it and go with the task; a student without any is refused."""
    found: dict[str, list[str]] = {}
    for label, student in students.items():
        if task not in student.card.tasks:
            told = ", ".join(sorted(student.card.tasks))
            raise ParameterError(f"the student {label} cannot imitate a teacher's {task}; it knows {told}")
        names = [
            name
            for name, way in ways.items()
            if way.channel.card.name in student.card.channels and task in way.channel.card.tasks
        ]
        if not names:
            reach = ", ".join(sorted(student.card.channels))
            raise ParameterError(f"no given channel reaches the student {label} ({', '.join(ways)}); {reach} would")
        found[label] = names
    return found


def simulate(
    material: Material,
    students: Mapping[str, Student],
    ways: Mapping[str, WeightedChannel],
    plan: Plan | None = None,
    desk: Execution | None = None,
) -> Simulation:
    """Teach students with and without hints and ask them.

    Args:
        material: lessons, exam and hints.
        students: by label.
        ways: channels by label; each student is reached by those that fit it.
        plan: how many students.
        desk: where and how long.
    """
    reach = fitting(students, ways, material.task)
    work = _Work(material, students, ways, plan or Plan(), desk or Execution())
    groups = [_Group(student, size, reach[student]) for student in students for size in work.plan.sizes]
    total = sum(len(work.seats(group, range(work.plan.last))) for group in groups)
    with working("teaching students", total):
        for start in range(0, work.plan.last, work.plan.subsets):
            subsets = range(start, min(start + work.plan.subsets, work.plan.last))
            for group in groups:
                work.teach(group, subsets)
            groups = [group for group in groups if not work.is_precise(group)]
    return work.found(reach)


@dataclass(frozen=True)
class _Group:
    """Students of one kind and size; the one without hints is shared by the channels."""

    student: str
    size: int
    channels: list[str]


@dataclass(frozen=True)
class _Run:
    """One student to be taught; its channel is empty where it is told nothing."""

    student: str
    channel: str
    method: str
    size: int
    subset: int


class _Work:
    """Teaches what is not remembered, and puts the outcomes together."""

    def __init__(
        self,
        material: Material,
        students: Mapping[str, Student],
        ways: Mapping[str, WeightedChannel],
        plan: Plan,
        desk: Execution,
    ) -> None:
        self.material, self.students, self.ways, self.plan, self.desk = material, students, ways, plan, desk
        self.exam = [lesson.example for lesson in material.exam]
        self.outcomes: dict[_Run, StudentOutcome] = {}
        self.scores: dict[_Run, Floats] = {}
        self._lessons = [_lesson_mark(lesson) for lesson in material.pool]
        self._hints: dict[tuple[str, int], str] = {}
        self._common = content_hash(
            [FORMAT, material.task, material.outputs, self._lessons, [one.fingerprint for one in self.exam]]
        )

    def seats(self, group: _Group, subsets: range) -> list[_Run]:
        """The students of a group, those without hints first, then channel by channel and subset by subset."""
        none = [_Run(group.student, "", NONE, group.size, subset) for subset in subsets]
        return none + [
            _Run(group.student, channel, method, group.size, subset)
            for channel in group.channels
            for subset in subsets
            for method in self.material.hints
        ]

    def teach(self, group: _Group, subsets: range) -> None:
        """All students of a group, found or taught."""
        seats = self.seats(group, subsets)
        missing = [seat for seat in seats if not self._remembered(seat)]
        advance(len(seats) - len(missing))
        for channel in group.channels:
            # Those without hints sit beside the first channel's, where their weight of 0 keeps them apart.
            own = [seat for seat in missing if (seat.channel or group.channels[0]) == channel]
            for start in range(0, len(own), self.plan.group):
                if self.desk.enough is not None and self.desk.enough():
                    return
                self._taught(own[start : start + self.plan.group], channel)
                advance(len(own[start : start + self.plan.group]))

    def is_precise(self, group: _Group) -> bool:
        """Whether the gain of every method that is no control is known well enough."""
        if self.plan.precision is None:
            return False
        wanted = [method for method in self.material.hints if method not in self.material.controls]
        none = self._matrix(group, "", NONE, self.scores)
        for channel in group.channels:
            for method in wanted:
                gain = crossed_gain(self._matrix(group, channel, method, self.scores), none)
                if not precise_enough(gain, self.plan.precision):
                    return False
        return True

    def found(self, reach: Mapping[str, Sequence[str]]) -> Simulation:
        """Everything as matrices."""
        groups = [
            (Setting(student, channel, size), _Group(student, size, [channel]))
            for student, channels in reach.items()
            for channel in channels
            for size in self.plan.sizes
        ]
        is_number = self.material.task == "number"
        raw = {seat: _numbers(outcome) for seat, outcome in self.outcomes.items()} if is_number else {}
        return Simulation(
            {setting: self._table(setting, group, self.scores) for setting, group in groups},
            tuple(self._troubles(reach)),
            self.material.controls,
            self.material.metric,
            {setting: self._table(setting, group, raw) for setting, group in groups} if is_number else {},
            np.array([float(one.answer) for one in self.material.exam]) if is_number else None,  # type: ignore[arg-type]
        )

    def _table(self, setting: Setting, group: _Group, values: Mapping[_Run, Floats]) -> dict[str, Floats]:
        none = {NONE: self._matrix(group, "", NONE, values)}
        return none | {name: self._matrix(group, setting.channel, name, values) for name in self.material.hints}

    def _matrix(self, group: _Group, channel: str, method: str, values: Mapping[_Run, Floats]) -> Floats:
        """(subsets, items); as many rows as any student of this kind and size has."""
        of_group = [s.subset for s in self.outcomes if (s.student, s.size) == (group.student, group.size)]
        rows = np.full((max(of_group, default=-1) + 1, len(self.exam)), np.nan)
        for subset in range(len(rows)):
            seat = _Run(group.student, channel, method, group.size, subset)
            if seat in values and self.outcomes[seat].trouble is None:
                rows[subset] = values[seat]
        return rows

    def _troubles(self, reach: Mapping[str, Sequence[str]]) -> Iterator[Failure]:
        for seat, outcome in self.outcomes.items():
            if outcome.trouble is not None:
                channel = seat.channel or ("" if not reach[seat.student] else reach[seat.student][0])
                yield Failure(Setting(seat.student, channel, seat.size), seat.method, seat.subset, outcome.trouble)

    def _remembered(self, seat: _Run) -> bool:
        outcome = self.desk.memory.get(self._key(seat)) if self.desk.memory is not None else None
        if outcome is not None:
            self._keep(seat, outcome)
        return outcome is not None

    def _taught(self, seats: Sequence[_Run], channel: str) -> None:
        student, way = self.students[seats[0].student], self.ways[channel]
        lab = TaskSetup(
            self.material.task, self.material.outputs, way.channel, self.desk.device, together=self.desk.together
        )
        courses = [self._course(seat) for seat in seats]
        outcomes = student.taught(self.material.pool, courses, self.exam, lab)
        for seat, outcome in zip(seats, outcomes, strict=True):
            if self.desk.memory is not None:
                self.desk.memory.put(self._key(seat), outcome)
            self._keep(seat, outcome)

    def _keep(self, seat: _Run, outcome: StudentOutcome) -> None:
        self.outcomes[seat] = outcome
        if outcome.trouble is None:
            self.scores[seat] = item_scores(
                self.material.task, outcome.answers, self.material.exam, self.material.metric
            )

    def _course(self, seat: _Run) -> Course:
        places = self.plan.drawn(len(self.material.pool), seat.size, seat.subset)
        if not seat.channel:
            return Course(places, [None] * len(places), 0.0, self.plan.seed + seat.subset)
        hints = [self._hint(seat.method, place) for place in places.tolist()]
        return Course(places, hints, self.ways[seat.channel].weight, self.plan.seed + seat.subset)

    def _hint(self, method: str, place: int) -> Hint:
        hint = self.material.hints[method][place]
        if hint is None:
            raise InputError(f"{method} has no hint for lesson {place} of the pool, which is taught; explain it too")
        return hint

    def _key(self, seat: _Run) -> str:
        """Hash of all that decides the outcome; versions of libraries do not."""
        student = self.students[seat.student]
        places = self.plan.drawn(len(self.material.pool), seat.size, seat.subset).tolist()
        told: list[object] = []
        if seat.channel:
            way = self.ways[seat.channel]
            marks = [self._hint_mark(seat.method, place) for place in places]
            told = [way.channel.card.name, way.channel.parameters, way.weight, marks]
        course = [places, self.plan.seed + seat.subset]
        return content_hash(["student", self._common, student.card.name, student.parameters, course, told])

    def _hint_mark(self, method: str, place: int) -> str:
        if (method, place) not in self._hints:
            self._hints[method, place] = _mark(self._hint(method, place))
        return self._hints[method, place]


def _lesson_mark(lesson: Lesson) -> str:
    answer = lesson.answer if isinstance(lesson.answer, (int, float)) else repr(lesson.answer)
    return content_hash([lesson.example.fingerprint, answer])


def _mark(hint: Hint) -> str:
    digest = hashlib.sha256()
    digest.update(np.array([(one.start, one.end, one.field) for one in hint.spans], dtype=np.int64).tobytes())
    digest.update(np.asarray(hint.weights, dtype=np.float64).tobytes())
    links = [(one.start, one.end, other.start, other.end) for one, other in hint.links]
    digest.update(np.array(links, dtype=np.int64).tobytes())
    return digest.hexdigest()[:16]


def _numbers(outcome: StudentOutcome) -> Floats:
    found: Floats = np.asarray(outcome.answers, dtype=np.float64)
    return found
