"""A run's folder, and everything its report says: gains, noise, bits, other metrics, and sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from didact.errors import FormatError, InputError
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Options
from didact.experiments.report.formatting import listed, plural, two_decimals
from didact.experiments.simulability.arms import Arm
from didact.experiments.simulability.recipe import KIND
from didact.experiments.simulability.records import from_records
from didact.simulation.gains import Gain, SimulabilityGains, compute_gains
from didact.simulation.simulability import NONE, Setting, Simulation
from didact.stats.correlation import tau
from didact.stats.crossed import FEWEST_SUBSETS, crossed_interval
from didact.store import records

PERCENT = ("accuracy", "f1", "exact")


@dataclass(frozen=True)
class NoiseLevel:
    """A point of a curve: where it stands, the mean and its 95 % interval."""

    at: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class NoiseCurve:
    """How something changes with noise or with bits.

    Attributes:
        setting: where.
        explainer: whose hints; with the format, or the noise, where it has several curves.
        levels: in growing order.
        pearson: correlation of the level with the score over all students; NaN where it is not defined.
        pearson_of_means: the same over the levels' means.
    """

    setting: Setting
    explainer: str
    levels: tuple[NoiseLevel, ...]
    pearson: float
    pearson_of_means: float


@dataclass(frozen=True)
class RankedAlike:
    """Kendall's tau between a metric's ranking of the explainers and the students'."""

    metric: str
    setting: str
    tau: float
    p: float
    methods: int


