"""What a simulation shows: gains over no hints with intervals, ranks, and whether settings agree.

A gain's interval comes from resampling subsets and test texts in pairs (``didact.stats.crossed``). Three things are
tested in every setting (student, channel, size): whether each method and control differs from none; whether each method
*teaches*, that is, is better than none and than every control; and whether it *leads*, that is, is also better than
every other method. A method is better than several others when it is better than each of them, so the p-value of such a
claim is the largest of the single ones (Berger 1982). p-values are corrected by Holm over all of these claims in all
settings: at most 5 % of all simulations claim anything that is not so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from didact.errors import ParameterError
from didact.registry import unknown
from didact.simulation.curves import AREA, area_of
from didact.simulation.scoring import LOWER_IS_BETTER
from didact.simulation.simulability import NONE, Setting, Simulation
from didact.stats.crossed import (
    Crossed,
    average_ranks,
    crossed_gain,
    crossed_interval,
    crossed_p,
    normalised_gain,
    pearson_values,
    rmse_values,
    tau_interval,
)
from didact.stats.curves import area
from didact.stats.paired import holm
from didact.stats.power import fewest_texts
from didact.types import Floats

ALPHA = 0.05
"""A difference counts when its p, corrected over all tests of the simulation, is below this."""

ERRORS = LOWER_IS_BETTER | {"rmse"}
OF_NUMBERS = ("pearson", "rmse")


@dataclass(frozen=True)
class Gain:
    """What a method's hints added in one setting.

    Attributes:
        student: its label.
        channel: how hints reached it.
        size: number of training texts.
        method: whose hints; "none" has no gain.
        control: whether the hints explain nothing.
        score: mean over subsets and test texts; of "none" too.
        score_low: lower end of its 95 % interval.
        score_high: upper end.
        gain: mean difference from "none" in pairs; above 0 is better, also where the score is an error.
        low: lower end of its 95 % interval.
        high: upper end.
        p: two-sided.
        adjusted: the same after Holm's correction over all claims of the simulation.
        normalised: the gain as a share of what "none" leaves to be gained; NaN for errors.
        subsets: pairs of students that count.
        dropped: pairs of which a student failed.
        teaching: p, corrected likewise, of being better than none and than every control; NaN for controls, and where
            there are none.
        leading: p, corrected likewise, of being better than every other method too; NaN where there is no other.
    """

    student: str
    channel: str
    size: int
    method: str
    control: bool
    score: float
    score_low: float
    score_high: float
    gain: float
    low: float
    high: float
    p: float
    adjusted: float
    normalised: float
    subsets: int
    dropped: int
    teaching: float = math.nan
    leading: float = math.nan

    @property
    def setting(self) -> Setting:
        """Where it was measured."""
        return Setting(self.student, self.channel, self.size)

    @property
    def helps(self) -> bool:
        """Whether the gain over none is above zero, beyond chance."""
        return self.gain > 0 and self.adjusted < ALPHA

    @property
    def teaches(self) -> bool:
        """Whether it is significantly better than none and than every control; never where there are none."""
        return self.teaching < ALPHA

    @property
    def leads(self) -> bool:
        """Whether it is significantly better than none, every control and every other method."""
        return self.leading < ALPHA


@dataclass(frozen=True)
class SettingAgreement:
    """Kendall's tau between the rankings in two settings, with its 95 % interval."""

    first: Setting
    second: Setting
    tau: float
    low: float
    high: float
    methods: int


