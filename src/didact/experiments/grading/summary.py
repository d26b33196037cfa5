"""From records to a summary: means with intervals, what differs from what, and how the metrics rank the explainers.

The values of one explainer on one example are averaged over its seeds first, so examples are what is resampled and
paired. Everything works on whole columns; there is no Python object per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.stats.bootstrap import differences, intervals
from didact.stats.compare import Comparison, pairwise
from didact.stats.correlation import kendall
from didact.stats.power import examples_needed
from didact.types import Floats

ALPHA = 0.05
"""A difference counts when its Holm-adjusted p is below this."""


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
    """

    label: str
    metric: str
    family: str
    higher_is_better: bool | None = True
    parameters: Mapping[str, object] = field(default_factory=dict)
    summary: str = ""

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

    ``missing`` counts examples that were graded but have no defined value.
    """

    mean: float
    low: float
    high: float
    n: int
    missing: int


@dataclass(frozen=True, eq=False)
class Column:
    """The results of all explainers on one metric.

    Attributes:
        metric: the metric.
        cells: by explainer; only those it graded.
        tests: all pairs of explainers, controls too, Holm-adjusted over this metric.
        best: the explainer with the best mean that is no control; None without a direction.
        tied: explainers, no controls, that are not significantly worse than the best.
        second: the explainer with the next best mean.
        needed: examples needed to tell the best from the second with power 0.8; None where no number would do.
    """

    metric: MetricInfo
    cells: Mapping[str, Cell]
    tests: Comparison
    best: str | None
    tied: tuple[str, ...]
    second: str | None
    needed: int | None

    @property
    def leaders(self) -> tuple[str, ...]:
        """The best and those tied with it."""
        return () if self.best is None else (self.best, *self.tied)

    @property
    def largest(self) -> float:
        """The largest mean's size, which decides how many decimals the column has."""
        sizes = [abs(cell.mean) for cell in self.cells.values() if np.isfinite(cell.mean)]
        return max(sizes, default=0.0)

    def p(self, first: str, second: str) -> float:
        """Holm-adjusted p of two explainers."""
        names = self.tests.names
        return float(self.tests.adjusted[names.index(first), names.index(second)])


@dataclass(frozen=True, eq=False)
class Summary:
    """The summary table.

    Attributes:
        columns: one per metric that graded anything.
        taus: Kendall's tau between the rankings of real explainers by metrics that judge; NaN where undefined.
        tau_labels: rows and columns of ``taus``.
    """

    columns: tuple[Column, ...]
    taus: Floats
    tau_labels: tuple[str, ...]


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
    columns = []
    for at, metric in enumerate(measured.metrics):
        graded = measured.graded[""][at]
        here = [explainer for explainer, any_ in zip(measured.explainers, graded.any(axis=1), strict=True) if any_]
        if here:
            rows = [measured.explainers.index(explainer) for explainer in here]
            columns.append(_column(metric, here, measured.values[""][at][rows], graded[rows]))
    judging = [column for column in columns if column.metric.judges]
    real = [explainer.label for explainer in measured.explainers if not explainer.control]
    return Summary(tuple(columns), _taus(judging, real), tuple(column.metric.label for column in judging))


_AXES = ("explainer", "null", "metric", "part", "example")


def _column(
    metric: MetricInfo, explainers: Sequence[ExplainerInfo], values: Floats, graded: NDArray[np.bool_]
) -> Column:
    labels = [explainer.label for explainer in explainers]
    missing = (graded & np.isnan(values)).sum(axis=1).tolist()
    cells = {
        label: Cell(each.mean, each.low, each.high, each.n, lost)
        for label, each, lost in zip(labels, intervals(values), missing, strict=True)
    }
    tests = pairwise(dict(zip(labels, values, strict=True)), higher_is_better=metric.higher_is_better, alpha=ALPHA)
    real = [s.label for s in explainers if not s.control and cells[s.label].n]
    if not metric.sign or not real:
        return Column(metric, cells, tests, None, (), None, None)
    order = sorted(real, key=lambda label: (-metric.sign * cells[label].mean, labels.index(label)))
    best, second = order[0], order[1] if len(order) > 1 else None
    worse = set(tests.beats(best))
    tied = tuple(label for label in order[1:] if label not in worse)
    needed = (
        None
        if second is None
        else examples_needed(differences(values[labels.index(best)], values[labels.index(second)]))
    )
    return Column(metric, cells, tests, best, tied, second, needed)


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
    """One numbering for the whole column."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return pa.concat_arrays(encoded.unify_dictionaries().chunks)


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
