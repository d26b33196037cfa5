"""Which explainers differ on a metric, and from which: for the marks in a report's table.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(3, 40)) / 10
    >>> comparison = pairwise({"lime": 0.5 + noise[0], "ig": 0.5 + noise[1], "random": noise[2]})
    >>> comparison.leaders == {comparison.best, "lime", "ig"}
    True
    >>> comparison.beats("lime"), comparison.beats("random")
    (('random',), ())

Every two explainers are compared on the examples on which both are defined, by a test of the mean difference
(``didact.stats.means``); p-values are corrected over all pairs, and by ``compare_all`` over the pairs of all metrics of
a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from didact.errors import InputError, ParameterError
from didact.stats.means import MeanTests, mean_tests
from didact.types import Floats


@dataclass(frozen=True)
class Compared:
    """The values of all explainers on one metric.

    Attributes:
        values: per explainer, its values on the same examples in the same order; NaN where undefined.
        higher_is_better: direction of the metric; None where neither is better, so that none leads.
    """

    values: Mapping[str, ArrayLike]
    higher_is_better: bool | None = True


@dataclass(frozen=True)
class Comparison:
    """All pairwise tests of one metric.

    Attributes:
        names: the explainers, in the order given; rows and columns of the matrices.
        means: per explainer, over its own defined examples; NaN where it has none.
        p: p-values (names, names), symmetric; NaN on the diagonal and where too few examples are shared for a test.
        adjusted: the same after correction over all tests that were made together.
        difference: mean difference, row less column, over the examples that both have.
        alpha: adjusted p-values below it count as a difference.
        higher_is_better: direction of the metric; None where neither is better.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    p: Floats
    adjusted: Floats
    difference: Floats
    alpha: float
    higher_is_better: bool | None

    @property
    def direction(self) -> Floats:
        """1 where the row's values are significantly larger than the column's, -1 where smaller, else 0."""
        significant = self.adjusted < self.alpha
        return np.where(significant, np.sign(self.difference), 0.0)

    def differ(self, first: str, second: str) -> bool:
        """Whether these two differ significantly."""
        return bool(self.direction[self._place(first), self._place(second)] != 0)

    def beats(self, name: str) -> tuple[str, ...]:
        """The explainers that ``name`` is significantly better than; none where the metric has no direction."""
        row = self._better()[self._place(name)]
        return tuple(other for other, sign in zip(self.names, row, strict=True) if sign > 0)

    @property
    def best(self) -> str | None:
        """The explainer with the best mean, the first of equals; None where the metric has no direction or values."""
        if self.higher_is_better is None or np.isnan(self.means).all():
            return None
        signed = np.array(self.means) if self.higher_is_better else -np.array(self.means)
        return self.names[int(np.nanargmax(signed))]

    @property
    def leaders(self) -> frozenset[str]:
        """The best and those not significantly worse, where they have values of their own."""
        best = self.best
        if best is None:
            return frozenset()
        beaten = self.beats(best)
        defined = [name for name, mean in zip(self.names, self.means, strict=True) if not np.isnan(mean)]
        return frozenset(name for name in defined if name not in beaten)

    def _better(self) -> Floats:
        if self.higher_is_better is None:
            return np.zeros_like(self.p)
        return self.direction if self.higher_is_better else -self.direction

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"{name!r} was not compared; there are {', '.join(self.names)}")
        return self.names.index(name)


def pairwise(
    values: Mapping[str, ArrayLike], *, alpha: float = 0.05, higher_is_better: bool | None = True
) -> Comparison:
    """Test every two explainers against each other on one metric.

    Args:
        values: per explainer, its values on the same examples in the same order; NaN where undefined.
        alpha: probability of declaring any difference at all that is none.
        higher_is_better: direction of the metric; None where neither is better, so that none leads.
    """
    return compare_all([Compared(values, higher_is_better)], alpha=alpha)[0][0]


def compare_all(
    metrics: Sequence[Compared], further: Sequence[ArrayLike] = (), *, alpha: float = 0.05
) -> tuple[list[Comparison], MeanTests]:
    """Test every two explainers on every metric, and further differences, with one error rate for all of it.

    Args:
        metrics: the values of each metric; all on the same examples.
        further: differences on these examples that are tested as well, such as from broken copies.
        alpha: probability of declaring any difference at all that is none.

    Returns:
        A comparison per metric; and all tests in one: those of the pairs, metric by metric, then the further ones.
    """
    tables = [_table(metric.values, alpha) for metric in metrics]
    pairs = [np.triu_indices(len(names), 1) for names, _ in tables]
    with np.errstate(invalid="ignore"):  # inf - inf
        rows = [table[first] - table[second] for (_, table), (first, second) in zip(tables, pairs, strict=True)]
    rows += [np.asarray(row, dtype=np.float64).reshape(1, -1) for row in further]
    if len({row.shape[1] for row in rows}) > 1:
        raise InputError(f"all metrics must have the same examples, got {sorted({row.shape[1] for row in rows})}")
    tests = mean_tests(np.concatenate(rows) if rows else np.empty((0, 0)), alpha=alpha)
    comparisons, start = [], 0
    for metric, (names, table), (first, _) in zip(metrics, tables, pairs, strict=True):
        part = slice(start, start + len(first))
        comparisons.append(_comparison(names, table, tests, part, metric.higher_is_better))
        start = part.stop
    return comparisons, tests


def _comparison(
    names: tuple[str, ...], table: Floats, tests: MeanTests, part: slice, higher_is_better: bool | None
) -> Comparison:
    first, second = np.triu_indices(len(names), 1)
    p, adjusted, difference = (np.full((len(names), len(names)), np.nan) for _ in range(3))
    for matrix, values in ((p, tests.p), (adjusted, tests.adjusted)):
        matrix[first, second] = matrix[second, first] = values[part]
    difference[first, second] = tests.difference[part]
    difference[second, first] = -tests.difference[part]
    counts = (~np.isnan(table)).sum(axis=1)
    means = np.nansum(table, axis=1) / np.where(counts > 0, counts, np.nan)
    return Comparison(names, tuple(means.tolist()), p, adjusted, difference, tests.alpha, higher_is_better)


def _table(values: Mapping[str, ArrayLike], alpha: float) -> tuple[tuple[str, ...], Floats]:
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha must lie between 0 and 1, got {alpha!r}; 0.05 is usual")
    if not values:
        raise InputError("there is nothing to compare: give the values of at least one explainer")
    rows = {name: np.asarray(row, dtype=np.float64).ravel() for name, row in values.items()}
    sizes = {name: len(row) for name, row in rows.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"explainers must have values on the same examples (NaN where undefined), got {sizes}")
    return tuple(rows), np.stack(list(rows.values()))
