"""Metrics graded themselves: how well each ranks explanations of known quality, on texts whose evidence was planted.

The truth of a text is degraded step by step: a share of its units, drawn at random, exchange their scores. The quality
of what results is known: the share of the planted units among as many with the highest scores. A metric is as good as
the share of pairs of explanations of one text that it puts into the order of their quality; equal values count half,
and 0.5 is chance.

Two kinds of texts: reviews of the corpus with the embedded model, which mostly reads what was planted, and needle texts
with a function that counts needles and reads nothing else, so that the truth about it is exact.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from didact.attribution.human import Human
from didact.experiments.masking.judges import GIVEN
from didact.experiments.report.reliability import Reliability
from didact.metrics.base import METRICS
from didact.protocols import Evidence, Metric, Model
from didact.stats.bootstrap import interval
from didact.types import Example, Explanation, Floats, Span

STEPS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Shares of the units that keep their score."""
FAMILIES = ("faithfulness", "plausibility")
NEEDLE = "zinnia"
LABELS = ("no needle", "needle")


def gradable() -> list[str]:
    """Metrics of faithfulness and plausibility that need an explanation, its text and the model alone."""
    return [
        card.name
        for card in METRICS.cards()
        if card.family in FAMILIES and card.needs <= GIVEN and card.higher_is_better is not None
    ]


def measure(
    model: Model, examples: Sequence[Example], metrics: Sequence[str] | None = None, seed: int = 0
) -> list[Reliability]:
    """Grade metrics on texts whose rationale is the truth about the model.

    Args:
        model: the explained model.
        examples: with the planted evidence as their rationale.
        metrics: registered names; all ``gradable`` ones when not given.
        seed: of the degraded explanations.
    """
    truth = [one for one in Human().explain(model, examples) if 0 < sum(one.scores) < len(one.scores) and _right(one)]
    steps = [degraded(truth, share, seed + number) for number, share in enumerate(STEPS)]
    quality = np.array([[_quality(one, of) for one, of in zip(step, truth, strict=True)] for step in steps])
    return [_reliability(METRICS.get(name).configured(), model, steps, quality) for name in metrics or gradable()]


def degraded(truth: Sequence[Explanation], share: float, seed: int) -> list[Explanation]:
    """Explanations of which about this share of the units keep their score and the others exchange theirs.

    A little noise, smaller than any difference, decides between equal scores, as an explainer's scores would.
    """
    made = []
    for place, one in enumerate(truth):
        rng = np.random.default_rng([seed, place])
        scores, moved = one.array.copy(), np.flatnonzero(rng.random(len(one.scores)) >= share)
        scores[moved] = scores[rng.permutation(moved)]
        scores += rng.uniform(0.0, 0.01, len(scores))
        made.append(dataclasses.replace(one, method="degraded", scores=tuple(scores.tolist()), errors=()))
    return made


def needle_texts(n: int, seed: int = 0) -> list[Example]:
    """Texts of filler words with one to three needles, which are their rationale."""
    rng = np.random.default_rng(seed)
    filler = ("stone", "river", "paper", "cloud", "table", "garden", "winter", "letter", "train", "bottle", "hour")
    return [_needle_text(rng, filler) for _ in range(n)]


def needle_predict(texts: Sequence[str]) -> Floats:
    """Probabilities of a function that counts needles and reads nothing else."""
    odds = np.array([3.0 * text.split().count(NEEDLE) - 1.5 for text in texts])
    needle = 1 / (1 + np.exp(-odds))
    return np.stack([1 - needle, needle], axis=1)


def _reliability(metric: Metric, model: Model, steps: Sequence[Sequence[Explanation]], quality: Floats) -> Reliability:
    values = np.array([[grade.value for grade in metric.measure(Evidence(step, model))] for step in steps])
    values = values if metric.card.higher_is_better else -values
    ordered = np.array([_ordered(values[:, text], quality[:, text]) for text in range(values.shape[1])])
    known = interval(ordered)
    return Reliability(metric.card.name, known.mean, known.low, known.high, known.n)


def _right(explanation: Explanation) -> bool:
    """Whether the model predicts what was planted; else the planted words speak against the prediction."""
    return explanation.example.label in (None, explanation.prediction.label)


def _ordered(values: Floats, quality: Floats) -> float:
    """Share of the pairs of different quality whose values are in the same order; NaN where there is none."""
    pairs = [
        (np.sign(values[a] - values[b]) * np.sign(quality[a] - quality[b]) + 1) / 2
        for a, b in combinations(range(len(values)), 2)
        if quality[a] != quality[b] and np.isfinite(values[a]) and np.isfinite(values[b])
    ]
    return float(np.mean(pairs)) if pairs else math.nan


def _quality(explanation: Explanation, truth: Explanation) -> float:
    """Share of the planted units among as many with the highest scores."""
    planted = truth.array > 0
    top = np.argsort(-explanation.array, kind="stable")[: int(planted.sum())]
    return float(planted[top].mean())


def _needle_text(rng: np.random.Generator, filler: Sequence[str]) -> Example:
    words = rng.choice(filler, int(rng.integers(8, 20))).tolist()
    for place in rng.choice(len(words), int(rng.integers(1, 4)), replace=False):
        words[place] = NEEDLE
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).tolist()
    spans = [Span(at, at + len(NEEDLE)) for at, word in zip(starts, words, strict=True) if word == NEEDLE]
    return Example(" ".join(words), rationale=tuple(spans))
