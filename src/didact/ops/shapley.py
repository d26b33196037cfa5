"""Shapley values from the values of pairs of complementary coalitions, with standard errors.

Shapley values depend on the difference D(S) = f(S) - f(complement of S) of a pair alone: the mean of the two is the
part of f that every unit shares alike. With x = +1 for a unit in S and -1 for one outside, D is an odd function
of x, and D(all) = f(all) - f(none) is what the values add up to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from didact.ops.coalitions import Bools, different_pairs, distinct, pair_count, shapley_pair_weights
from didact.ops.orders import Ints
from didact.types import Floats

ROUGHNESS = (0.1, 0.5, 1.0, 2.0)
NOISE = (1e-4, 1e-2, 1.0)
"""Candidates for the smooth fit, relative to its variance; the likelihood of the first pairs decides."""

PRIOR_NOISE = (1e-2, 0.1, 1.0, 10.0, 100.0)
"""The same where values are expected beforehand: what is left of them may be noise alone."""

DECIDING = 160
"""Pairs that decide; more would cost time and change little."""


UNEXPECTED = 0.1
"""What a unit may do that is expected to do nothing, relative to the largest."""

CANDIDATES = 160
"""Pairs that are drawn to choose from; where half as many are wanted or more, nothing is chosen."""

DESIGN = (1.0, 1e-2)
"""Roughness and noise that pairs are chosen for."""

COMMON = 2.0
"""Draws that the spread of all units together counts for, beside a unit's own."""


class ShapleyEstimate(NamedTuple):
    """Shapley values and their standard errors, one per unit; no errors where they cannot be estimated."""

    values: Floats
    errors: Floats


def exact_fit(rows: Bools, differences: Floats, total: float) -> ShapleyEstimate:
    """From all pairs: the Shapley values themselves."""
    return ShapleyEstimate(_least_squares(rows, differences, total)[0], np.zeros(rows.shape[1]))


def linear_fit(rows: Bools, differences: Floats, total: float) -> ShapleyEstimate:
    """Least squares under the Shapley kernel, the values adding up to ``total`` (Lundberg and Lee 2017).

    The errors are those of the residuals, each pair on its own (a sandwich with the leverage taken out), less what is
    certain because a size has been drawn in full.
    """
    values, influence = _least_squares(rows, differences, total)
    return ShapleyEstimate(values, np.sqrt(_share_unseen(rows) @ influence**2))


def smooth_fit(rows: Bools, differences: Floats, total: float) -> ShapleyEstimate:
    """Shapley values of the smoothest function through the given values, as a Gaussian process defines it.

    The prior covariance of D(x) and D(y) is sinh(sum_i a_i x_i y_i): the odd part of a product over the units, so that
    interactions of every odd order are possible and higher ones less likely. a_i grows with what unit i does when it
    is the only one present or the only one absent; units that do nothing there are not expected to interact. Values
    and errors are mean and deviation of the Shapley values, a linear function of D, given these values.

    Args:
        rows: pairs, the n single units first.
        differences: D of each.
        total: D of all units.
    """
    n = rows.shape[1]
    x = np.concatenate([np.ones((1, n)), 2.0 * rows - 1])
    y = np.concatenate([[total], differences])
    alone = np.abs(differences[:n] + total) / 2  # mean of "only i present" and "only i absent"
    reach = alone / (alone.max() or 1.0) + 0.05
    reach /= reach.sum()
    first = slice(0, DECIDING + 1)
    roughness, noise = _likeliest(x[first], y[first], reach)
    share = _shares(reach, roughness)
    covariance = _covariance(x, x, share)
    functional, prior = _shapley_of_kernel(x, share)
    inverse = np.linalg.inv(covariance + np.diag(_noise(len(y), noise)))
    variance = float(y @ inverse @ y) / len(y)
    values = functional.T @ inverse @ y
    unexplained = prior - np.einsum("mi,mk,ki->i", functional, inverse, functional, optimize=True)
    errors = np.sqrt(variance * np.maximum(unexplained, 0.0))
    return ShapleyEstimate(values + (total - values.sum()) / n, errors)


def prior_fit(rows: Bools, differences: Floats, total: float, prior: Floats) -> ShapleyEstimate:
    """As ``smooth_fit``, around values that are expected beforehand, from any pairs.

    The prior is stretched by the factor that suits the given values best, or dropped where it contradicts them, and
    shifted to add up to ``total``. What is left of D is explained by such a Gaussian process, in which units reach as
    far as they are expected to matter. Few pairs do not decide how rough and how noisy it is, so all candidates count,
    each by its likelihood times roughness / sqrt(noise): before anything is known, what coalitions do beyond the prior
    is taken for interactions of units rather than for noise. The worse the prior, the more the evaluations decide, and
    the larger are the errors.

    Args:
        rows: pairs.
        differences: D of each.
        total: D of all units.
        prior: the values that are expected, one per unit, up to a factor.
    """
    n = rows.shape[1]
    x = np.concatenate([np.ones((1, n)), 2.0 * rows - 1])
    y = np.concatenate([[total], differences])
    expected = x @ prior
    size = float(expected @ expected)
    mean = prior * (max(0.0, float(expected @ y) / size) if size > 0 else 0.0)
    mean = mean + (total - mean.sum()) / n
    rest, errors = _averaged(x, y - x @ mean, _reach(mean))
    return ShapleyEstimate(mean + rest, errors)


