"""Worths from rankings: the Plackett-Luce model with ties, fitted to all rankings at once.

A ranking is a sequence of tiers, the best first; things in one tier are tied. It need not hold all things.

    >>> rankings = [[[0], [1], [2]], [[0], [2], [1]], [[1], [0, 2]], [[0], [1], [2]]]
    >>> [round(worth, 2) for worth in fit(rankings, 3).worths.tolist()]
    [1.1, -0.1, -1.0]

From the things A that are left, a ranking takes the tier T with probability

    P(T | A) = f(T) / sum of f(S) over the S in A with at most D things,   log f(T) = mean of theta over T + delta_|T|,

where theta are the log-worths, delta_1 = 0 and D is the size of the largest tier (Davidson 1970 for pairs; Turner, van
Etten, Firth and Kosmidis 2020). Without ties it is the plain model of Luce and Plackett. The order in which rankings
arrive has no influence, unlike in rating systems that update after every game. Log-worths are centred; a difference of
one means odds of e to one.

The likelihood depends on the rankings only through how often each A was chosen from, and what was chosen, so all
resamples of a bootstrap are fitted together. A weak Gaussian prior (``ridge``) keeps worths finite where something was
always or never first.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.stats.clustered import Codes, Estimated, drawn_weights, estimated
from didact.stats.resampling import check_resampling
from didact.types import Floats

Ranking = Sequence[Collection[int]]
"""Tiers of numbers of things, the best tier first."""

RIDGE = 0.01
"""Precision of the prior of every log-worth: that of a hundredth of a ranking."""
RESAMPLES = 1000
STEPS = 200
LONGEST_STEP = 2.0
"""Newton's steps are cut to this, so that a nearly flat likelihood is not jumped over."""
LARGEST_TABLE = 4_000_000
"""Cells of the table of choices; ties among very many things would need more."""


@dataclass(frozen=True)
class Worths:
    """A fitted model.

    Attributes:
        worths: log-worth of each thing, with a mean of zero.
        ties: log-prevalence of ties of two, three, ... things; empty where there are none.
    """

    worths: Floats
    ties: Floats


@dataclass(frozen=True)
class WorthIntervals:
    """Worths with intervals over raters and items.

    Attributes:
        worths: per thing.
        differences: of every two things, by their numbers (first less second).
        ties: log-prevalence of ties of two, three, ... things.
    """

    worths: tuple[Estimated, ...]
    differences: dict[tuple[int, int], Estimated]
    ties: Floats


def fit(rankings: Sequence[Ranking], things: int, *, ridge: float = RIDGE) -> Worths:
    """The most likely worths.

    Args:
        rankings: of things by their numbers, below ``things``.
        things: how many there are.
        ridge: precision of the prior; 0 for none.

    Raises:
        InputError: a ranking names a thing twice or none of that number, there are no rankings, or without a prior no
            worths are most likely: some things always rank before all others.
    """
    table = _Choices(rankings, things)
    parameters = table.fitted(np.ones((1, len(rankings))), ridge)[0]
    return Worths(parameters[:things] - parameters[:things].mean(), parameters[things:])


