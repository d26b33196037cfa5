"""What an experiment with trained explainers shows: areas and ends of learning curves, comparisons, plausibility.

A method's students of one kind and size may have learned through several channels (weights of the hints' loss); the
channel with the best mean counts for it, for static and trained explainers alike. The best static explainer is chosen
on the test texts, which is in its favour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Options
from didact.experiments.report.formatting import listed
from didact.experiments.report.page import WARNING
from didact.experiments.scaffolding.curves import AREA, END, DrawnCurve, drawn_curves, value_matrices
from didact.experiments.scaffolding.recipe import ScaffoldingRecipe
from didact.experiments.simulability.findings import SimulabilityFindings, find
from didact.simulation.gains import ALPHA
from didact.simulation.simulability import NONE, Simulation
from didact.stats.bootstrap import Interval, differences, interval
from didact.stats.compare import Compared, Comparison, compare_all
from didact.stats.crossed import Crossed, crossed_gain
from didact.stats.paired import holm
from didact.types import Floats

Role = Literal["none", "static", "trained", "control"]


@dataclass(frozen=True, order=True)
class TaughtGroup:
    """Students of one kind that learned from equally many texts."""

    student: str
    size: int

    def __str__(self) -> str:
        return f"{self.student}, {self.size:,} training texts"


@dataclass(frozen=True)
class Quartiles:
    """Median of the students, with the 25th and the 75th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, matrix: Floats) -> Quartiles:
        """Over the rows (students) that count."""
        students = matrix[np.isfinite(matrix).all(axis=1)].mean(axis=1)
        if not len(students):
            return cls(math.nan, math.nan, math.nan)
        low, median, high = np.percentile(students, [25, 50, 75]).tolist()
        return cls(median, low, high)


@dataclass(frozen=True, eq=False)
class TaughtRow:
    """Students that learned with one explainer's hints.

    Attributes:
        group: their kind and number of training texts.
        method: whose hints.
        role: what the explainer is.
        channel: the channel that counts; empty for "none".
        values: measure -> a number per student and test text, whose mean is the measure.
    """

    group: TaughtGroup
    method: str
    role: Role
    channel: str
    values: Mapping[str, Floats]

    def quartiles(self, measure: str) -> Quartiles:
        """As the paper prints them."""
        return Quartiles.of(self.values[measure])

    def mean(self, measure: str) -> float:
        """Over students and test texts."""
        matrix = self.values[measure]
        rows = matrix[np.isfinite(matrix).all(axis=1)]
        return float(rows.mean()) if rows.size else math.nan

    def over(self, other: TaughtRow, measure: str) -> Crossed:
        """The difference from other students of the same subsets, paired."""
        return _paired(self, other, measure)


@lru_cache(maxsize=512)
def _paired(first: TaughtRow, second: TaughtRow, measure: str) -> Crossed:
    """Resampling takes a while, and every format of a report shows the same differences."""
    return crossed_gain(first.values[measure], second.values[measure])


@dataclass(frozen=True)
class Claim:
    """A trained explainer against another one, by a measure.

    Attributes:
        group: of the students.
        method: the trained explainer.
        rival: "none", the best static explainer, or the first of the trained ones.
        measure: area or end.
        gain: the paired difference with its interval.
        adjusted: p after Holm's correction over all claims of this measure.
    """

    group: TaughtGroup
    method: str
    rival: str
    measure: str
    gain: Crossed
    adjusted: float = math.nan

    @property
    def holds(self) -> bool:
        """Whether the trained explainer is significantly better."""
        return self.gain.mean > 0 and self.adjusted < ALPHA