def informative_pairs(prior: Floats, pairs: int, rng: np.random.Generator) -> Bools:
    """Pairs whose values say most about Shapley values that are expected beforehand, best first, none twice: (m, n).

    One after the other, the pair is taken that lowers the variance of all values together most, under the Gaussian
    process of ``prior_fit``, out of the single units and pairs that are drawn. What the model returns does not matter
    for that, so all of them can be evaluated at once.

    Args:
        prior: the values that are expected, one per unit, up to a factor.
        pairs: how many; m is smaller where there are fewer.
        rng: draws what is chosen from.
    """
    n = len(prior)
    if 2 * pairs >= min(CANDIDATES, (1 << min(n - 1, 30)) - 1):
        return different_pairs(n, pairs, rng)
    drawn = np.concatenate([np.eye(n, dtype=np.bool_), different_pairs(n, CANDIDATES, rng)])
    drawn = distinct(drawn ^ ~drawn[:, :1])  # of a pair, the one with the first unit
    roughness, noise = DESIGN
    x = np.concatenate([np.ones((1, n)), 2.0 * drawn - 1])
    share = _shares(_reach(prior), roughness)
    covariance, left = _covariance(x, x, share), _shapley_of_kernel(x, share)[0]
    uncertain, known = np.diag(covariance).copy(), np.zeros((len(x), pairs + 1))
    deviations, taken = _noise(len(x), noise), [0]  # the total is known
    for step in range(pairs + 1):
        latest = taken[-1]
        scale = np.sqrt(uncertain[latest] + deviations[latest])
        known[:, step] = (covariance[:, latest] - known @ known[latest]) / scale
        left = left - np.outer(known[:, step], left[latest] / scale)
        uncertain = np.maximum(uncertain - known[:, step] ** 2, 0.0)
        gain = (left**2).sum(axis=1) / (uncertain + deviations)
        gain[taken] = -1.0
        taken.append(int(gain.argmax()))
    chosen: Bools = drawn[np.array(taken[1 : pairs + 1]) - 1]
    return chosen


def mean_contributions(orders: Ints, values: Floats, empty: float, full: float) -> ShapleyEstimate:
    """What each unit adds when units arrive one by one, averaged over pairs of orders.

    Args:
        orders: (pairs, 2, n).
        values: the target of the n - 1 coalitions that each order passes through, (pairs, 2, n - 1).
        empty: the target before the first unit.
        full: the target after the last.

    Returns:
        Means, and their standard errors from the spread of the pairs; no errors for a single pair.
    """
    ends = (*orders.shape[:2], 1)
    chain = np.concatenate([np.full(ends, empty), values, np.full(ends, full)], axis=2)
    gains = np.zeros(orders.shape)
    np.put_along_axis(gains, orders, np.diff(chain, axis=2), axis=2)
    each = gains.mean(axis=1)  # (pairs, n)
    count = len(each)
    errors = each.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(0)
    return ShapleyEstimate(each.mean(axis=0), errors)


