"""Simulability: an explanation is worth the accuracy it adds to a student that sees it only in training.

A student is trained on n texts to imitate the teacher and is then tested on texts that it has not seen, without hints.
It is trained without hints ("none"), with the hints of every explainer, and with the hints of controls that explain
nothing. Everything is crossed: subset s draws the same n training texts for all of them, n grows by adding texts, and
the student's seed is the subset's. ``didact.simulation.execution.simulate`` carries this out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

import numpy as np

from didact.errors import InputError, ParameterError
from didact.protocols import Model
from didact.registry import unknown
from didact.simulation.scoring import METRICS
from didact.students.base import Channel, Hint, Ints, LabelledExample, Student, StudentOutcome
from didact.students.matching import imitating, reaches, reaching
from didact.types import AnswerKind, Example, Floats, Prediction, Span

NONE = "none"
"""The method of students that are trained without hints."""

Choice = Literal["last", "best"]
"""Which of a student's tests counts as its end."""


class Memory(Protocol):
    """Where outcomes are stored, by a hash of all that decides them."""

    def get(self, key: str) -> StudentOutcome | None:
        """The outcome, or None where there is none yet."""

    def put(self, key: str, outcome: StudentOutcome) -> None:
        """Store an outcome."""


@dataclass(frozen=True)
class WeightedChannel:
    """How hints reach students: a channel, and the weight of its loss beside the task's."""

    channel: Channel
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ParameterError(
                f"the weight of {self.channel.card.name} must be above 0, got {self.weight!r}; students without hints "
                "are trained anyway"
            )


