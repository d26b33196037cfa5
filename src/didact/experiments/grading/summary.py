"""From records to a summary: means with intervals, what differs from what, and how the metrics rank the explainers.

The values of one explainer on one example are averaged over its seeds first, so examples are what is resampled and
paired. Everything works on whole columns; there is no Python object per record.

What is tested is every two explainers on every metric that judges quality, and every explainer against its own shuffled
scores: all with one error rate, so that at most 5 % of all reports claim any difference that is none. Costs are shown
and not tested; times have no interval either, since texts that are explained together share one measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.stats.bootstrap import differences, intervals
from didact.stats.compare import Compared, Comparison, compare_all
from didact.stats.correlation import kendall
from didact.stats.means import MeanTests
from didact.stats.power import examples_needed
from didact.types import Floats

ALPHA = 0.05
"""A difference counts when its p, corrected over the whole report, is below this."""

NULLS = {"shuffle": "its own scores shuffled over the words"}
"""Broken copies that explanations are tested against, in words that follow "no better than"."""


@dataclass(frozen=True)
class ExplainerInfo:
    """An explainer as the experiment calls it.

    Attributes:
        label: its name in the experiment.
        method: registered name.
        control: whether it is there for comparison (random, trivial, human) and cannot win.
        parameters: its settings.
        summary: one sentence from its card.
    """

    label: str
    method: str
    control: bool = False
    parameters: Mapping[str, object] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True)
class MetricInfo:
    """A metric as the experiment calls it.

    Attributes:
        label: its name in the experiment.
        metric: registered name.
        family: faithfulness, stability, plausibility, agreement or efficiency.
        higher_is_better: the direction; None where neither is better.
        parameters: its settings.
        summary: one sentence from its card.
        timed: whether it measures the machine, once for all texts that were explained together.
    """

    label: str
    metric: str
    family: str
    higher_is_better: bool | None = True
    parameters: Mapping[str, object] = field(default_factory=dict)
    summary: str = ""
    timed: bool = False

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is, 0 where neither."""
        return 0 if self.higher_is_better is None else 1 if self.higher_is_better else -1

    @property
    def arrow(self) -> str:
        """The direction as a sign."""
        return {1: "↑", -1: "↓", 0: ""}[self.sign]

    @property
    def head(self) -> str:
        """The label with the direction behind it."""
        return f"{self.label} {self.arrow}" if self.arrow else self.label

    @property
    def judges(self) -> bool:
        """Whether it says something about quality: it has a direction, and it is no matter of cost."""
        return self.sign != 0 and self.family not in ("efficiency", "agreement")


Info = TypeVar("Info", ExplainerInfo, MetricInfo)


@dataclass(frozen=True, eq=False)
class ResultArrays:
    """Records as arrays.

    Attributes:
        explainers: the explainers, in the order of the manifest.
        metrics: the metrics, in the order of the manifest.
        examples: ids, sorted.
        values: by null ("" for the explanations themselves): (metrics, explainers, examples), NaN where undefined.
        graded: by null: whether there is a record at all, same shape.
        parts: by metric label: names of its parts and their values, (parts, explainers, examples).
    """

    explainers: tuple[ExplainerInfo, ...]
    metrics: tuple[MetricInfo, ...]
    examples: tuple[str, ...]
    values: Mapping[str, Floats]
    graded: Mapping[str, NDArray[np.bool_]]
    parts: Mapping[str, tuple[tuple[str, ...], Floats]]


@dataclass(frozen=True)
class Cell:
    """An explainer's result on a metric: mean over examples with its 95 % interval, and how many examples it rests on.

    The ends are NaN where there is no interval: not enough examples, or a time. ``missing`` counts examples that were
    graded but have no defined value.
    """

    mean: float
    low: float
    high: float
    n: int
    missing: int
    control: bool = False


@dataclass(frozen=True)
class Check:
    """An explainer against one null of a metric.

    Attributes:
        value: mean of the explanations over the paired examples.
        null: mean of the broken copies.
        p: of the mean difference, corrected over the whole report; NaN where there are not enough examples.
        beats: whether the explanations are significantly better.
    """

    value: float
    null: float
    p: float
    beats: bool