@dataclass(frozen=True)
class SimulabilityGains:
    """Gains, ranks and agreements of a simulation.

    Attributes:
        metric: what a score is.
        gains: of every setting and method, "none" first.
        ranks: average rank of "none" and of the methods that are no controls, over the settings in which all of them
            have a score; 1 is best.
        agreements: of every two settings.
        diverged: how many students failed and were left out.
        tests: how many claims were tested together.
        items: test texts.
    """

    metric: str
    gains: tuple[Gain, ...]
    ranks: Mapping[str, float]
    agreements: tuple[SettingAgreement, ...]
    diverged: int
    tests: int = 0
    items: int = 0

    @property
    def fewest(self) -> int:
        """Test texts that a verdict needs when so many claims are tested."""
        return fewest_texts(max(self.tests, 1), ALPHA)

    @property
    def enough(self) -> bool:
        """Whether there are enough students and test texts for a verdict in any setting."""
        return self.items >= self.fewest and any(math.isfinite(gain.adjusted) for gain in self.gains)

    def of(self, setting: Setting) -> list[Gain]:
        """The gains of one setting."""
        return [gain for gain in self.gains if gain.setting == setting]

    @property
    def settings(self) -> list[Setting]:
        """All settings, in order."""
        return list(dict.fromkeys(gain.setting for gain in self.gains))

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; NaN is None."""
        return {
            "metric": self.metric,
            "gains": [_plain(dataclasses.asdict(gain)) for gain in self.gains],
            "ranks": _plain(dict(self.ranks)),
            "agreements": [
                {"first": vars(agreement.first), "second": vars(agreement.second)}
                | _plain({name: getattr(agreement, name) for name in ("tau", "low", "high", "methods")})
                for agreement in self.agreements
            ],
            "tests": self.tests,
            "test_texts_needed_for_a_verdict": self.fewest,
            "diverged": self.diverged,
        }


def compute_gains(simulation: Simulation, metric: str = "", *, seed: int = 0) -> SimulabilityGains:
    """Gains, ranks and agreements.

    Args:
        simulation: scores of all students.
        metric: "pearson" or "rmse" where numbers were imitated; the simulation's own when empty. "area" is the mean of
            the simulation's own over the learning curve, and so are "pearson_area" and "rmse_area".
        seed: of the resampling.
    """
    name = metric or simulation.metric
    # A run that was stopped may have only students without hints in some settings.
    tables = {setting: table for setting, table in scores(simulation, name).items() if table.keys() - {NONE}}
    at_once, _ = area_of(name, simulation.metric)
    gains = [gain for setting, table in tables.items() for gain in _gains(simulation, setting, table, at_once, seed)]
    gains, tests = _corrected(gains)
    real = {method for method in simulation.methods if method not in simulation.controls}
    agreements = tuple(_agreement(tables, pair, sorted(real), seed) for pair in combinations(tables, 2))
    ranks = ranks_in(gains, list(tables), at_once)
    items = max((matrix.shape[1] for table in tables.values() for matrix in table.values()), default=0)
    return SimulabilityGains(name, tuple(gains), ranks, agreements, len(simulation.failures), tests, items)


def ranks_in(gains: Sequence[Gain], settings: Sequence[Setting], metric: str) -> dict[str, float]:
    """Average rank of "none" and of what is no control, over those settings in which all of them have a score.

    Args:
        gains: of a simulation.
        settings: that count.
        metric: that a score is, or whose area it is.
    """
    means = {
        str(setting): {gain.method: gain.score for gain in gains if gain.setting == setting and not gain.control}
        for setting in settings
    }
    means = {setting: row for setting, row in means.items() if np.isfinite(list(row.values())).all()}
    return average_ranks(means, higher_is_better=metric not in ERRORS)


def scores(simulation: Simulation, metric: str) -> dict[Setting, dict[str, Floats]]:
    """Matrices (subsets, items) whose means are the metric, per setting and method."""
    name, of_curve = area_of(metric, simulation.metric)
    if name != simulation.metric and (simulation.truth is None or name not in OF_NUMBERS):
        raise ParameterError(unknown("metric of this simulation", metric, known_metrics(simulation)))
    if of_curve:
        return _areas(simulation, name)
    if name == simulation.metric:
        return {setting: dict(table) for setting, table in simulation.scores.items()}
    return {
        setting: {method: _of_numbers(matrix, simulation, name) for method, matrix in table.items()}
        for setting, table in simulation.answers.items()
    }


def known_metrics(simulation: Simulation) -> list[str]:
    """What ``compute_gains`` can compute: the simulation's metric, those of numbers, and areas where it has curves."""
    of_numbers = OF_NUMBERS if simulation.truth is not None else ()
    areas = [AREA, *(f"{name}_{AREA}" for name in of_numbers)] if simulation.curves.scores else []
    return [simulation.metric, *of_numbers, *areas]


