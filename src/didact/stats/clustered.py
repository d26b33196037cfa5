"""How sure an estimate is when its observations share raters and share items, and not every rater saw every item.

An estimate is described by the influence of each observation on it: to first order, what the estimate would change by
if the observation had not been there. The influences of a mean of n values are (value - mean) / n.

    >>> import numpy as np
    >>> values = np.array([1.0, 2.0, 4.0, 2.0, 3.0, 6.0, 1.0, 1.0, 4.0])
    >>> raters, items = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
    >>> error, freedom = precision((values - values.mean())[:, None] / len(values), raters, items)
    >>> [round(float(error[0]), 3), round(float(freedom[0]), 1)]
    [1.018, 2.0]

Observations of one rater are alike, and so are those of one item. The variance counts both kinds of likeness and their
overlap once (Cameron, Gelbach and Miller 2011), and a kind that would lower it counts as none:

    V = V_cells + max(0, V_raters - V_cells) + max(0, V_items - V_cells),

where each V sums squared sums of influences over its clusters. The tails are those of Student's t with Satterthwaite's
degrees of freedom, at most those of the smaller of both samples, since which components count is estimated too. For a
complete table this is close to what ``crossed`` does by the analysis of variance. Simulated with 20 raters and 60 items
that differ, intervals of 95 % of worths held the truth in 95 % of the cases (93 % to 96 % for single worths).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from didact.stats.resampling import drawn_counts
from didact.types import Floats

Codes = NDArray[np.int64]
"""The rater, or the item, of each observation, as numbers from zero."""

FEWEST_RATERS = 3
"""Fewer raters than this have no interval: two tell too little about the spread between raters."""


@dataclass(frozen=True)
class Estimated:
    """An estimate with its interval.

    Attributes:
        value: the estimate; NaN where there are no observations.
        low: lower end; NaN for fewer than three raters or two items.
        high: upper end, likewise.
        p: two-sided, of a value of zero; NaN where there is no interval.
    """

    value: float
    low: float
    high: float
    p: float


def precision(influence: Floats, raters: Codes, items: Codes) -> tuple[Floats, Floats]:
    """Standard errors and degrees of freedom of estimates, from their influences (observations, estimates).

    Both are NaN where there are fewer than ``FEWEST_RATERS`` raters or two items.
    """
    cells = np.unique(np.stack([raters, items]), axis=1, return_inverse=True)[1].ravel()
    sizes = [len(np.unique(codes)) for codes in (raters, items, cells)]
    if sizes[0] < FEWEST_RATERS or sizes[1] < 2:
        return (np.full(influence.shape[1], np.nan),) * 2
    by_rater, by_item, within = (
        _between(influence, codes) * size / (size - 1)
        for codes, size in zip((raters, items, cells), sizes, strict=True)
    )
    rater, item = by_rater > within, by_item > within  # a component estimated below zero is zero
    total = within + rater * (by_rater - within) + item * (by_item - within)
    uncertain = (
        rater * by_rater**2 / (sizes[0] - 1)
        + item * by_item**2 / (sizes[1] - 1)
        + ((1 - rater.astype(int) - item) * within) ** 2 / max(1, (sizes[0] - 1) * (sizes[1] - 1))
    )
    freedom = np.clip(total**2 / np.where(uncertain > 0, uncertain, 1.0), 1.0, min(sizes[:2]) - 1.0)
    return np.sqrt(total), freedom


def estimated(
    values: Floats, influence: Floats, raters: Codes, items: Codes, draws: Floats, level: float = 0.95
) -> list[Estimated]:
    """Intervals whose form is the bootstrap's and whose width is that of ``precision``.

    Args:
        values: the estimates.
        influence: of each observation on each estimate (observations, estimates).
        raters: of the observations.
        items: of the observations.
        draws: the estimates of each resample (resamples, estimates), as ``drawn_weights`` gives resamples.
        level: of the intervals.
    """
    errors, freedoms = precision(influence, raters, items)
    result = []
    for value, error, freedom, drawn in zip(values.tolist(), errors, freedoms, draws.T, strict=True):
        if not np.isfinite(error) or not np.isfinite(drawn).any():
            result.append(Estimated(value, *(float("nan"),) * 3))
            continue
        drawn = drawn[np.isfinite(drawn)]  # a resample may lack what an estimate is about
        spread = drawn.std()
        z = (drawn - drawn.mean()) / (spread if spread > 0 else 1.0)
        ends = np.quantile(stdtrit(freedom, ndtr(z)), [(1 - level) / 2, (1 + level) / 2], method="weibull")
        low, high = (value + error * ends).tolist()
        result.append(Estimated(value, low, high, _two_sided(value, error, freedom)))
    return result


def drawn_weights(raters: Codes, items: Codes, resamples: int, seed: int) -> Floats:
    """How often each observation counts in each resample (resamples, observations): raters and items are both drawn."""
    drawn = [
        drawn_counts(int(codes.max()) + 1, resamples, (seed, stream, int(codes.max()) + 1))[:, codes]
        for stream, codes in enumerate((raters, items))
    ]
    return np.asarray(drawn[0] * drawn[1], dtype=np.float64)


def _between(influence: Floats, codes: Codes) -> Floats:
    """Sum over clusters of the squared sum of their influences, per estimate."""
    sums = np.zeros((int(codes.max()) + 1, influence.shape[1]))
    np.add.at(sums, codes, influence)
    return np.asarray((sums**2).sum(axis=0))


def _two_sided(value: float, error: float, freedom: float) -> float:
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * stdtr(freedom, -abs(value) / error))