@dataclass(frozen=True, eq=False)
class Column:
    """The results of all explainers on one metric.

    Attributes:
        metric: the metric.
        cells: by explainer; only those it graded.
        tests: all pairs of explainers, controls too, corrected over the whole report; None where nothing is tested.
        checks: by explainer, then by null.
        best: the explainer with the best mean that is no control; None where the metric does not judge.
        tied: explainers, no controls, that are not significantly worse than the best.
        second: the explainer with the next best mean.
        needed: examples needed to tell the best from the second with power 0.8; None where no number would do.
    """

    metric: MetricInfo
    cells: Mapping[str, Cell]
    tests: Comparison | None = None
    checks: Mapping[str, Mapping[str, Check]] = field(default_factory=dict)
    best: str | None = None
    tied: tuple[str, ...] = ()
    second: str | None = None
    needed: int | None = None

    @property
    def leaders(self) -> tuple[str, ...]:
        """The best and those tied with it."""
        return () if self.best is None else (self.best, *self.tied)

    @property
    def leads(self) -> bool:
        """Whether the best is significantly better than any other explainer that is no control."""
        return self.second is not None and len(self.tied) < sum(not cell.control for cell in self.cells.values()) - 1

    @property
    def largest(self) -> float:
        """The largest mean's size, which decides how many decimals the column has."""
        sizes = [abs(cell.mean) for cell in self.cells.values() if np.isfinite(cell.mean)]
        return max(sizes, default=0.0)

    def beats(self, label: str) -> tuple[str, ...]:
        """The explainers that one is significantly better than."""
        return () if self.tests is None else self.tests.beats(label)

    def p(self, first: str, second: str) -> float:
        """Their p-value, corrected over the whole report; NaN where they were not tested."""
        if self.tests is None:
            return float("nan")
        names = self.tests.names
        return float(self.tests.adjusted[names.index(first), names.index(second)])


@dataclass(frozen=True, eq=False)
class Summary:
    """The summary table.

    Attributes:
        columns: one per metric that graded anything.
        taus: Kendall's tau between the rankings of real explainers by metrics that judge; NaN where undefined.
        tau_labels: rows and columns of ``taus``.
        tests: how many differences were tested together.
        fewest: examples that a verdict needs when so many are tested.
    """

    columns: tuple[Column, ...]
    taus: Floats
    tau_labels: tuple[str, ...]
    tests: int
    fewest: int


def gather(table: pa.Table, explainers: Sequence[ExplainerInfo], metrics: Sequence[MetricInfo]) -> ResultArrays:
    """Sort records into arrays; labels that the manifest does not list come last."""
    coded = {name: _coded(table.column(name)) for name in _AXES}
    explainers, by_explainer = _ordered(coded["explainer"], explainers, lambda label: ExplainerInfo(label, label))
    metrics, by_metric = _ordered(coded["metric"], metrics, lambda label: MetricInfo(label, label, "other", None))
    examples = sorted(coded["example"].dictionary.to_pylist())
    by_example = _recode(coded["example"], {name: at for at, name in enumerate(examples)})
    value = np.asarray(table.column("value").to_numpy(), dtype=np.float64)
    shape = (len(metrics), len(explainers), len(examples))
    whole = _equals(coded["part"], "")
    values, graded = {}, {}
    for null in ["", *sorted(set(coded["null"].dictionary.to_pylist()) - {""})]:
        rows = whole & _equals(coded["null"], null)
        values[null], graded[null] = _means((by_metric[rows], by_explainer[rows], by_example[rows]), value[rows], shape)
    parts = {}
    rows = ~whole & _equals(coded["null"], "")
    words = coded["part"].dictionary.to_pylist()
    for at in np.unique(by_metric[rows]):
        mine = rows & (by_metric == at)
        names, part = np.unique(_codes(coded["part"])[mine], return_inverse=True)
        labels = tuple(words[name] for name in names)
        cube, _ = _means((part, by_explainer[mine], by_example[mine]), value[mine], (len(labels), *shape[1:]))
        parts[metrics[at].label] = (labels, cube)
    return ResultArrays(tuple(explainers), tuple(metrics), tuple(examples), values, graded, parts)


def summarise(measured: ResultArrays) -> Summary:
    """Means, intervals, paired tests and rankings."""
    plain = [column for column in (_plain(measured, at) for at in range(len(measured.metrics))) if column.cells]
    columns, tests = _tested(measured, plain)
    judging = [column for column in columns if column.metric.judges]
    real = [explainer.label for explainer in measured.explainers if not explainer.control]
    taus = _taus(judging, real)
    labels = tuple(column.metric.label for column in judging)
    return Summary(tuple(columns), taus, labels, tests.tested, tests.fewest)


_AXES = ("explainer", "null", "metric", "part", "example")


def _plain(measured: ResultArrays, metric: int) -> Column:
    """Means and intervals of one metric."""
    info, graded = measured.metrics[metric], measured.graded[""][metric]
    here = [row for row in range(len(measured.explainers)) if graded[row].any()]
    values = measured.values[""][metric][here]
    missing = (graded[here] & np.isnan(values)).sum(axis=1).tolist()
    cells = {}
    for row, each, lost in zip(here, intervals(values), missing, strict=True):
        explainer = measured.explainers[row]
        ends = (math.nan, math.nan) if info.timed else (each.low, each.high)
        cells[explainer.label] = Cell(each.mean, *ends, each.n, lost, explainer.control)
    return Column(info, cells)


