"""The analysis of *rank*: worths of explainers, who differs from whom, and how much raters agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.stats.agreement import Agreement, between, tau
from didact.stats.bootstrap import Interval, interval
from didact.stats.clustered import Codes, Estimated
from didact.stats.paired import holm
from didact.stats.plackett_luce import RESAMPLES, WorthIntervals, intervals
from didact.stats.power import examples_needed
from didact.study.rows import StudyAnswer, answered_twice, codes
from didact.types import Floats

ALPHA = 0.05


@dataclass(frozen=True)
class RankedExplainer:
    """What raters think of an explainer.

    Attributes:
        name: its label.
        worth: log-worth with interval; the mean over explainers is zero.
        best: the best place that it may have: one more than the explainers significantly before it.
        worst: the worst place, likewise.
        mean_rank: 1 is the best; ties share their mean.
        first: share of rankings that it leads, shared where several do.
    """

    name: str
    worth: Estimated
    best: int
    worst: int
    mean_rank: float
    first: float


@dataclass(frozen=True)
class PairPreference:
    """Two explainers against each other.

    Attributes:
        first: the one with the higher worth.
        second: the other.
        difference: of their log-worths.
        adjusted: p-value after Holm's correction over all pairs.
        share: of the rankings in which the first stands before the second; ties count as half.
        raters_needed: to find such a difference with probability 0.8, by what raters have answered; None where that
            cannot be estimated.
    """

    first: str
    second: str
    difference: Estimated
    adjusted: float
    share: float
    raters_needed: int | None

    @property
    def significant(self) -> bool:
        """Whether raters prefer the first."""
        return self.adjusted < ALPHA


@dataclass(frozen=True)
class RankResults:
    """The results of *rank*.

    Attributes:
        explainers: the highest worth first.
        pairs: of every two explainers.
        between: agreement of raters with each other, on the same items.
        within: of raters with themselves, on repeated items: mean tau-b of a rater, over raters.
        repeats: repeated rankings that ``within`` rests on.
        places: mean rank of what stood at A, B, ...; equal but for chance where places do not matter.
        rankings: how many the worths rest on.
    """

    explainers: tuple[RankedExplainer, ...]
    pairs: tuple[PairPreference, ...]
    between: Agreement
    within: Interval
    repeats: int
    places: tuple[float, ...]
    rankings: int

    def beats(self, name: str) -> list[str]:
        """Explainers that raters significantly prefer ``name`` to."""
        return [pair.second for pair in self.pairs if pair.first == name and pair.significant]


def analyse_rankings(
    rows: Sequence[StudyAnswer], explainers: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> RankResults | None:
    """What rankings of main items show; None where there are none.

    Args:
        rows: answers of the raters who count.
        explainers: all of the study.
        resamples: of the bootstrap over raters and items.
        seed: of the resampling.
    """
    main = [row for row in rows if row.phase == "main" and row.ranks]
    if not main:
        return None
    ranks = np.array([[row.ranks[name] for name in explainers] for row in main], dtype=np.float64)
    people, things = codes([row.rater for row in main]), codes([row.item for row in main])
    raters = np.array([people[row.rater] for row in main])
    items = np.array([things[row.item] for row in main])
    tiers = [[np.flatnonzero(row == rank).tolist() for rank in sorted(set(row))] for row in ranks]
    worths = intervals(tiers, len(explainers), raters, items, resamples=resamples, seed=seed)
    pairs = _pairs(worths, explainers, ranks, raters)
    within, repeats = _within(rows, explainers)
    return RankResults(
        explainers=_explainers(worths, explainers, ranks, pairs),
        pairs=pairs,
        between=between(ranks, raters, items),
        within=within,
        repeats=repeats,
        places=_places(main),
        rankings=len(main),
    )


def _pairs(
    worths: WorthIntervals, explainers: Sequence[str], ranks: Floats, raters: Codes
) -> tuple[PairPreference, ...]:
    tests = list(worths.differences.items())
    adjusted = holm([test.p for _, test in tests])
    pairs = []
    for ((a, b), test), p in zip(tests, adjusted.tolist(), strict=True):
        turned = test.value < 0
        first, second = (b, a) if turned else (a, b)
        difference = Estimated(-test.value, -test.high, -test.low, test.p) if turned else test
        lead = ranks[:, second] - ranks[:, first]
        people = np.unique(raters)
        by_rater = [float(np.sign(lead)[raters == rater].mean()) for rater in people]
        pairs.append(
            PairPreference(
                explainers[first],
                explainers[second],
                difference,
                p,
                float(((np.sign(lead) + 1) / 2).mean()),
                examples_needed(by_rater),
            )
        )
    return tuple(pairs)


def _explainers(
    worths: WorthIntervals, explainers: Sequence[str], ranks: Floats, pairs: Sequence[PairPreference]
) -> tuple[RankedExplainer, ...]:
    ahead = {name: sum(pair.significant and pair.second == name for pair in pairs) for name in explainers}
    behind = {name: sum(pair.significant and pair.first == name for pair in pairs) for name in explainers}
    shared = np.stack([_average_ranks(row) for row in ranks])
    leads = ranks == ranks.min(axis=1, keepdims=True)
    first = (leads / leads.sum(axis=1, keepdims=True)).mean(axis=0)
    ranked = [
        RankedExplainer(
            name,
            worths.worths[at],
            1 + ahead[name],
            len(explainers) - behind[name],
            float(shared[:, at].mean()),
            float(first[at]),
        )
        for at, name in enumerate(explainers)
    ]
    return tuple(sorted(ranked, key=lambda each: -each.worth.value))


def _average_ranks(row: Floats) -> Floats:
    below = (row[:, None] > row).sum(axis=1)
    return np.asarray(below + ((row[:, None] == row).sum(axis=1) + 1) / 2)


def _within(rows: Sequence[StudyAnswer], explainers: Sequence[str]) -> tuple[Interval, int]:
    """Agreement of the first with the second ranking of an item by the same rater."""
    twice = answered_twice(rows, "main", "repeat")
    if not twice:
        return Interval(math.nan, math.nan, math.nan, 0), 0
    before, after = (
        np.array([[row.ranks[name] for name in explainers] for row in side], dtype=np.float64)
        for side in zip(*twice, strict=True)
    )
    values = tau(before, after)
    people = [row.rater for row, _ in twice]
    by_rater = [values[[each == rater for each in people]] for rater in dict.fromkeys(people)]
    means = [float(np.nanmean(each)) if np.isfinite(each).any() else math.nan for each in by_rater]
    return interval(means), len(twice)


def _places(main: Sequence[StudyAnswer]) -> tuple[float, ...]:
    ranks = [_average_ranks(np.array(list(row.answer.values()))) for row in main if isinstance(row.answer, dict)]
    return tuple(np.mean(ranks, axis=0).tolist())