@dataclass(frozen=True)
class Plan:
    """How many students are trained, and on how many texts.

    Attributes:
        sizes: numbers of training texts.
        subsets: subsets of the pool, each with a student of its own; of a round, where ``precision`` is given.
        precision: half-width of the 95 % interval of a gain at which a setting is complete; None trains one round.
        most: subsets at most; four rounds when not given.
        seed: of the first subset and its student.
        group: students trained between two calls of the memory; what a killed run loses at most.
        curve: students are tested after every so many epochs; 0 tests them at the end alone.
        choose: which test counts as a student's end: the "last", or the "best" by the validation texts, as in SMaT.
    """

    sizes: tuple[int, ...] = (500,)
    subsets: int = 5
    precision: float | None = None
    most: int | None = None
    seed: int = 0
    group: int = 32
    curve: int = 0
    choose: Choice = "last"

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 2:
            raise ParameterError(f"sizes must be numbers of training texts, at least 2 each; got {list(self.sizes)}")
        for name in ("subsets", "group"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if self.precision is not None and not self.precision > 0:
            raise ParameterError(f"precision must be above 0 (0.01 is one point of accuracy), got {self.precision!r}")
        self._check_curve()

    def _check_curve(self) -> None:
        if self.curve < 0:
            raise ParameterError(f"curve must be a number of epochs, or 0 for no curve; got {self.curve!r}")
        if self.choose not in get_args(Choice):
            raise ParameterError(unknown("choice of a student's end", self.choose, get_args(Choice)))
        if self.choose == "best" and not self.curve:
            raise ParameterError("choose='best' compares several epochs: give curve, the epochs between two tests")

    @property
    def last(self) -> int:
        """Number of subsets at most."""
        if self.precision is None:
            return self.subsets
        return max(self.subsets, 4 * self.subsets if self.most is None else self.most)

    def drawn(self, pool: int, size: int, subset: int) -> Ints:
        """Places in the pool of one subset's training texts; those of a smaller size come first."""
        if size > pool:
            raise ParameterError(
                f"size {size} is too large: the pool has {pool} texts; give more texts or smaller sizes"
            )
        order: Ints = np.random.default_rng([self.seed, subset]).permutation(pool)
        return order[:size]

    def used(self, pool: int) -> Ints:
        """Places in the pool that any student may be trained on, in order: nothing else needs an explanation."""
        taken = [self.drawn(pool, max(self.sizes), subset) for subset in range(self.last)]
        return np.unique(np.concatenate(taken))


@dataclass(frozen=True, eq=False)
class SimulabilityData:
    """What all students of a simulation have in common.

    Attributes:
        pool: training examples that subsets are drawn from.
        test: test examples; none of their texts is in the pool.
        hints: per method one for each example of the pool; None where the plan never draws it.
        controls: methods that explain nothing.
        kind: of the teacher's answers.
        outputs: number of classes; 1 otherwise.
        metric: how an answer is compared with the teacher's; the usual metric of the kind when empty.
        validation: examples by which a student's best epoch is chosen, where the plan says so; not in pool or test.
    """

    pool: Sequence[LabelledExample]
    test: Sequence[LabelledExample]
    hints: Mapping[str, Sequence[Hint | None]]
    controls: frozenset[str] = frozenset()
    kind: AnswerKind = "class"
    outputs: int = 2
    metric: str = ""
    validation: Sequence[LabelledExample] = ()

    def __post_init__(self) -> None:
        if self.kind not in METRICS:
            raise InputError(f"students imitate answers of kind {', '.join(METRICS)}, got {self.kind!r}")
        object.__setattr__(self, "metric", self.metric or METRICS[self.kind][0])
        if not self.pool or not self.test:
            raise InputError(f"{len(self.pool)} training and {len(self.test)} test examples: both are needed")
        for name, hints in self.hints.items():
            if name == NONE:
                raise InputError(f"{NONE!r} is the name of students without hints; give the method another name")
            if len(hints) != len(self.pool):
                raise InputError(f"{name} has {len(hints)} hints for {len(self.pool)} training examples; give one each")


@dataclass(frozen=True)
class Execution:
    """Where and how long students are trained.

    Attributes:
        device: "cpu" or "cuda".
        together: students trained at once; None leaves it to the student.
        memory: outcomes of earlier simulations; None trains everything anew.
        enough: called before every group; true ends the simulation with the outcomes so far.
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
    """A student whose answers do not count, and why."""

    setting: Setting
    method: str
    subset: int
    why: str


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """Scores of all students during their training, by setting.

    Attributes:
        epochs: after which students were tested.
        steps: of the optimizer until then.
        scores: per method a score for every subset, point and test text (subsets, points, items); NaN for all of a
            student that failed or was not trained.
        answers: likewise, the predicted numbers; for numbers only.
    """

    epochs: Mapping[Setting, tuple[int, ...]] = field(default_factory=dict)
    steps: Mapping[Setting, tuple[int, ...]] = field(default_factory=dict)
    scores: Mapping[Setting, Mapping[str, Floats]] = field(default_factory=dict)
    answers: Mapping[Setting, Mapping[str, Floats]] = field(default_factory=dict)

    def means(self, setting: Setting, method: str) -> Floats:
        """The mean score over test texts of every student at every point (subsets, points)."""
        return np.asarray(self.scores[setting][method].mean(-1))


@dataclass(frozen=True, eq=False)
class Simulation:
    """Scores of all students.

    Attributes:
        scores: per setting and method, "none" among them, a score for every subset and test text (subsets, items); a
            row of NaN where a student failed or was not trained.
        failures: the students that failed.
        controls: methods that explain nothing.
        metric: what a score is.
        answers: as ``scores``, the predicted numbers; for numbers only.
        truth: the teacher's numbers; for numbers only.
        curves: scores during the training; empty where the plan has no curve.
    """

    scores: Mapping[Setting, Mapping[str, Floats]]
    failures: tuple[Failure, ...] = ()
    controls: frozenset[str] = frozenset()
    metric: str = "accuracy"
    answers: Mapping[Setting, Mapping[str, Floats]] = field(default_factory=dict)
    truth: Floats | None = None
    curves: LearningCurves = field(default_factory=LearningCurves)

    @property
    def settings(self) -> list[Setting]:
        """All settings, in order."""
        return list(self.scores)

    @property
    def methods(self) -> list[str]:
        """All methods but "none", in the order in which they were given."""
        return list(dict.fromkeys(name for table in self.scores.values() for name in table if name != NONE))


def teacher_answers(model: Model, examples: Sequence[Example]) -> list[LabelledExample]:
    """Examples with the model's predictions: the class's index, the number or the span. Gold labels are not used.

    Raises:
        InputError: the model predicts that a question has no answer, or an answer that is no place in the input.
    """
    return [
        LabelledExample(example, _imitated(example, prediction))
        for example, prediction in zip(examples, model.predict(examples), strict=True)
    ]


def _imitated(example: Example, prediction: Prediction) -> int | float | Span:
    if prediction.kind == "class":
        return prediction.index
    if prediction.kind == "number":
        return prediction.outputs[0]
    if not isinstance(prediction.extract, Span) or prediction.extract.start == prediction.extract.end:
        raise InputError(
            f"the model predicts {prediction.label!r} for {example.preview}, and students imitate classes, numbers and "
            "spans of the input; leave it out"
        )
    return prediction.extract


def matching_channels(
    students: Mapping[str, Student], channels: Mapping[str, WeightedChannel], kind: AnswerKind
) -> dict[str, list[str]]:
    """Student -> the given channels that reach it and go with the kind of answer.

    Raises:
        ParameterError: a student cannot imitate such answers, or no channel reaches it.
    """
    matches: dict[str, list[str]] = {}
    for label, student in students.items():
        card = student.card
        if kind not in card.answers:
            raise ParameterError(
                f"the student {label} cannot imitate answers of kind {kind!r}, only {', '.join(sorted(card.answers))}; "
                f"students that can: {', '.join(imitating(kind)) or 'none that is registered'}"
            )
        names = [name for name, weighted in channels.items() if reaches(weighted.channel.card, card, kind)]
        if not names:
            would = ", ".join(reaching(card, kind)) or "none that is registered"
            raise ParameterError(f"no given channel reaches the student {label} ({', '.join(channels)}); {would} would")
        matches[label] = names
    return matches
