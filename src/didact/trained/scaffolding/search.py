"""Search for the attention heads that teach best: candidates are taught to short-lived students, and the best compared.

A mix of heads has tens of numbers, so trying mixes is an honest rival of every gradient. The search goes from coarse to
fine: whole layers, the heads of the best layers, sets and mixes of the best heads, and temperatures of the best of all.
Candidates are compared on the same students (training texts and seeds), by the gain in area under the learning curve
over the mean of all heads.

    racing      every round adds students to the candidates that may still be the best (``didact.stats.racing``)
    halving     every round doubles the students and keeps the better half
    evolution   mixes drawn around the best, generation by generation

Whoever comes out first of many was also lucky. So the finalists are taught to *fresh* students, which alone decide
the ranking and its intervals.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, get_type_hints

import numpy as np
import torch

from didact.errors import ParameterError
from didact.ops.simplex import sparsemax
from didact.registry import unknown
from didact.settings import allowed, fits
from didact.stats.crossed import Crossed, crossed_gain
from didact.stats.racing import may_be_best
from didact.types import Floats

SearchKind = Literal["racing", "halving", "evolution"]

ALL = "all heads"
"""The mean of all heads: what every candidate is compared with."""

FRESH = 1_000_000
"""Added to the seed of the students that finalists are compared on."""

NARROWER = 0.7
"""Spread of a generation's mixes, of the one's before."""


@dataclass(frozen=True, kw_only=True)
class HeadSearchConfig:
    """How heads are searched.

    Args:
        kind: "racing", "halving" or "evolution".
        students: per candidate in the first round.
        rounds: most rounds of a race, or generations.
        layers: so many of the best layers have their heads tried one by one.
        sets: sizes of the sets of best heads that are tried.
        temperatures: the best candidate is tried with its scores divided by each of these, too.
        finalists: candidates that are compared on fresh students, besides all heads.
        final_students: fresh students of each finalist.
        level: confidence with which a race leaves a candidate behind.
        mixes: of a generation.
        spread: of the first generation's mixes around the best candidates.
        seed: of the first student, and of what is drawn.
    """

    kind: SearchKind = "racing"
    students: int = 2
    rounds: int = 3
    layers: int = 3
    sets: tuple[int, ...] = (2, 4, 8)
    temperatures: tuple[float, ...] = (0.5, 2.0)
    finalists: int = 4
    final_students: int = 6
    level: float = 0.95
    mixes: int = 16
    spread: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets", tuple(self.sets))
        object.__setattr__(self, "temperatures", tuple(map(float, self.temperatures)))
        for name, hint in get_type_hints(HeadSearchConfig).items():
            if not fits(getattr(self, name), hint):
                raise ParameterError(
                    f"{name} of search must be {' or '.join(allowed(hint))}, got {getattr(self, name)!r}"
                )
        for name in ("students", "rounds", "layers", "finalists", "final_students", "mixes"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} of search must be at least 1, got {getattr(self, name)!r}")
        if any(size < 2 for size in self.sets):
            raise ParameterError(f"sets of search are sizes of at least 2 heads, got {list(self.sets)}")
        if not all(0 < one < math.inf for one in self.temperatures):
            raise ParameterError(f"temperatures of search must be above 0, got {list(self.temperatures)}")
        if not 0.5 < self.level < 1:
            raise ParameterError(f"level of search must be above 0.5 and below 1, got {self.level!r}")
        if not self.spread > 0 or self.seed < 0:
            raise ParameterError(
                f"spread of search must be above 0 and its seed not negative, got {self.spread!r} and {self.seed!r}"
            )

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """A configuration with these settings; the error for an unknown one names it."""
        names = [item.name for item in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                raise ParameterError(unknown("setting of search", name, names))
        return cls(**settings)  # type: ignore[arg-type] # checked when it is made

    def most_students(self, layers: int, heads: int) -> int:
        """How many students are trained at most, where so many layers have so many heads each; a race takes fewer."""
        coarse, each = self._most_selected(1 + (layers if layers > 1 else 0))
        fine, _ = self._most_selected(min(self.layers, layers) * heads)
        mixed = len(self.sets) + 1 + len(self.temperatures) + (self.mixes * self.rounds if self._evolves else 0)
        all_heads = each - self.students  # they go on with the last candidate, whatever they gain
        return coarse + all_heads + fine + mixed * self.students + (1 + self.finalists) * self.final_students

    def _most_selected(self, candidates: int) -> tuple[int, int]:
        """Students of a stage in which candidates are left behind or not, and those of the last candidate."""
        most, left, each = candidates * self.students, candidates, self.students
        for _ in range(0 if self._evolves else self.rounds - 1):
            halves = self.kind == "halving"
            left, more = (-(-left // 2), each) if halves else (left, self.students)
            most, each = most + left * more, each + more
        return most, each

    @property
    def _evolves(self) -> bool:
        return self.kind == "evolution"


@dataclass(frozen=True, eq=False)
class HeadCandidate:
    """Weights of heads that an explanation is mixed with.

    Attributes:
        name: such as "layer 5", "layer 5, head 3" or "best 4 heads".
        weights: (layers x heads,), layer by layer; they sum to 1.
        temperature: divides the mixed scores.
    """

    name: str
    weights: Floats
    temperature: float = 1.0


class AreaGrader(Protocol):
    """Teaches candidates to students and measures how fast these learn."""

    def __call__(self, candidates: Sequence[HeadCandidate], students: int, seed: int) -> Floats:
        """Area under the learning curve (candidates, students, items), higher is better.

        Student s of a seed has the same texts and first weights for all candidates, whenever it is called. A student
        that failed has NaN.
        """


@dataclass(frozen=True, eq=False)
class RankedCandidate:
    """A finalist on fresh students.

    Attributes:
        name: of the candidate.
        weights: of the heads (layers x heads,).
        temperature: divides the mixed scores.
        area: mean area under the learning curve.
        gain: mean difference in area from the mean of all heads, on the same students.
        low: lower end of its 95 % interval; NaN where there are too few students for one.
        high: upper end.
        students: that count.
    """

    name: str
    weights: Floats
    temperature: float
    area: float
    gain: float
    low: float
    high: float
    students: int

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; None for NaN."""
        values = dataclasses.asdict(self) | {"weights": [round(weight, 6) for weight in self.weights.tolist()]}
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in values.items()}


