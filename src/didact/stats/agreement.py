"""Do raters agree? Rankings by Kendall's tau-b, classes by Krippendorff's alpha, with intervals over raters.

    >>> import numpy as np
    >>> ranks = np.array([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3], [1, 2, 3], [1, 2, 3]])
    >>> raters, items = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
    >>> round(between(ranks, raters, items).value, 3)
    0.556

Both are 1 where all agree and 0 on average where raters answer by chance. Two raters are compared on the items that
both have. The interval is the jackknife's over raters, each left out in turn, with Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from didact.stats.clustered import FEWEST_RATERS, Codes
from didact.types import Bools, Floats


@dataclass(frozen=True)
class Agreement:
    """How much raters agree.

    Attributes:
        value: 1 where all agree, 0 for chance; NaN where nothing can be compared.
        low: lower end of the interval of 95 %; NaN for fewer than three raters.
        high: upper end, likewise.
        comparisons: pairs of answers that it rests on.
    """

    value: float
    low: float
    high: float
    comparisons: int


def between(ranks: ArrayLike, raters: Codes, items: Codes) -> Agreement:
    """Mean tau-b of every two rankings of one item.

    Args:
        ranks: a row for each ranking, a column for each thing; 1 is the best, equal ranks are ties.
        raters: who gave it.
        items: what it is a ranking for.
    """
    signs = _signs(np.asarray(ranks, dtype=np.float64))
    defined = signs.any(axis=1)  # a ranking without any order has no tau

    def mean(kept: Bools) -> tuple[float, int]:
        return _mean_tau(signs[kept & defined], items[kept & defined])

    return _jackknifed(mean, raters)


def tau(first: ArrayLike, second: ArrayLike) -> Floats:
    """Tau-b of the rankings in equal rows; NaN where one of both has no order."""
    a, b = _signs(np.asarray(first, dtype=np.float64)), _signs(np.asarray(second, dtype=np.float64))
    norm = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.asarray((a * b).sum(axis=1) / np.where(norm > 0, norm, np.nan))


def nominal(answers: Codes, raters: Codes, items: Codes) -> Agreement:
    """Krippendorff's alpha of answers that are classes.

    Args:
        answers: the class of each answer, as numbers from zero.
        raters: who gave it.
        items: what it was given for.
    """

    def alpha(kept: Bools) -> tuple[float, int]:
        return _alpha(answers[kept], items[kept])

    return _jackknifed(alpha, raters)


def _signs(ranks: Floats) -> Floats:
    first, second = np.triu_indices(ranks.shape[1], 1)
    return np.sign(ranks[:, first] - ranks[:, second])


def _mean_tau(signs: Floats, items: Codes) -> tuple[float, int]:
    """Over pairs of rankings with the same item: the square of a sum less the sum of squares, halved."""
    if not len(signs):
        return math.nan, 0
    unit = signs / np.sqrt((signs**2).sum(axis=1, keepdims=True))
    sums = np.zeros((int(items.max()) + 1, unit.shape[1]))
    np.add.at(sums, items, unit)
    counts = np.bincount(items)
    pairs = int((counts * (counts - 1) // 2).sum())
    return (float(((sums**2).sum() - len(unit)) / 2 / pairs), pairs) if pairs else (math.nan, 0)


def _alpha(answers: Codes, items: Codes) -> tuple[float, int]:
    """One less observed over expected disagreement, among items that at least two answers are for."""
    if not len(answers):
        return math.nan, 0
    table = np.zeros((int(items.max()) + 1, int(answers.max()) + 1))
    np.add.at(table, (items, answers), 1)
    table = table[table.sum(axis=1) > 1]
    size = table.sum(axis=1)
    total = table.sum(axis=0)
    pairs = int((size * (size - 1) / 2).sum())
    if not pairs:
        return math.nan, 0
    observed = ((size**2 - (table**2).sum(axis=1)) / (size - 1)).sum() / size.sum()
    expected = (total.sum() ** 2 - (total**2).sum()) / total.sum() / (total.sum() - 1)
    return (float(1 - observed / expected) if expected > 0 else math.nan), pairs


def _jackknifed(statistic: Callable[[Bools], tuple[float, int]], raters: Codes) -> Agreement:
    value, comparisons = statistic(np.ones(len(raters), dtype=bool))
    people = np.unique(raters)
    left_out = np.array([statistic(raters != person)[0] for person in people])
    count = len(people)
    if count < FEWEST_RATERS or not np.isfinite([value, *left_out]).all():
        return Agreement(value, math.nan, math.nan, comparisons)
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, 0.975)) * error
    return Agreement(value, max(-1.0, value - reach), min(1.0, value + reach), comparisons)
