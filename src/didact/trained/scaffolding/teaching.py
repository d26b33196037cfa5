"""Fresh students that learn from frozen explanations, tested while they learn: what explanations are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from didact.protocols import Heads, Model
from didact.simulation.execution import simulate
from didact.simulation.gains import scores
from didact.simulation.hints import Distribution, distribution
from didact.simulation.simulability import (
    NONE,
    Execution,
    Memory,
    Plan,
    SimulabilityData,
    WeightedChannel,
    teacher_answers,
)
from didact.stats.crossed import crossed_gain
from didact.store.outcomes import OutcomeStore
from didact.store.parts import Parts
from didact.students.base import Hint, Ints, LabelledExample, Student, StudentOutcome
from didact.trained.held_out_teaching import HeldOutTeaching
from didact.trained.scaffolding.search import HeadCandidate
from didact.types import AnswerKind, Example, Floats, Units

HintsOf = Callable[[Sequence[int]], Sequence[Hint]]
"""From places in the pool to the hints of these texts."""

GROUP = 64
"""Students that are trained before their answers are stored: texts are read and the network is loaded once for all."""


@dataclass(frozen=True, eq=False)
class TeachingTexts:
    """Texts with the teacher's answers.

    Attributes:
        pool: texts that students learn from.
        units: of the pool's texts.
        test: texts that students are tested on.
        kind: of the answers.
        outputs: number of classes; 1 for a number.
    """

    pool: Sequence[LabelledExample]
    units: Sequence[Units]
    test: Sequence[LabelledExample]
    kind: AnswerKind
    outputs: int

    @classmethod
    def of(cls, model: Model, units: Sequence[Units], test: Sequence[Example]) -> TeachingTexts:
        """Let the model answer; texts without units teach nothing and are left out.

        Args:
            model: the explained model, which students imitate.
            units: of the texts to learn from.
            test: texts to test on.
        """
        units = [own for own in units if len(own)]
        pool, tested = (teacher_answers(model, some) for some in ([own.example for own in units], test))
        kind: AnswerKind = "class" if isinstance(pool[0].answer, int) else "number"
        return cls(pool, units, tested, kind, len(model.labels) if kind == "class" else 1)


@dataclass(frozen=True, kw_only=True)
class FreshStudents:
    """Which students are taught, and where.

    Attributes:
        student: their kind.
        channel: how explanations reach them.
        examples: texts that each learns from; half of the pool at most, so that not all learn from the same.
        curve: they are tested after every so many epochs.
        device: "cpu" or "cuda".
        explanation: how the scores of a mix of heads become weights of units.
        memory: where answers of trained students are stored; a killed call finds them again.
    """

    student: Student
    channel: WeightedChannel
    examples: int
    curve: int = 1
    device: str = "cpu"
    explanation: Distribution = "softmax"
    memory: Memory = field(default_factory=lambda: InMemory())


@dataclass(frozen=True, eq=False)
class Taught:
    """What students reached, by what they were taught; higher is better.

    Attributes:
        areas: mean of the metric over the learning curve, on each test text (students, items).
        ends: the metric after the last epoch (students, items).
        examples: training texts of each student.
    """

    areas: Mapping[str, Floats]
    ends: Mapping[str, Floats]
    examples: int


def teach(texts: TeachingTexts, fresh: FreshStudents, hints: Mapping[str, HintsOf], students: int, seed: int) -> Taught:
    """Train students on each kind of hints, and as many on none ("none"), all as one program.

    Student s of a seed has the same training texts and first weights for all kinds of hints. The metric is accuracy, or
    for numbers the correlation with the teacher's.
    """
    examples = max(2, min(fresh.examples, len(texts.pool) // 2))
    plan = Plan(sizes=(examples,), subsets=students, seed=seed, curve=fresh.curve, group=GROUP)
    used = plan.used(len(texts.pool))
    given = {name: _placed(of, used, len(texts.pool)) for name, of in hints.items()}
    data = SimulabilityData(texts.pool, texts.test, given, kind=texts.kind, outputs=texts.outputs)
    execution = Execution(fresh.device, memory=fresh.memory)
    simulation = simulate(data, {"student": fresh.student}, {"channel": fresh.channel}, plan, execution)
    end, area = (simulation.metric, "area") if texts.kind == "class" else ("pearson", "pearson_area")
    (areas,), (ends,) = scores(simulation, area).values(), scores(simulation, end).values()
    return Taught(areas, ends, examples)


class HeadTeacher:
    """Grades mixes of heads by students that learn from them: the ``AreaGrader`` of a search.

    Args:
        model: the explained model.
        texts: to learn from and to be tested on.
        fresh: the students.
        layers: whose heads are mixed; all when not given.
        temperature: divides the mixed scores.
    """

    def __init__(
        self,
        model: Model,
        texts: TeachingTexts,
        fresh: FreshStudents,
        layers: Sequence[int] | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.texts, self.fresh, self.temperature = texts, fresh, temperature
        self._heads = [own.double().numpy() for own in cast("Heads", model).head_scores(texts.units, layers)]

    def __call__(self, candidates: Sequence[HeadCandidate], students: int, seed: int) -> Floats:
        """Area under the learning curve (candidates, students, items)."""
        hints = {one.name: self.hints(one.weights, one.temperature) for one in candidates}
        taught = teach(self.texts, self.fresh, hints, students, seed)
        return np.stack([taught.areas[one.name] for one in candidates])

    def hints(self, weights: Floats, temperature: float = 1.0) -> HintsOf:
        """Explanations by a mix: the softmax over a text's units of sum over heads of weight x score / temperature."""
        kind, divisor = self.fresh.explanation, temperature * self.temperature

        def of(places: Sequence[int]) -> list[Hint]:
            mixed = ((place, weights @ self._heads[place]) for place in places)
            return [Hint(self.texts.units[place].regions, distribution(own, kind, divisor)) for place, own in mixed]

        return of