@dataclass(frozen=True, eq=False)
class SimulabilityFindings:
    """What a folder holds.

    Attributes:
        folder: of the run.
        manifest: what was run.
        extras: overlap of hints and grades of explanations.
        simulation: what the students answered.
    """

    folder: Path
    manifest: Options
    extras: Options
    simulation: Simulation

    @property
    def name(self) -> str:
        """Of the run."""
        return str(self.manifest.get("name") or self.folder.resolve().name)

    @cached_property
    def verdict(self) -> SimulabilityGains:
        """Gains, ranks and agreements."""
        return compute_gains(self.simulation)

    @cached_property
    def further(self) -> list[SimulabilityGains]:
        """The same by correlation and by root mean square error, where numbers were imitated."""
        return [compute_gains(self.simulation, name) for name in ("pearson", "rmse")] if self.simulation.answers else []

    @cached_property
    def arms(self) -> dict[str, Arm]:
        """The groups of students, by what each was trained with."""
        return {row["label"]: Arm(**row) for row in self.manifest.get("arms", ())}

    @property
    def scale(self) -> float:
        """100 where scores are shown in percent."""
        return 100.0 if self.verdict.metric in PERCENT else 1.0

    @cached_property
    def noise(self) -> list[NoiseCurve]:
        """Score against noise, where hints had several levels of it."""
        return self._curves(lambda arm: arm.noise, lambda arm: arm.format)

    @cached_property
    def bits(self) -> list[NoiseCurve]:
        """Gain against bits, where hints of an explainer had several formats."""
        return self._curves(lambda arm: arm.bits, lambda arm: f"noise {arm.noise:g}", gains=True)

    @cached_property
    def metrics(self) -> list[RankedAlike]:
        """Whether metrics rank the explainers as the students do, setting by setting and by average rank."""
        agreements = []
        plain = {arm.explainer: arm.label for arm in reversed(self.arms.values()) if not arm.control}
        for metric, given in self.extras.get("metrics", {}).items():
            sign = 1 if given["higher_is_better"] else -1
            graded = {plain[name]: sign * value for name, value in given["values"].items() if name in plain}
            rankings = {setting_label(setting): _scores(self.verdict.of(setting)) for setting in self.verdict.settings}
            rankings["average rank"] = {name: -rank for name, rank in self.verdict.ranks.items()}
            for setting, scores in rankings.items():
                agreement = tau(graded, scores)
                agreements.append(RankedAlike(metric, setting, agreement.value, agreement.p, agreement.n))
        return agreements

    @cached_property
    def sentences(self) -> list[str]:
        """The findings in words; those that begin with "Warning: " should be heeded first."""
        return [*self._best(), *self._gains(), *self._controls(), *self._curves_in_words(), *self._troubles()]

    def _curves(
        self, at: Callable[[Arm], float], group: Callable[[Arm], str], *, gains: bool = False
    ) -> list[NoiseCurve]:
        drawn = []
        real = [arm for arm in self.arms.values() if not arm.control]
        for setting in self.simulation.settings:
            groups: dict[tuple[str, str], list[Arm]] = {}
            for arm in (arm for arm in real if arm.label in self.simulation.scores[setting]):
                groups.setdefault((arm.explainer, group(arm)), []).append(arm)
            curves = {key: sorted(arms, key=at) for key, arms in groups.items() if len({at(arm) for arm in arms}) > 1}
            owners = [explainer for explainer, _ in curves]
            for (explainer, kind), arms in curves.items():
                name = f"{explainer}, {kind}" if owners.count(explainer) > 1 else explainer
                drawn.append(self._curve(setting, name, arms, [at(arm) for arm in arms], gains))
        return drawn

    def _curve(
        self, setting: Setting, explainer: str, arms: Sequence[Arm], places: Sequence[float], gains: bool
    ) -> NoiseCurve:
        table = self.simulation.scores[setting]
        matrices = [table[arm.label] - table[NONE] if gains else table[arm.label] for arm in arms]
        ends = [crossed_interval(matrix) for matrix in matrices]
        points = [
            (place, row.mean())
            for place, matrix in zip(places, matrices, strict=True)
            for row in matrix
            if np.isfinite(row).all()
        ]
        levels = tuple(NoiseLevel(x, e.mean, e.low, e.high) for x, e in zip(places, ends, strict=True))
        means = [(level.at, level.mean) for level in levels if math.isfinite(level.mean)]
        return NoiseCurve(setting, explainer, levels, _pearson(points), _pearson(means))

    def _best(self) -> list[str]:
        """Which explanations teach, and whether one of them teaches best: only by significant differences."""
        verdict, many = self.verdict, len(self.verdict.settings)
        if not verdict.settings:
            return []
        if not verdict.enough:
            return [
                f"Not enough students or test texts for a verdict: with {verdict.tests:,} claims to test at least "
                f"{FEWEST_SUBSETS} students of a kind and {verdict.fewest} test texts are needed."
            ]
        where = f"of {many} {plural(many, 'setting', 'settings')}"
        if not self.simulation.controls:
            gaining = _counted(one.method for one in verdict.gains if one.helps)
            if not gaining:
                return ["No explanation is shown to teach better than none."]
            return [f"{_with_counts(gaining, where, ('gains', 'gain'))} over none; controls are missing."]
        leading = _counted(one.method for one in verdict.gains if one.leads)
        if leading:
            names = listed([f"{name} teaches best in {count}" for name, count in leading.items()])
            return [
                f"{names} {where}: significantly better there than none, every control and every other explanation."
            ]
        helping = _counted(one.method for one in verdict.gains if one.teaches)
        if not helping:
            return ["No explanation is shown to teach better than none and than the controls."]
        rest = "" if len(self._real) == 1 else "; none is significantly better than all others"
        return [f"{_with_counts(helping, where, ('helps', 'help'))}{rest}."]

    @property
    def _real(self) -> list[str]:
        """Methods that are no controls."""
        return [name for name in self.simulation.methods if name not in self.simulation.controls]

    def _gains(self) -> list[str]:
        if not self.verdict.enough:
            return []
        sentences = []
        for setting in self.verdict.settings:
            rows = [one for one in self.verdict.of(setting) if one.method != NONE and not one.control]
            helping = sorted((one for one in rows if one.teaches), key=lambda one: -one.gain)
            doubtful = [one.method for one in rows if one.helps and not one.teaches]
            if helping:
                names = listed([f"{one.method} ({self.points(one)})" for one in helping])
                sentences.append(f"{setting_label(setting)}: {names} {plural(helping, 'helps', 'help')} significantly.")
            elif rows and (self.simulation.controls or not doubtful):
                sentences.append(f"{setting_label(setting)}: no explanation helps significantly.")
            if doubtful:
                but = ", but not significantly more than every control" if self.simulation.controls else ""
                gain = f"{plural(doubtful, 'gains', 'gain')} significantly over none{but}"
                sentences.append(f"{setting_label(setting)}: {listed(doubtful)} {gain}.")
        return sentences

    def _controls(self) -> list[str]:
        rows = [one for one in self.verdict.gains if one.control]
        if not rows:
            return ["Warning: there are no controls, so a gain may be due to any hint at all."]
        gaming = [one for one in rows if one.helps]
        if not gaming:
            names = listed(list(dict.fromkeys(one.method for one in rows)))
            return [f"No control ({names}) gains significantly."] if self.verdict.enough else []
        return [
            f"Warning: {one.method} explains nothing and gains {self.points(one)} in {setting_label(one.setting)}; "
            "compare with it, not with none."
            for one in gaming
        ]

    def _curves_in_words(self) -> list[str]:
        return [
            f"{setting_label(curve.setting)}: the correlation of noise and score is {two_decimals(curve.pearson)} over "
            f"students, {two_decimals(curve.pearson_of_means)} over levels ({curve.explainer})."
            for curve in self.noise
            if math.isfinite(curve.pearson)
        ]

    def _troubles(self) -> list[str]:
        count = self.verdict.diverged
        if not count:
            return []
        return [f"{count} {plural(count, 'student', 'students')} diverged and {plural(count, 'is', 'are')} left out."]

    def points(self, one: Gain) -> str:
        """A gain with its interval."""
        return f"{self.number(one.gain, sign=True)} [{self.number(one.low)}, {self.number(one.high)}]"

    def number(self, value: float, *, sign: bool = False) -> str:
        """A score or gain as it is shown."""
        if not math.isfinite(value):
            return "–"
        decimals = 1 if self.scale == 100 else 3
        rounded = round(self.scale * value, decimals) + 0.0  # no minus before a zero
        return f"{rounded:{'+' if sign else ''}.{decimals}f}".replace("-", "−")