def few_draw_errors(errors: Floats, draws: int) -> Floats:
    """Standard errors that hold for few draws: estimate +- 1.96 errors covers what a t interval would.

    A unit that matters only in some coalitions may show no spread at all in a few draws, so every unit's variance is
    drawn towards the mean of all. What is still uncertain about it widens the error as the t distribution's tails do.
    """
    own = draws - 1
    freedom = own + COMMON
    pooled = np.sqrt((own * errors**2 + COMMON * (errors**2).mean()) / freedom)
    z = 1.959964
    # The quantile of t by Cornish and Fisher's expansion; its error is below 0.3 % from four degrees of freedom on.
    first, second = (z**2 + 1) / 4, (5 * z**4 + 16 * z**2 + 3) / 96
    third = (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / 384
    widened: Floats = pooled * (1 + first / freedom + second / freedom**2 + third / freedom**3)
    return widened


def _least_squares(rows: Bools, differences: Floats, total: float) -> tuple[Floats, Floats]:
    """The constrained solution (n,), and the pull of each pair on it (m, n): its part of the estimate's deviation."""
    n = rows.shape[1]
    if n == 1:
        return np.array([total]), np.zeros((0, 1))
    x = 2.0 * rows - 1
    centre = np.eye(n) - 1 / n  # the constraint leaves the directions that add up to nothing
    weights = shapley_pair_weights(rows)
    weights = weights / weights.max()
    design = (x @ centre) * np.sqrt(weights)[:, None]
    response = (differences - x.sum(axis=1) * total / n) * np.sqrt(weights)
    bread = np.linalg.pinv(design, rcond=1e-10)  # (n, m)
    free = centre @ bread @ response
    residual = response - design @ free
    leverage = np.einsum("mi,im->m", design, bread)
    influence: Floats = (bread * (residual / np.maximum(1 - leverage, 0.05))).T
    return free + total / n, influence


def _share_unseen(rows: Bools) -> Floats:
    """Which share of the coalitions of a row's size has not been drawn; 1 everywhere when a size is missing."""
    n = rows.shape[1]
    sizes = rows.sum(axis=1)
    counts = np.bincount(sizes, minlength=n // 2 + 1)
    if (counts[1 : n // 2 + 1] == 0).any():
        return np.ones(len(rows))
    return np.array([1 - int(counts[size]) / pair_count(n, size) for size in sizes.tolist()])


def _averaged(x: Floats, y: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of Shapley values that add up to nothing given D at some points, over all candidates."""
    freedom = max(1, len(y) - 2)  # the factor of a prior and the sum are fitted
    likelihoods, values, variances = [], [], []
    for roughness in ROUGHNESS:
        share = _shares(reach, roughness)
        covariance, (functional, prior) = _covariance(x, x, share), _shapley_of_kernel(x, share)
        for noise in PRIOR_NOISE:
            lower = np.linalg.cholesky(covariance + np.diag(_noise(len(y), noise)))
            solved = np.linalg.solve(lower, np.column_stack([y, functional]))
            misfit = max(float(solved[:, 0] @ solved[:, 0]), 1e-300)
            before = np.log(roughness / np.sqrt(noise))
            likelihoods.append(before - 0.5 * freedom * np.log(misfit) - np.log(np.diag(lower)).sum())
            values.append(solved[:, 1:].T @ solved[:, 0])
            variances.append(misfit / freedom * np.maximum(prior - (solved[:, 1:] ** 2).sum(0), 0.0))
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    weights /= weights.sum()
    each = np.array(values) - np.mean(values, axis=1, keepdims=True)
    mean = weights @ each
    return mean, np.sqrt(weights @ (np.array(variances) + (each - mean) ** 2))


def _likeliest(x: Floats, y: Floats, reach: Floats) -> tuple[float, float]:
    best = (-np.inf, ROUGHNESS[0], NOISE[0])
    for roughness in ROUGHNESS:
        covariance = _covariance(x, x, _shares(reach, roughness))
        for noise in NOISE:
            lower = np.linalg.cholesky(covariance + np.diag(_noise(len(y), noise)))
            misfit = float(np.sum(np.linalg.solve(lower, y) ** 2))
            fit = -0.5 * len(y) * np.log(max(misfit, 1e-300)) - float(np.log(np.diag(lower)).sum())
            best = max(best, (fit, roughness, noise))
    return best[1], best[2]


def _reach(expected: Floats) -> Floats:
    """How far each unit reaches, by the size of its expected value; they add up to 1."""
    reach = np.abs(expected) / (np.abs(expected).max() or 1.0) + UNEXPECTED
    shares: Floats = reach / reach.sum()
    return shares


def _shares(reach: Floats, roughness: float) -> Floats:
    """The weight of unit i in the product: tanh a_i."""
    return np.minimum(roughness * reach, 0.9)


def _noise(count: int, noise: float) -> Floats:
    """What the pairs may deviate by; the total, which comes first, may not."""
    return np.concatenate([[1e-8], np.full(count - 1, noise)])


def _covariance(x: Floats, y: Floats, share: Floats) -> Floats:
    """sinh(sum a x y) over its largest value, which it has at x = y."""
    reach = np.arctanh(share)
    covariance: Floats = np.sinh((x * reach) @ y.T) / np.sinh(reach.sum())
    return covariance


def _shapley_of_kernel(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Shapley values of the covariance as a function of one point (m, n), and of both (n,).

    Up to a constant the covariance is the odd part of the product of 1 + share_i x_i y_i. The Shapley value of a unit
    in a product is the mean over g = -1 .. 1 of what it does when the x of every other unit is g on average.
    """
    reach = np.arctanh(share)
    constant = float(np.exp(-0.5 * np.log1p(-(share**2)).sum()) / np.sinh(reach.sum()))
    nodes, weights = np.polynomial.legendre.leggauss(10)
    functional = np.zeros_like(x)
    for node, weight in zip(nodes, weights / 2, strict=True):
        factors = 1 + node * share * x
        functional += weight * factors.prod(axis=1, keepdims=True) / factors
    both = np.outer(nodes, nodes).ravel()
    factors = 1 + both[:, None] * share
    others = np.outer(weights, weights).ravel() / 4 @ (factors.prod(axis=1, keepdims=True) / factors)
    return constant * share * x * functional, constant * share * others