@dataclass(frozen=True, eq=False)
class HeadSearchResult:
    """What a search came to.

    Attributes:
        ranked: finalists and the mean of all heads on fresh students, the best first.
        tried: candidates that were taught to any student.
        students: that were trained, fresh ones included.
    """

    ranked: tuple[RankedCandidate, ...]
    tried: int
    students: int

    @property
    def best(self) -> RankedCandidate:
        """The candidate with the largest area on fresh students."""
        return self.ranked[0]

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        ranked = [candidate.to_dict() for candidate in self.ranked]
        return {"ranked": ranked, "tried": self.tried, "students": self.students}


def search_heads(layers: Sequence[int], heads: int, grade: AreaGrader, config: HeadSearchConfig) -> HeadSearchResult:
    """The mixes of heads that teach best.

    Args:
        layers: numbers of the layers whose heads are mixed, for the names.
        heads: of each layer.
        grade: teaches candidates to students.
        config: kind and size of the search.
    """
    grid = _Grid(list(layers), heads)
    trials = _Trials(grade, config)
    best_layers = _selected(trials, [grid.mean(), *grid.whole_layers()])
    rows = [grid.rows[name] for name in best_layers if name in grid.rows]
    ranked = _selected(trials, grid.single_heads(rows[: config.layers]))
    trials.add(_sets(trials, [trials.candidates[name] for name in ranked], config.sets))
    if config.kind == "evolution":
        _evolve(trials)
    trials.add(_tempered(trials))
    finalists = [trials.candidates[name] for name in trials.order() if name != ALL]
    return trials.final([grid.mean(), *finalists[: config.finalists]])


@dataclass(frozen=True)
class _Grid:
    """Names and weights of the simplest candidates."""

    layers: list[int]
    heads: int

    @property
    def rows(self) -> dict[str, int]:
        return {f"layer {number}": row for row, number in enumerate(self.layers)}

    def mean(self) -> HeadCandidate:
        return HeadCandidate(ALL, np.full(len(self.layers) * self.heads, 1 / (len(self.layers) * self.heads)))

    def whole_layers(self) -> list[HeadCandidate]:
        share = np.eye(len(self.layers)).repeat(self.heads, axis=1) / self.heads
        return [HeadCandidate(name, share[row]) for name, row in self.rows.items()] if len(self.layers) > 1 else []

    def single_heads(self, rows: Sequence[int]) -> list[HeadCandidate]:
        one = np.eye(len(self.layers) * self.heads)
        chosen = sorted(rows) or range(len(self.layers))
        return [
            HeadCandidate(f"layer {self.layers[row]}, head {head}", one[row * self.heads + head])
            for row in chosen
            for head in range(self.heads)
        ]


class _Trials:
    """All candidates so far, and the areas of their students."""

    def __init__(self, grade: AreaGrader, config: HeadSearchConfig) -> None:
        self.grade, self.config = grade, config
        self.candidates: dict[str, HeadCandidate] = {}
        self.areas: dict[str, Floats] = {}  # name -> (students, items)
        self.trained = 0

    def add(self, candidates: Sequence[HeadCandidate], students: int | None = None) -> None:
        """Teach candidates to so many students in all; those that they had before count."""
        wanted = students or self.config.students
        self.candidates |= {one.name: one for one in candidates}
        named = dict.fromkeys([ALL, *(one.name for one in candidates)])
        due = [self.candidates[name] for name in named if len(self.areas.get(name, ())) < wanted]
        if due:
            areas = self.grade(due, wanted, self.config.seed)
            self.trained += sum(wanted - len(self.areas.get(one.name, ())) for one in due)
            self.areas |= {one.name: area for one, area in zip(due, areas, strict=True)}

    def gain(self, name: str) -> float:
        """Mean gain over all heads on the students of a candidate; -inf where one of them failed."""
        own = self.areas[name]
        gain = float((own - self.areas[ALL][: len(own)]).mean())
        return gain if math.isfinite(gain) else -math.inf

    def order(self) -> list[str]:
        """Names of all candidates, the best first."""
        return sorted(self.areas, key=self.gain, reverse=True)

    def final(self, candidates: Sequence[HeadCandidate]) -> HeadSearchResult:
        """Candidates on fresh students, ranked; the first is the mean of all heads."""
        students, seed = self.config.final_students, self.config.seed + FRESH
        areas = self.grade(candidates, students, seed)
        gains = [crossed_gain(area, areas[0]) for area in areas]
        pairs = zip(candidates, areas, gains, strict=True)
        ranked = sorted((_ranked(*each) for each in pairs), key=_standing, reverse=True)
        if math.isnan(ranked[0].area):
            raise ParameterError(
                "every student of the search failed in training; lower their learning rate or the weight of the "
                "explanations (beta)"
            )
        return HeadSearchResult(tuple(ranked), len(self.areas), self.trained + len(candidates) * students)


