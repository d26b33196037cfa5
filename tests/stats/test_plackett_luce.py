"""Worths from rankings: against choix, against a slow likelihood with ties, and intervals that hold the truth."""

import itertools
import math

import choix
import numpy as np
import pytest
from scipy.optimize import minimize

from didact.errors import InputError
from didact.stats.plackett_luce import Ranking, fit, intervals

TRUTH = np.array([0.9, 0.3, -0.2, -1.0])


def drawn(count: int, seed: int, threshold: float = 0.0) -> list[list[list[int]]]:
    """Rankings by noisy worths; neighbours closer than the threshold are tied."""
    rng = np.random.default_rng(seed)
    rankings = []
    for values in TRUTH + rng.gumbel(size=(count, len(TRUTH))):
        tiers: list[list[int]] = []
        for thing in np.argsort(-values).tolist():
            if tiers and values[tiers[-1][-1]] - values[thing] < threshold:
                tiers[-1].append(thing)
            else:
                tiers.append([thing])
        rankings.append(tiers)
    return rankings


@pytest.mark.parametrize("seed", range(3))
def test_worths_are_those_of_choix(seed: int) -> None:
    rankings = drawn(60, seed)
    plain = [[tier[0] for tier in ranking] for ranking in rankings]
    for other in (
        choix.opt_rankings(4, plain, alpha=0.0, tol=1e-9),
        choix.ilsr_rankings(4, plain, tol=1e-12),
        choix.mm_rankings(4, plain, tol=1e-12),
    ):
        np.testing.assert_allclose(fit(rankings, 4, ridge=0.0).worths, other - other.mean(), atol=1e-6)


def test_partial_rankings_and_the_prior_are_those_of_choix() -> None:
    plain = [[0, 2], [1, 2, 3], [3, 1], [0, 1, 2, 3], [2, 0], [4, 0, 1]]
    own = fit([[[thing] for thing in ranking] for ranking in plain], 5, ridge=0.5).worths
    other = choix.opt_rankings(5, plain, alpha=0.25, tol=1e-12)  # its penalty is alpha x^2, ours ridge x^2 / 2
    np.testing.assert_allclose(own, other - other.mean(), atol=1e-6)


def test_ties_are_those_of_the_likelihood_written_out() -> None:
    rankings = drawn(60, 5, threshold=0.35)
    assert {len(tier) for ranking in rankings for tier in ranking} == {1, 2, 3, 4}

    def negative(parameters: np.ndarray) -> float:
        theta, delta = parameters[:4], np.concatenate([[0.0], parameters[4:]])

        def strength(tier: tuple[int, ...]) -> float:
            return math.exp(sum(theta[i] for i in tier) / len(tier) + delta[len(tier) - 1])

        total = 0.005 * float((parameters**2).sum())
        for ranking in rankings:
            left = sorted(itertools.chain(*ranking))
            for tier in ranking:
                if len(left) > 1:
                    options = [s for n in range(1, len(left) + 1) for s in itertools.combinations(left, n)]
                    total -= math.log(strength(tuple(tier)) / sum(map(strength, options)))
                left = [thing for thing in left if thing not in tier]
        return total

    slow = minimize(negative, np.zeros(7), method="BFGS", options={"gtol": 1e-3}).x
    quick = fit(rankings, 4)
    np.testing.assert_allclose(quick.worths, slow[:4] - slow[:4].mean(), atol=1e-3)
    np.testing.assert_allclose(quick.ties, slow[4:], atol=1e-3)


def test_the_order_of_rankings_and_of_things_in_a_tier_does_not_matter() -> None:
    rankings = drawn(60, 2, threshold=0.3)
    turned = [[tier[::-1] for tier in ranking] for ranking in reversed(rankings)]
    np.testing.assert_allclose(fit(rankings, 4).worths, fit(turned, 4).worths, atol=1e-9)


def test_intervals_hold_the_truth_when_raters_and_items_differ() -> None:
    """Raters and items shift the worths, with the truth known because what shifts one thing shifts it both ways."""
    raters, items = np.repeat(np.arange(12), 20), np.tile(np.arange(20), 12)
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shift = rng.normal(size=(12, 2))[raters] * 0.4 + rng.normal(size=(20, 2))[items] * 0.4
        noise = rng.gumbel(size=(240, 2))
        rankings: list[Ranking] = [[[0], [1]] if a > b else [[1], [0]] for a, b in (shift + noise).tolist()]
        found = intervals(rankings, 2, raters, items, resamples=200, seed=seed).differences[0, 1]
        held.append(found.low <= 0 <= found.high)
    assert sum(held) >= 34  # 0.94 of 300 such samples have intervals that hold it


def test_something_that_always_wins_has_a_finite_worth_with_the_prior_alone() -> None:
    rankings: list[Ranking] = [[[0], [1], [2]], [[0], [2], [1]]] * 5
    worths = fit(rankings, 3).worths
    assert np.isfinite(worths).all()
    assert worths[0] > 3
    with pytest.raises(InputError, match="always rank before"):
        fit(rankings, 3, ridge=0.0)


def test_two_raters_have_no_interval() -> None:
    codes = np.array([0, 0, 1, 1])
    found = intervals(drawn(4, 0), 4, codes, np.array([0, 1, 0, 1]), resamples=20)
    assert math.isnan(found.worths[0].low)
    assert math.isfinite(found.worths[0].value)


@pytest.mark.parametrize("ranking", [[[0], [0]], [[0], [4]], [[-1], [0]]])
def test_a_ranking_that_makes_no_sense_is_refused(ranking: Ranking) -> None:
    with pytest.raises(InputError, match="at most once"):
        fit([ranking], 4)


def test_no_rankings_are_refused() -> None:
    with pytest.raises(InputError, match="no rankings"):
        fit([], 4)