def intervals(
    rankings: Sequence[Ranking],
    things: int,
    raters: Codes,
    items: Codes,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> WorthIntervals:
    """Worths and their differences with intervals of 95 %, when both raters and items are samples.

    Raters and items are resampled, and the model is fitted to every resample. Resampling both counts the chance within
    a rater's answer to an item up to three times, so the width is that of ``clustered.precision``.

    Args:
        rankings: in any order.
        things: how many are ranked.
        raters: who gave each ranking, as numbers from zero.
        items: what it was given for, likewise.
        resamples: how many.
        seed: of the resampling.
    """
    check_resampling(0.95, resamples)
    table = _Choices(rankings, things)
    whole = table.fitted(np.ones((1, len(rankings))), RIDGE)
    weights = drawn_weights(raters, items, resamples, seed)
    drawn = table.fitted(weights[weights.any(axis=1)], RIDGE)[:, :things]
    pairs = list(itertools.combinations(range(things), 2))
    contrasts = _contrasts(things, pairs)
    estimates = estimated(
        whole[0, :things] @ contrasts,
        table.influence(whole[0])[:, :things] @ contrasts,
        raters,
        items,
        drawn @ contrasts,
    )
    return WorthIntervals(
        tuple(estimates[:things]), dict(zip(pairs, estimates[things:], strict=True)), np.asarray(whole[0, things:])
    )


def _contrasts(things: int, pairs: Sequence[tuple[int, int]]) -> Floats:
    """Columns that turn log-worths into centred ones, then into differences."""
    columns = np.zeros((things, things + len(pairs)))
    columns[:, :things] = np.eye(things) - 1 / things
    for at, (first, second) in enumerate(pairs, start=things):
        columns[first, at], columns[second, at] = 1.0, -1.0
    return columns


class _Choices:
    """Rankings as choices of tiers from sets.

    Attributes:
        features: of every tier that could be chosen (tiers, parameters): 1 / size for its things, and its size.
        within: whether each tier lies in each set (sets, tiers).
        counts: how often each ranking chose from each set (rankings, sets).
        chosen: summed features of what each ranking chose (rankings, parameters).
    """

    def __init__(self, rankings: Sequence[Ranking], things: int) -> None:
        tiers = [_checked(ranking, things) for ranking in rankings]
        if not tiers:
            raise InputError("there are no rankings to fit; give at least one")
        self.things = things
        stages = [_stages(ranking) for ranking in tiers]
        sets = sorted({left for ranking in stages for left, _ in ranking}, key=lambda left: (len(left), sorted(left)))
        self.largest = max((len(taken) for ranking in stages for _, taken in ranking), default=1)
        options = _options(sets, self.largest)
        self.features = np.stack([self._feature(tier) for tier in options]) if options else np.zeros((0, things))
        self.within: NDArray[np.bool_] = np.array([[tier <= left for tier in options] for left in sets], dtype=bool)
        place = {left: number for number, left in enumerate(sets)}
        self.counts = np.zeros((len(tiers), len(sets)))
        self.chosen = np.zeros((len(tiers), things + self.largest - 1))
        for row, ranking in enumerate(stages):
            for left, taken in ranking:
                self.counts[row, place[left]] += 1
                self.chosen[row] += self._feature(taken)

    def fitted(self, weights: Floats, ridge: float) -> Floats:
        """Most likely parameters for each row of weights of the rankings, by Newton's method, all rows at once."""
        size = self.chosen.shape[1]
        counts, chosen = weights @ self.counts, weights @ self.chosen
        parameters = np.zeros((len(weights), size))
        flat = np.zeros((size, size))
        flat[: self.things, : self.things] = 1.0  # all worths together have no effect: this keeps them where they are
        active = np.arange(len(weights))
        for _ in range(STEPS):
            gradient, curvature = self._derivatives(parameters[active], counts[active], chosen[active])
            gradient -= ridge * parameters[active]
            scale = np.maximum(1.0, counts[active].sum(axis=1))[:, None, None]
            try:
                step = np.linalg.solve(curvature + ridge * np.eye(size) + scale * flat, gradient[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:  # worths have run away until nothing changes the likelihood any more
                break
            longest = np.abs(step).max(axis=1, keepdims=True)
            parameters[active] += step * np.minimum(1.0, LONGEST_STEP / np.maximum(longest, 1e-300))
            active = active[longest[:, 0] > 1e-10]
            if not len(active):
                return parameters
        raise InputError(
            f"no worths are most likely: some things always rank before all others; use a prior (ridge={RIDGE})"
        )

    def influence(self, parameters: Floats) -> Floats:
        """To first order, what each ranking adds to the parameters (rankings, parameters)."""
        ones = np.ones((1, len(self.counts)))
        _, curvature = self._derivatives(parameters[None], ones @ self.counts, ones @ self.chosen)
        scores = self.chosen - self.counts @ self._expected(parameters[None])[0]
        return np.asarray(scores @ np.linalg.pinv(curvature[0] + RIDGE * np.eye(len(parameters))))

    def _derivatives(self, parameters: Floats, counts: Floats, chosen: Floats) -> tuple[Floats, Floats]:
        """Gradient of the log-likelihood and its negative Hessian, for each row of parameters."""
        share = self._shares(parameters)
        mean = share @ self.features  # (rows, sets, parameters)
        gradient = chosen - np.einsum("bs,bsp->bp", counts, mean)
        mass = np.einsum("bs,bst->bt", counts, share)
        second = np.einsum("bt,tp,tq->bpq", mass, self.features, self.features, optimize=True)
        return gradient, second - np.einsum("bs,bsp,bsq->bpq", counts, mean, mean, optimize=True)

    def _expected(self, parameters: Floats) -> Floats:
        return np.asarray(self._shares(parameters) @ self.features)

    def _shares(self, parameters: Floats) -> Floats:
        """Probability of each tier in each set (rows, sets, tiers)."""
        logits = np.where(self.within, (parameters @ self.features.T)[:, None, :], -np.inf)
        logits -= logits.max(axis=2, keepdims=True)
        power = np.exp(logits)
        return np.asarray(power / power.sum(axis=2, keepdims=True))

    def _feature(self, tier: frozenset[int]) -> Floats:
        feature = np.zeros(self.things + self.largest - 1)
        feature[list(tier)] = 1 / len(tier)
        if len(tier) > 1:
            feature[self.things + len(tier) - 2] = 1.0
        return feature


def _checked(ranking: Ranking, things: int) -> list[frozenset[int]]:
    tiers = [frozenset(tier) for tier in ranking if len(tier)]
    named = [thing for tier in ranking for thing in tier]
    if len(set(named)) < len(named) or any(not 0 <= thing < things for thing in named):
        raise InputError(
            f"a ranking names each of {things} things at most once, by numbers from 0: got {ranking!r:.200}"
        )
    return tiers


def _stages(tiers: Sequence[frozenset[int]]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """What was left and what was taken of it, stage by stage; a last thing on its own was no choice."""
    left = frozenset().union(*tiers)
    stages = []
    for taken in tiers:
        if len(left) > 1:
            stages.append((left, taken))
        left -= taken
    return stages


def _options(sets: Sequence[frozenset[int]], largest: int) -> list[frozenset[int]]:
    """Every tier that could be chosen from any of the sets."""
    options: dict[frozenset[int], None] = {}
    for left in sets:
        for size in range(1, largest + 1):
            for tier in itertools.combinations(sorted(left), size):
                options[frozenset(tier)] = None
            if len(options) * len(sets) > LARGEST_TABLE:
                raise InputError(f"ties of {largest} among {len(left)} things are too many to fit; rank fewer things")
    return list(options)