def _ranked(candidate: HeadCandidate, areas: Floats, gain: Crossed) -> RankedCandidate:
    whole = areas[np.isfinite(areas).all(axis=1)]
    area = float(whole.mean()) if whole.size else math.nan
    own = (candidate.name, candidate.weights, candidate.temperature)
    return RankedCandidate(*own, area, gain.mean, gain.low, gain.high, len(whole))


def _standing(candidate: RankedCandidate) -> float:
    """What finalists are ranked by: the gain, which compares the same students also where some failed."""
    return -math.inf if math.isnan(candidate.gain) else candidate.gain


def _selected(trials: _Trials, candidates: Sequence[HeadCandidate]) -> list[str]:
    """Names of the candidates by how long they stayed, then by gain; the best first."""
    config = trials.config
    left, behind, students = [one.name for one in candidates], list[str](), config.students
    trials.add(candidates)
    for _ in range(config.rounds - 1 if config.kind != "evolution" else 0):
        kept = _kept(trials, left)
        behind = sorted(set(left) - set(kept), key=trials.gain, reverse=True) + behind
        left = kept
        if len(left) <= 1:
            break
        students = 2 * students if config.kind == "halving" else students + config.students
        trials.add([trials.candidates[name] for name in left], students)
    return sorted(left, key=trials.gain, reverse=True) + behind


def _kept(trials: _Trials, names: Sequence[str]) -> list[str]:
    """Candidates that stay for the next round."""
    sound = [name for name in names if math.isfinite(trials.gain(name))]
    if trials.config.kind == "halving":
        return sorted(sound, key=trials.gain, reverse=True)[: -(-len(sound) // 2)]
    if not sound:
        return []
    means = np.stack([trials.areas[name].mean(axis=1) for name in sound])
    return [name for name, stays in zip(sound, may_be_best(means, level=trials.config.level), strict=True) if stays]


def _sets(trials: _Trials, ranked: Sequence[HeadCandidate], sizes: Sequence[int]) -> list[HeadCandidate]:
    """Means of the best heads, and the heads that beat the mean of all, weighted by their gain."""
    sets = [
        HeadCandidate(f"best {size} heads", np.mean([one.weights for one in ranked[:size]], axis=0))
        for size in sizes
        if size <= len(ranked)
    ]
    gains = np.array([max(trials.gain(one.name), 0.0) for one in ranked])
    if np.count_nonzero(gains) > 1:
        weights = gains / gains.sum() @ np.stack([one.weights for one in ranked])
        sets.append(HeadCandidate("heads weighted by gain", weights))
    return sets


def _tempered(trials: _Trials) -> list[HeadCandidate]:
    """The best candidate with other temperatures."""
    best = next((trials.candidates[name] for name in trials.order() if name != ALL), None)
    names = {t: f"temperature {t:g}" for t in trials.config.temperatures}
    if best is None:
        return []
    return [dataclasses.replace(best, name=f"{best.name}, {words}", temperature=t) for t, words in names.items()]


def _evolve(trials: _Trials) -> None:
    """Generations of mixes around the mean of the best candidates, drawn closer and closer to it."""
    config, spread = trials.config, trials.config.spread
    for generation in range(config.rounds):
        centre = _centre(trials)
        noise = np.random.default_rng([config.seed, generation]).standard_normal((config.mixes, len(centre)))
        drawn = sparsemax(torch.from_numpy(centre + spread * noise)).numpy()
        names = [f"mix {generation + 1}.{number + 1}" for number in range(config.mixes)]
        trials.add([HeadCandidate(name, weights) for name, weights in zip(names, drawn, strict=True)])
        spread *= NARROWER


def _centre(trials: _Trials) -> Floats:
    """Mean of the best quarter of as many candidates as a generation has; better ones count more."""
    best = [trials.candidates[name].weights for name in trials.order()[: max(2, trials.config.mixes // 4)]]
    share = math.log(len(best) + 0.5) - np.log(np.arange(1, len(best) + 1))
    return np.asarray(share / share.sum() @ np.stack(best))