def _tested(measured: ResultArrays, columns: Sequence[Column]) -> tuple[list[Column], MeanTests]:
    """The columns with all tests of the report, which are made together."""
    judging = [column for column in columns if column.metric.judges]
    values = [_values(measured, column) for column in judging]
    nulls = [_nulls(measured, column) for column in judging]
    compared = [Compared(one, column.metric.higher_is_better) for one, column in zip(values, judging, strict=True)]
    further = [differences(value, broken) for rows in nulls for value, broken in rows.values()]
    comparisons, tests = compare_all(compared, further, alpha=ALPHA)
    adjusted = iter(tests.adjusted[len(tests.adjusted) - len(further) :].tolist())
    made = {}
    for column, rows, comparison, own in zip(judging, nulls, comparisons, values, strict=True):
        checks: dict[str, dict[str, Check]] = {}
        for (label, null), (value, broken) in rows.items():
            checks.setdefault(label, {})[null] = _check(value, broken, next(adjusted), column.metric.sign)
        made[column.metric.label] = _ordered_by_mean(replace(column, tests=comparison, checks=checks), own)
    return [made.get(column.metric.label, column) for column in columns], tests


def _values(measured: ResultArrays, column: Column) -> dict[str, Floats]:
    """By explainer: the values of all examples."""
    metric = measured.metrics.index(column.metric)
    rows = zip(measured.explainers, measured.values[""][metric], strict=True)
    return {explainer.label: row for explainer, row in rows if explainer.label in column.cells}


def _nulls(measured: ResultArrays, column: Column) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """By explainer and null: the values of the explanations and of their broken copies, where any pair is defined."""
    metric = measured.metrics.index(column.metric)
    pairs = {
        (explainer.label, null): (measured.values[""][metric, row], measured.values[null][metric, row])
        for null in NULLS
        if null in measured.values
        for row, explainer in enumerate(measured.explainers)
        if explainer.label in column.cells
    }
    return {key: pair for key, pair in pairs.items() if not np.isnan(differences(*pair)).all()}


def _check(value: Floats, broken: Floats, p: float, sign: int) -> Check:
    both = ~np.isnan(differences(value, broken))
    first, second = float(value[both].mean()), float(broken[both].mean())
    return Check(first, second, p, p < ALPHA and sign * (first - second) > 0)


def _ordered_by_mean(column: Column, values: Mapping[str, Floats]) -> Column:
    """The column with its best explainer, those tied with it, and what would tell it from the second."""
    real = [label for label, cell in column.cells.items() if not cell.control and cell.n]
    if not real:
        return column
    order = sorted(real, key=lambda label: -column.metric.sign * column.cells[label].mean)  # equals stay in order
    best, second = order[0], order[1] if len(order) > 1 else None
    worse = set(column.beats(best))
    tied = tuple(label for label in order[1:] if label not in worse)
    needed = None if second is None else examples_needed(differences(values[best], values[second]))
    return replace(column, best=best, tied=tied, second=second, needed=needed)


def _taus(columns: Sequence[Column], real: Sequence[str]) -> Floats:
    size = len(columns)
    taus = np.full((size, size), np.nan)
    means = np.array([[column.metric.sign * _mean(column, label) for label in real] for column in columns])
    for i in range(size):
        for j in range(i, size):
            if np.isfinite(means[[i, j]]).all(axis=0).sum() > 2:
                taus[i, j] = taus[j, i] = kendall(means[i], means[j])
    return taus


def _mean(column: Column, label: str) -> float:
    return column.cells[label].mean if label in column.cells else float("nan")


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """One numbering for the whole column, of the words that occur in it."""
    return pa.concat_arrays(column.cast(pa.string()).dictionary_encode().unify_dictionaries().chunks)


def _codes(column: pa.DictionaryArray) -> NDArray[np.int64]:
    return np.asarray(column.indices.to_numpy(), dtype=np.int64)


def _equals(column: pa.DictionaryArray, wanted: str) -> NDArray[np.bool_]:
    return np.array([name == wanted for name in column.dictionary.to_pylist()], dtype=bool)[_codes(column)]


def _recode(column: pa.DictionaryArray, places: Mapping[str, int]) -> NDArray[np.int64]:
    return np.array([places[name] for name in column.dictionary.to_pylist()], dtype=np.int64)[_codes(column)]


def _ordered(
    column: pa.DictionaryArray, known: Sequence[Info], make: Callable[[str], Info]
) -> tuple[list[Info], NDArray[np.int64]]:
    """The known explainers or metrics that have records, then unknown ones, and the place of each row among them."""
    present = column.dictionary.to_pylist()
    infos = [info for info in known if info.label in set(present)]
    infos += [make(label) for label in sorted(set(present) - {info.label for info in infos})]
    return infos, _recode(column, {info.label: at for at, info in enumerate(infos)})


def _means(
    axes: tuple[NDArray[np.int64], ...], value: Floats, shape: tuple[int, ...]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Means over what the axes leave open (the seeds), of the defined values; and where there was any record."""
    size = int(np.prod(shape))
    flat = np.ravel_multi_index(axes, shape) if len(value) else np.zeros(0, dtype=np.int64)
    defined = ~np.isnan(value)
    count = np.bincount(flat[defined], minlength=size)
    sums = np.bincount(flat[defined], weights=value[defined], minlength=size)
    means = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    return means.reshape(shape), (np.bincount(flat, minlength=size) > 0).reshape(shape)