def setting_label(setting: Setting) -> str:
    """A setting in words: student, channel and number of training texts."""
    return f"{setting.student}, {setting.channel}, {setting.size:,} training texts"


def find(folder: Path | str, kind: str = KIND) -> SimulabilityFindings:
    """Read a finished run of this kind."""
    place = Path(folder)
    missing = f"{place} is no run of didact simulate: manifest.json or extras.json is missing"
    manifest, extras = (read_object(place / name, missing) for name in ("manifest.json", "extras.json"))
    if manifest.get("kind") != kind:
        raise FormatError(f"{place} is a run of another kind; didact report shows it")
    if not (place / "records.parquet").is_file():
        if (place / "students.parquet").is_file():
            raise FormatError(f"{place} was written by an older version; convert it with: didact convert {place}")
        raise InputError(f"{place} is not finished: records.parquet is missing; give the same command again")
    return SimulabilityFindings(place, manifest, extras, from_records(records.read(place / "records.parquet")))


def _counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, the most frequent first."""
    return dict(Counter(names).most_common())


def _with_counts(counts: Mapping[str, int], where: str, verbs: tuple[str, str]) -> str:
    """Names with a verb, and in how many settings it holds for each."""
    (first, most), *others = counts.items()
    if not others:
        return f"{first} {verbs[0]} significantly in {most} {where}"
    names = listed([f"{first} ({most} {where})", *(f"{name} ({count})" for name, count in others)])
    return f"{names} {verbs[1]} significantly"


def _scores(rows: Sequence[Gain]) -> dict[str, float]:
    return {one.method: one.gain for one in rows if one.method != NONE and not one.control}


def _pearson(points: Sequence[tuple[float, float]]) -> float:
    if len(points) < 3:
        return math.nan
    x, y = np.array(points, dtype=np.float64).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])