@dataclass(frozen=True, eq=False)
class ScaffoldingFindings:
    """Everything that a run shows.

    Attributes:
        taught: the findings of the simulation.
        recipe: what was done.
        trainings: facts about trained explainers.
        rated: agreement with people.
    """

    taught: SimulabilityFindings
    recipe: ScaffoldingRecipe
    trainings: Options
    rated: Options

    @classmethod
    def read(cls, folder: Path) -> ScaffoldingFindings:
        """Of a run that has taught something."""
        missing = f"{folder} is not finished: explainers.json is missing; give the same command again"
        return cls(
            find(folder, ScaffoldingRecipe.kind),
            ScaffoldingRecipe.of_run(folder),
            read_object(folder / "explainers.json", missing),
            read_object(folder / "plausibility.json", missing),
        )

    @property
    def folder(self) -> Path:
        """Of the run."""
        return self.taught.folder

    @property
    def name(self) -> str:
        """Of the run."""
        return self.taught.name

    @property
    def simulation(self) -> Simulation:
        """What the students answered."""
        return self.taught.simulation

    @cached_property
    def measures(self) -> list[str]:
        """What students are compared by; the first is the headline: the area, where there are learning curves."""
        return [AREA, END] if self.curves else [END]

    @property
    def scale(self) -> float:
        """100 where values are shown in percent."""
        return 1.0 if self.simulation.truth is not None else 100.0

    @property
    def metric(self) -> str:
        """What a value is."""
        return "Pearson's r" if self.simulation.truth is not None else self.simulation.metric

    @cached_property
    def curves(self) -> list[DrawnCurve]:
        """Learning curves of every setting and method; empty where students were tested at the end alone."""
        return drawn_curves(self.simulation)

    @cached_property
    def groups(self) -> list[TaughtGroup]:
        """Kinds of students in the order of the recipe, each with its sizes from the smallest on."""
        kinds = list(dict.fromkeys(one.student for one in self.simulation.settings))
        groups = {TaughtGroup(one.student, one.size) for one in self.simulation.settings}
        return sorted(groups, key=lambda group: (kinds.index(group.student), group.size))

    @cached_property
    def every_row(self) -> list[TaughtRow]:
        """Students of every method and channel."""
        values = value_matrices(self.simulation, self.measures)
        return [
            TaughtRow(
                TaughtGroup(setting.student, setting.size),
                method,
                self.role(method),
                "" if method == NONE else setting.channel,
                matrices,
            )
            for setting, table in values.items()
            for method, matrices in table.items()
        ]

    @cached_property
    def rows(self) -> dict[TaughtGroup, list[TaughtRow]]:
        """Per group "none", static explainers, trained ones and controls; each with its best channel."""
        best: dict[tuple[TaughtGroup, str], TaughtRow] = {}
        for row in self.every_row:
            known = best.get((row.group, row.method))
            if known is None or row.mean(self.measures[0]) > known.mean(self.measures[0]):
                best[row.group, row.method] = row
        order: list[Role] = ["none", "static", "trained", "control"]
        in_order = sorted(best.values(), key=lambda row: order.index(row.role))
        return {group: [row for row in in_order if row.group == group] for group in self.groups}

    def row_of(self, group: TaughtGroup, method: str, channel: str) -> TaughtRow | None:
        """The students of a method that learned through one channel; "none" is the same for all."""
        wanted = (group, method, "" if method == NONE else channel)
        return next((row for row in self.every_row if (row.group, row.method, row.channel) == wanted), None)

    def role(self, method: str) -> Role:
        """What a method is."""
        if method == NONE:
            return "none"
        if method in self.simulation.controls:
            return "control"
        arm = self.taught.arms.get(method)
        trained = {one.label for one in self.recipe.trained}
        return "trained" if arm is not None and arm.explainer in trained else "static"

    def row(self, group: TaughtGroup, method: str) -> TaughtRow | None:
        """The students of a method; None where there are none."""
        return next((row for row in self.rows.get(group, ()) if row.method == method), None)

    def best_static(self, group: TaughtGroup, measure: str) -> TaughtRow | None:
        """The static explainer with the best mean on the test texts."""
        static = [row for row in self.rows[group] if row.role == "static" and math.isfinite(row.mean(measure))]
        return max(static, key=lambda row: row.mean(measure), default=None)

    @cached_property
    def claims(self) -> list[Claim]:
        """Every trained explainer against none, the best static one and the first trained one, by every measure."""
        claims = []
        for measure in self.measures:
            made = [claim for group in self.groups for claim in self._claimed(group, measure)]
            adjusted = holm([one.gain.p for one in made]).tolist() if made else []
            claims += [replace(one, adjusted=p) for one, p in zip(made, adjusted, strict=True)]
        return claims

    def _claimed(self, group: TaughtGroup, measure: str) -> list[Claim]:
        trained = [row for row in self.rows[group] if row.role == "trained"]
        rivals = [self.row(group, NONE), self.best_static(group, measure), *trained[:1]]
        return [
            Claim(group, row.method, rival.method, measure, row.over(rival, measure))
            for row in trained
            for rival in rivals
            if rival is not None and rival is not row
        ]

    @cached_property
    def sentences(self) -> list[str]:
        """What the numbers say; those that begin with "Warning: " should be heeded first."""
        return [*self._headline(), *self._controls(), *self._people(), *self._troubles()]

    def _headline(self) -> list[str]:
        lines = []
        for claim in self.claims:
            if claim.measure == self.measures[0]:
                tested = "" if math.isfinite(claim.adjusted) else " (too few students to test)"
                sure = "significant" if claim.holds else "not significantly better"
                best = self.role(claim.rival) == "static"
                rival = f"the best static explainer, {claim.rival}" if best else claim.rival
                lines.append(
                    f"{claim.group}: {claim.method} against {rival}: {claim.measure} {self.points(claim.gain)}, "
                    f"{sure}{tested}."
                )
        return lines

    def _controls(self) -> list[str]:
        lines = []
        for group, rows in self.rows.items():
            none = self.row(group, NONE)
            for row in rows if none is not None else ():
                gain = row.over(none, self.measures[0]) if row.role == "control" and none is not None else None
                if gain is not None and gain.mean > 0 and gain.p < ALPHA:
                    gains = f"{row.method} explains nothing and gains {self.points(gain)} over none"
                    lines.append(f"{WARNING}{group}: {gains}; compare with it.")
        return lines

    def _people(self) -> list[str]:
        """Who agrees best with people, where the difference from all others is significant."""
        lines = []
        for data, side in self.rated_sides:
            known = {label: self.areas(data, side, label) for label in self.rated[data].get("explainers", {})}
            values = {label: own for label, own in known.items() if own is not None}
            (compared,), _ = compare_all([Compared(values)]) if values else ([None], None)
            if compared is not None and compared.best is not None:
                lines.append(f"{data}, {side}: {_leading(compared, compared.best)}.")
        return lines

    def _troubles(self) -> list[str]:
        shared, texts = (int(self.trainings["training"][key]) for key in ("also in the pool", "texts"))
        lines = [f"{shared:,} of the {texts:,} texts that explainers were trained on are in the students' pool too."]
        failed = sorted({one.method for one in self.simulation.failures})
        if failed:
            lines.append(f"{WARNING}students diverged and are left out, with hints of {listed(failed)}.")
        return lines

    # What people marked.

    @property
    def rated_sides(self) -> list[tuple[str, str]]:
        """Data with rationales, and the sides of their examples."""
        return [
            (data, side)
            for data, known in self.rated.items()
            for side in dict.fromkeys(side for own in known.get("explainers", {}).values() for side in own)
        ]

    def areas(self, data: str, side: str, label: str) -> Floats | None:
        """AUC of every text of an explainer, or of the oracle "best head" or "best layer"."""
        known = self.rated.get(data, {})
        values = known.get("explainers", {}).get(label, {}).get(side)
        if values is None:
            values = known.get("heads", {}).get(side, {}).get(label, {}).get("values")
        return None if values is None else np.array([math.nan if one is None else one for one in values])

    def agreement(self, data: str, side: str, label: str) -> Interval | None:
        """Mean AUC of an explainer or oracle with its interval over texts."""
        values = self.areas(data, side, label)
        return None if values is None else interval(values)

    def agreements(self, data: str, side: str) -> dict[str, Interval]:
        """The same of every explainer."""
        known = {label: self.agreement(data, side, label) for label in self.rated[data].get("explainers", {})}
        return {label: own for label, own in known.items() if own is not None}

    def closer(self, data: str, side: str, first: str, second: str) -> Interval | None:
        """How much closer to people an explainer is than another, text by text."""
        a, b = (self.areas(data, side, label) for label in (first, second))
        return None if a is None or b is None else interval(differences(a, b))

    # How numbers are written.

    def number(self, value: float, *, sign: bool = False) -> str:
        """A value or a difference as it is shown."""
        if not math.isfinite(value):
            return "–"
        decimals = 2 if self.scale == 100 else 4
        rounded = round(self.scale * value, decimals) + 0.0  # no minus before a zero
        return f"{rounded:{'+' if sign else ''}.{decimals}f}".replace("-", "−")

    def points(self, gain: Crossed) -> str:
        """A difference with its 95 % interval."""
        ends = f"[{self.number(gain.low, sign=True)}, {self.number(gain.high, sign=True)}]"
        return f"{self.number(gain.mean, sign=True)} {ends}"

    def spread(self, quartiles: Quartiles) -> str:
        """Median and quartiles as the paper prints them."""
        return f"{self.number(quartiles.median)} [{self.number(quartiles.low)}:{self.number(quartiles.high)}]"


def used_heads(facts: Options) -> Sequence[tuple[int, int, float]]:
    """Layer, head and weight of the heads that a trained explainer uses, the heaviest first."""
    heads = facts.get("heads")
    if not heads:
        return []
    weights = np.array(heads["weights"])
    places = [(int(heads["layers"][row]), column, float(weights[row, column])) for row, column in np.argwhere(weights)]
    return sorted(places, key=lambda place: -abs(place[2]))


def _leading(compared: Comparison, best: str) -> str:
    """Who has the highest AUC, and which others do not differ significantly."""
    mean = compared.means[compared.names.index(best)]
    tied = [name for name in compared.names if name in compared.leaders and name != best]
    if not tied:
        return f"{best} agrees best with people, AUC {mean:.3f}"
    return (
        f"{best} has the highest agreement with people, AUC {mean:.3f}, not significantly different from {listed(tied)}"
    )