def _areas(simulation: Simulation, metric: str) -> dict[Setting, dict[str, Floats]]:
    """The mean over the learning curve of each student's score on each test text."""
    curves = simulation.curves
    if not curves.scores:
        raise ParameterError("this simulation has no learning curves, whose area this is; give the plan curve=1")
    if metric == simulation.metric:
        tables = {setting: dict(table) for setting, table in curves.scores.items()}
    else:
        tables = {
            setting: {
                method: np.stack([_of_numbers(matrix[:, at], simulation, metric) for at in range(matrix.shape[1])], 1)
                for method, matrix in table.items()
            }
            for setting, table in curves.answers.items()
        }
    return {
        setting: {method: area(matrix, curves.epochs[setting]) for method, matrix in table.items()}
        for setting, table in tables.items()
    }


def _of_numbers(answers: Floats, simulation: Simulation, metric: str) -> Floats:
    values = {"pearson": pearson_values, "rmse": rmse_values}[metric]
    return values(answers, simulation.truth if simulation.truth is not None else ())


def _gains(simulation: Simulation, setting: Setting, table: Mapping[str, Floats], metric: str, seed: int) -> list[Gain]:
    sign = -1.0 if metric in ERRORS else 1.0
    none = table[NONE]
    nan = math.nan
    own = crossed_interval(none, seed=seed)
    ends = _ends(own, metric)
    where = (setting.student, setting.channel, setting.size)
    rows = [Gain(*where, NONE, False, *ends, nan, nan, nan, nan, nan, nan, own.subsets, own.dropped)]
    methods = [name for name in table if name != NONE]
    gains = [crossed_gain(sign * table[name], sign * none, seed=seed) for name in methods]
    for name, gain in zip(methods, gains, strict=True):
        score = crossed_interval(table[name], seed=seed)
        share = nan if metric in ERRORS else normalised_gain(gain.mean, own.mean)
        numbers = (*_ends(score, metric), gain.mean, gain.low, gain.high, gain.p, nan, share)
        row = Gain(*where, name, name in simulation.controls, *numbers, gain.subsets, gain.dropped)
        rows.append(row if row.control else _claims(simulation, table, row, sign))
    return rows


def _claims(simulation: Simulation, table: Mapping[str, Floats], gain: Gain, sign: float) -> Gain:
    """The gain with p-values of being better than every control, and than every other method too."""
    others = [name for name in table if name not in (NONE, gain.method)]
    over = {name: _better(sign * table[gain.method], sign * table[name]) for name in others}
    own = _one_way(gain.gain, gain.p)
    controls = [over[name] for name in others if name in simulation.controls]
    rivals = [over[name] for name in others if name not in simulation.controls]
    # np.max is NaN where any of them is: what cannot be tested is not claimed.
    teaching = float(np.max([own, *controls])) if controls else math.nan
    leading = float(np.max([own, *controls, *rivals])) if rivals and controls else math.nan
    return dataclasses.replace(gain, teaching=teaching, leading=leading)


def _better(first: Floats, second: Floats) -> float:
    return _one_way(*crossed_p(first, second))


def _one_way(difference: float, p: float) -> float:
    """The p-value of being better: the two-sided one where the difference points that way, else 1; NaN stays."""
    return p if difference > 0 or math.isnan(p) else 1.0


def _corrected(gains: Sequence[Gain]) -> tuple[list[Gain], int]:
    """The same with p-values corrected over all claims, and how many these are; "none" makes none."""
    claims = np.array([(gain.p, gain.teaching, gain.leading) for gain in gains], dtype=np.float64).reshape(-1, 3)
    adjusted = holm(claims.ravel()).reshape(claims.shape).tolist()
    corrected = [
        dataclasses.replace(gain, adjusted=p, teaching=teaching, leading=leading)
        for gain, (p, teaching, leading) in zip(gains, adjusted, strict=True)
    ]
    return corrected, int((~np.isnan(claims)).sum())


def _ends(score: Crossed, metric: str) -> tuple[float, float, float]:
    """Mean and interval of a score, which lies between 0 and 1 unless it is an error or a correlation."""
    if metric in ERRORS or metric in OF_NUMBERS:
        return score.mean, score.low, score.high
    return score.mean, *np.clip([score.low, score.high], 0.0, 1.0).tolist()


def _agreement(
    tables: Mapping[Setting, Mapping[str, Floats]], pair: tuple[Setting, Setting], methods: Sequence[str], seed: int
) -> SettingAgreement:
    first, second = ({name: tables[setting][name] for name in methods if name in tables[setting]} for setting in pair)
    tau = tau_interval(first, second, same_items=True, seed=seed)
    return SettingAgreement(*pair, tau.value, tau.low, tau.high, tau.methods)


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}
