"""Which explainers differ on a metric, and from which: for the marks in a report's table.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(3, 40)) / 10
    >>> comparison = pairwise({"lime": 0.5 + noise[0], "ig": 0.5 + noise[1], "random": noise[2]})
    >>> comparison.leaders == {comparison.best, "lime", "ig"}
    True
    >>> comparison.beats("lime"), comparison.beats("random")
    (('random',), ())

Every two explainers are compared on the examples on which both are defined, by Wilcoxon's signed-rank test; p-values
are adjusted by Holm over all pairs of the one metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from didact.errors import InputError, ParameterError
from didact.stats.paired import PairedTest, holm, signed_rank
from didact.types import Floats


@dataclass(frozen=True)
class Comparison:
    """All pairwise tests of one metric.

    Attributes:
        names: the explainers, in the order given; rows and columns of the matrices.
        means: per explainer, over its own defined examples; NaN where it has none.
        p: p-values (names, names), symmetric; NaN on the diagonal and where no example is shared.
        adjusted: the same after Holm's correction.
        effect: rank-biserial correlation, positive where the row's values are larger than the column's.
        alpha: adjusted p-values below it count as a difference.
        higher_is_better: direction of the metric; None where neither is better.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    p: Floats
    adjusted: Floats
    effect: Floats
    alpha: float
    higher_is_better: bool | None

    @property
    def direction(self) -> Floats:
        """1 where the row's values are significantly larger than the column's, -1 where smaller, else 0."""
        significant = self.adjusted < self.alpha
        return np.where(significant, np.sign(self.effect), 0.0)

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
        """The best and those not distinguishable from it: not significantly worse, and with values of their own."""
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


@dataclass(frozen=True)
class ReferenceTest:
    """One explainer against a reference.

    Attributes:
        test: the paired test; its difference is the explainer's value minus the reference's.
        adjusted: its p-value after Holm's correction over all explainers held against the reference.
        significant: whether it lies below alpha.
    """

    test: PairedTest
    adjusted: float
    significant: bool


def pairwise(
    values: Mapping[str, ArrayLike], *, alpha: float = 0.05, higher_is_better: bool | None = True
) -> Comparison:
    """Test every two explainers against each other.

    Args:
        values: per explainer, its values on the same examples in the same order; NaN where undefined.
        alpha: probability of declaring any difference at all that is none.
        higher_is_better: direction of the metric; None where neither is better, so that none leads.
    """
    names, table = _table(values, alpha)
    first, second = np.triu_indices(len(names), 1)
    with np.errstate(invalid="ignore"):  # inf - inf
        tests = signed_rank(table[first] - table[second])
    p, adjusted, effect = (np.full((len(names), len(names)), np.nan) for _ in range(3))
    p_values = np.array([test.p for test in tests])
    p[first, second] = p[second, first] = p_values
    adjusted[first, second] = adjusted[second, first] = holm(p_values)
    effect[first, second] = [test.effect for test in tests]
    effect[second, first] = -effect[first, second]
    counts = (~np.isnan(table)).sum(axis=1)
    means = np.nansum(table, axis=1) / np.where(counts > 0, counts, np.nan)
    return Comparison(names, tuple(means.tolist()), p, adjusted, effect, alpha, higher_is_better)


def against(values: Mapping[str, ArrayLike], reference: str, *, alpha: float = 0.05) -> dict[str, ReferenceTest]:
    """Test every explainer against the one called ``reference``, such as a random baseline."""
    names, table = _table(values, alpha)
    if reference not in names:
        raise InputError(f"the reference {reference!r} has no values; there are {', '.join(names)}")
    others = [place for place, name in enumerate(names) if name != reference]
    with np.errstate(invalid="ignore"):
        tests = signed_rank(table[others] - table[names.index(reference)])
    adjusted = holm([test.p for test in tests]).tolist()
    rows = zip((names[place] for place in others), tests, adjusted, strict=True)
    return {name: ReferenceTest(test, p, p < alpha) for name, test, p in rows}


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
