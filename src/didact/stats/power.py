"""How many examples are needed to show a difference?

    >>> examples_needed([0.5, -0.5, 1.5, 0.5, -0.5, 1.5])  # mean 0.5, standard deviation 0.89
    28

From the mean and the standard deviation of the differences seen so far, the size at which a paired test of the mean at
level ``alpha`` finds such a difference with probability ``power``. The number is as rough as the pilot: a mean
difference that is half as large needs four times the examples.

    >>> fewest_texts(1), fewest_texts(100)  # alone, and among 100 tests of which none may be wrong
    (6, 12)
    >>> comparisons_needed(0.6)  # to find that people prefer one of two things in 60 of 100 comparisons
    191
    >>> raters_needed(0.6, items=60)  # who each make 60 of them
    13
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import nctdtr, ndtri, stdtrit

from didact.errors import ParameterError

MANY = 1000
"""From here on the t-test's power is that of the normal approximation, to less than one example in a hundred."""


def fewest_texts(tests: int, alpha: float = 0.05) -> int:
    """Texts below which nothing can be shown: the exact test of signs cannot reach ``alpha / tests``.

    All ``n`` differences of one sign have p = 2^(1 - n), which is the smallest that there is.

    Args:
        tests: how many are made, of which none may be wrong with probability 1 - ``alpha``.
        alpha: level of all tests together.
    """
    return 1 + math.ceil(math.log2(tests / alpha))


def examples_needed(differences: ArrayLike, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Smallest number of examples at which a mean difference like this one is found with probability ``power``.

    Args:
        differences: of two explainers on the examples of a pilot, one per example; NaN is left out.
        power: probability with which the difference should be found.
        alpha: level of the two-sided test.

    Returns:
        The number, never fewer than ``fewest_texts(1, alpha)`` (6 for 0.05); None where the pilot gives no estimate:
        fewer than two differences, a mean of zero, or an infinite value.
    """
    _check(power, alpha)
    sample = np.asarray(differences, dtype=np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    if len(sample) < 2 or not np.isfinite(sample).all() or sample.mean() == 0:
        return None
    return _needed(abs(float(sample.mean())) / max(float(sample.std(ddof=1)), 1e-300), power, alpha)


def comparisons_needed(share: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """Independent comparisons of two things at which a preference is found with probability ``power``.

    Args:
        share: of the comparisons in which the preferred one wins, above a half; a tie counts as half a win.
        power: probability with which the preference should be found.
        alpha: level of the two-sided test; divide it by the number of pairs where several are compared.
    """
    _check(power, alpha)
    if not 0.5 < share < 1:
        raise ParameterError(f"share must lie between 0.5 (no preference) and 1, got {share!r}")
    lead = 2 * share - 1  # mean of +1 and -1, whose variance is 1 - lead^2
    needed = _needed(lead / math.sqrt(1 - lead**2), power, alpha)
    if needed is None:
        raise ParameterError(f"a share of {share!r} is too close to 0.5 to be found by any number of comparisons")
    return needed


def raters_needed(share: float, items: int, *, likeness: float = 0.05, power: float = 0.8, alpha: float = 0.05) -> int:
    """Raters at which a preference is found, when each compares the two things on ``items`` items.

    Answers of one rater are alike, so that n of them count as n / (1 + (n - 1) ``likeness``) independent ones.

    Args:
        share: as for ``comparisons_needed``.
        items: of a rater.
        likeness: correlation of the answers of a rater (intraclass).
        power: probability with which the preference should be found.
        alpha: level of the two-sided test.

    Returns:
        At least three, below which there is no interval.
    """
    if items < 1 or not 0 <= likeness <= 1:
        raise ParameterError(f"items must be at least 1 and likeness between 0 and 1, got {items!r} and {likeness!r}")
    effect = 1 + (items - 1) * likeness
    return max(3, math.ceil(comparisons_needed(share, power=power, alpha=alpha) * effect / items))


def raters_per_arm(gain: float, items: int, *, likeness: float = 0.05, power: float = 0.8, alpha: float = 0.05) -> int:
    """Raters in each of two arms at which a difference of their gains in accuracy is found.

    A gain is a right answer after less a right answer before, whose variance is at most that of two tosses of a coin.

    Args:
        gain: the difference, as a share.
        items: that each rater answers before and after.
        likeness: correlation of a rater's gains on different items (intraclass).
        power: probability with which the difference should be found.
        alpha: level of the two-sided test.
    """
    _check(power, alpha)
    if not 0 < gain < 1 or items < 1 or not 0 <= likeness <= 1:
        raise ParameterError(
            f"gain must lie between 0 and 1, items be at least 1 and likeness from 0 to 1; got {gain!r}, {items!r} and "
            f"{likeness!r}"
        )
    needed = 2 * (_needed(gain / math.sqrt(0.5), power, alpha) or math.inf)  # two arms: twice the variance
    return max(3, math.ceil(needed * (1 + (items - 1) * likeness) / items))


def _check(power: float, alpha: float) -> None:
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ParameterError(f"{name} must lie between 0 and 1, got {value!r}")
    if power <= alpha:
        raise ParameterError(f"power must be larger than alpha, got {power!r} and {alpha!r}: chance alone reaches it")


def _needed(size: float, power: float, alpha: float) -> int | None:
    """Pairs that a paired test needs for a mean difference of ``size`` standard deviations."""
    rough = ((ndtri(1 - alpha / 2) + ndtri(power)) / size) ** 2
    if not math.isfinite(rough):
        return None
    n = max(fewest_texts(1, alpha), math.ceil(rough))
    while n < MANY and _power(n, size, alpha) < power:
        n += 1
    return n


def _power(n: int, size: float, alpha: float) -> float:
    """Of the paired t-test with n pairs, when the mean difference is ``size`` standard deviations."""
    if size * math.sqrt(n) > 30:  # certain, and beyond what the noncentral t is computed for
        return 1.0
    critical = stdtrit(n - 1, 1 - alpha / 2)
    shift = size * math.sqrt(n)
    return float(1 - nctdtr(n - 1, shift, critical) + nctdtr(n - 1, shift, -critical))