def compared(taught: Taught, own: str, mean: str) -> HeldOutTeaching:
    """What explanations ``own`` are worth beside ``mean``, those of the mean of all heads, and none."""
    areas, ends = ([table[name] for name in (own, mean, NONE)] for table in (taught.areas, taught.ends))
    over_mean, over_none = (crossed_gain(areas[0], other) for other in areas[1:])
    at_end = crossed_gain(ends[0], ends[1])
    return HeldOutTeaching(
        n=over_none.items,
        students=over_none.subsets,
        examples=taught.examples,
        area=_mean(areas[0]),
        area_of_mean=_mean(areas[1]),
        area_of_none=_mean(areas[2]),
        gain=over_mean.mean,
        low=over_mean.low,
        high=over_mean.high,
        gain_over_none=over_none.mean,
        low_over_none=over_none.low,
        high_over_none=over_none.high,
        end=_mean(ends[0]),
        end_of_mean=_mean(ends[1]),
        end_of_none=_mean(ends[2]),
        end_gain=at_end.mean,
        end_low=at_end.low,
        end_high=at_end.high,
    )


class InMemory:
    """Outcomes of this process alone."""

    def __init__(self) -> None:
        self._known: dict[str, StudentOutcome] = {}

    def get(self, key: str) -> StudentOutcome | None:
        """The outcome, or None where there is none yet."""
        return self._known.get(key)

    def put(self, key: str, outcome: StudentOutcome) -> None:
        """Store an outcome."""
        self._known[key] = outcome


def on_disk(parts: Parts) -> Memory:
    """Outcomes in a folder, which a killed call finds again."""
    return OutcomeStore(parts, StudentOutcome.stored)


def _placed(of: HintsOf, used: Ints, pool: int) -> list[Hint | None]:
    """A hint for every text of the pool that some student learns from."""
    hints: list[Hint | None] = [None] * pool
    for place, hint in zip(used.tolist(), of(used.tolist()), strict=True):
        hints[place] = hint
    return hints


def _mean(values: Floats) -> float:
    whole = values[np.isfinite(values).all(axis=1)]
    return float(whole.mean()) if whole.size else float("nan")
