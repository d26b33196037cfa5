"""What a simulation shows: gains over no hints with intervals, ranks, and whether settings agree.

A gain's interval comes from resampling subsets and test texts in pairs (``didact.stats.crossed``). Within one setting
(student, channel, size) p-values are corrected by Holm over all methods, controls included.
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
from didact.simulation.scoring import LOWER_IS_BETTER
from didact.simulation.simulability import NONE, Setting, Simulation
from didact.stats.crossed import (
    Crossed,
    average_ranks,
    crossed_gain,
    crossed_interval,
    normalised_gain,
    pearson_values,
    rmse_values,
    tau_interval,
)
from didact.stats.paired import holm
from didact.types import Floats

ALPHA = 0.05
"""A gain counts when its Holm-adjusted p is below this."""

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
        adjusted: the same after Holm's correction over the methods of the setting.
        normalised: the gain as a share of what "none" leaves to be gained; NaN for errors.
        subsets: pairs of students that count.
        dropped: pairs of which a student failed.
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

    @property
    def setting(self) -> Setting:
        """Where it was measured."""
        return Setting(self.student, self.channel, self.size)

    @property
    def helps(self) -> bool:
        """Whether the gain is above zero, beyond chance."""
        return self.gain > 0 and self.adjusted < ALPHA


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
    """

    metric: str
    gains: tuple[Gain, ...]
    ranks: Mapping[str, float]
    agreements: tuple[SettingAgreement, ...]
    diverged: int

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
            "diverged": self.diverged,
        }


def compute_gains(simulation: Simulation, metric: str = "", *, seed: int = 0) -> SimulabilityGains:
    """Gains, ranks and agreements.

    Args:
        simulation: scores of all students.
        metric: "pearson" or "rmse" where numbers were imitated; the simulation's own when empty.
        seed: of the resampling.
    """
    name = metric or simulation.metric
    # A run that was stopped may have only students without hints in some settings.
    tables = {setting: table for setting, table in scores(simulation, name).items() if table.keys() - {NONE}}
    gains = tuple(gain for setting, table in tables.items() for gain in _gains(simulation, setting, table, name, seed))
    real = {method for method in simulation.methods if method not in simulation.controls}
    means = {
        str(setting): {
            gain.method: gain.score for gain in gains if gain.setting == setting and gain.method in {NONE, *real}
        }
        for setting in tables
    }
    means = {setting: row for setting, row in means.items() if np.isfinite(list(row.values())).all()}
    agreements = tuple(_agreement(tables, pair, sorted(real), seed) for pair in combinations(tables, 2))
    ranks = average_ranks(means, higher_is_better=name not in ERRORS)
    return SimulabilityGains(name, gains, ranks, agreements, len(simulation.failures))


def scores(simulation: Simulation, metric: str) -> dict[Setting, dict[str, Floats]]:
    """Matrices (subsets, items) whose means are the metric, per setting and method."""
    if metric == simulation.metric:
        return {setting: dict(table) for setting, table in simulation.scores.items()}
    if simulation.truth is None or metric not in OF_NUMBERS:
        allowed = [simulation.metric, *(OF_NUMBERS if simulation.truth is not None else ())]
        raise ParameterError(unknown("metric of this simulation", metric, allowed))
    values = {"pearson": pearson_values, "rmse": rmse_values}[metric]
    return {
        setting: {name: values(matrix, simulation.truth) for name, matrix in table.items()}
        for setting, table in simulation.answers.items()
    }


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
    adjusted = holm([gain.p for gain in gains]).tolist() if gains else []
    for name, gain, p in zip(methods, gains, adjusted, strict=True):
        score = crossed_interval(table[name], seed=seed)
        share = nan if metric in ERRORS else normalised_gain(gain.mean, own.mean)
        numbers = (*_ends(score, metric), gain.mean, gain.low, gain.high, gain.p, p, share)
        rows.append(Gain(*where, name, name in simulation.controls, *numbers, gain.subsets, gain.dropped))
    return rows


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
