"""How close a learned explainer comes to its reference on the same texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from didact.stats.correlation import kendall, spearman
from didact.trained.samples import Sample
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal
from didact.types import Explanation, Floats

TOP = 0.3
"""Share of the units that count as the top ones, as published."""


def agreement_with_reference(
    learned: Sequence[Explanation], reference: Sequence[Explanation], signal: Signal
) -> dict[str, Floats]:
    """How well learned explanations follow the reference's, per text: rank correlations and the IoU of the top 30 %.

    Scores that learned the order of absolute weights are compared with these.
    """
    pairs = [(ours.array, comparable(theirs, signal)) for ours, theirs in zip(learned, reference, strict=True)]
    return {
        "spearman": np.array([spearman(ours, theirs) for ours, theirs in pairs]),
        "kendall": np.array([kendall(ours, theirs) for ours, theirs in pairs]),
        "top-k IoU": np.array([_iou(ours, theirs) for ours, theirs in pairs]),
    }


def top_weight(
    signal: Signal, samples: Sequence[Sample], reference: Sequence[Explanation], rows: int = 64
) -> Callable[[Shape], float]:
    """A monitor for ``fit``: how much of the reference's weight lies on the units that the network ranks highest.

    The reference's weights summed over the network's top 30 % of a text's units, divided by their sum over the
    reference's own, mean over texts. It may still rise when the loss on validation texts rises again, because a network
    that grows too sure of its classes may go on to order units better.

    Args:
        signal: turns the shape's outputs into scores.
        samples: validation texts as the shape reads them.
        reference: the reference's explanations of the same texts.
        rows: texts of a batch.
    """
    wanted = [comparable(explanation, signal) for explanation in reference]

    def measure(shape: Shape) -> float:
        scores = sample_scores(shape, signal, samples, rows)
        return float(np.nanmean([_share(ours, theirs) for ours, theirs in zip(scores, wanted, strict=True)]))

    return measure


def by_metrics(
    signal: Signal,
    samples: Sequence[Sample],
    reference: Sequence[Explanation],
    value: Callable[[Sequence[Explanation]], float],
) -> Callable[[Shape], float]:
    """A monitor for ``fit``: the value of the explanations that the network gives of some validation texts.

    Args:
        signal: turns the shape's outputs into scores.
        samples: validation texts as the shape reads them.
        reference: the reference's explanations of the same texts.
        value: of explanations; higher is better.
    """

    def measure(shape: Shape) -> float:
        pairs = zip(reference, sample_scores(shape, signal, samples), strict=True)
        return value([dataclasses.replace(one, scores=tuple(own.tolist()), errors=()) for one, own in pairs])

    return measure


def sample_scores(shape: Shape, signal: Signal, samples: Sequence[Sample], rows: int = 64) -> list[Floats]:
    """The scores of the units of some samples, as the shape is now."""
    device = next(shape.parameters()).device
    scores: list[Floats] = []
    for start in range(0, len(samples), rows):
        batch = shape.collate([sample.item for sample in samples[start : start + rows]])
        outputs = shape({name: column.to(device) for name, column in batch.items()})
        values = signal.scores(outputs.float()).double().cpu().numpy()
        scores += [line[there] for line, there in zip(values, batch["present"].numpy(), strict=True)]
    return scores


def comparable(explanation: Explanation, signal: Signal) -> Floats:
    """The reference's weights as learned scores should order the units."""
    return abs(explanation.array) if signal.absolute else explanation.array


def _iou(ours: Floats, theirs: Floats) -> float:
    """|A and B| / |A or B| of the top 30 % of both; the first of equal units count."""
    k = int(np.ceil(TOP * len(ours)))
    first, second = (set(np.argsort(-scores, kind="stable")[:k].tolist()) for scores in (ours, theirs))
    return len(first & second) / len(first | second)


def _share(ours: Floats, theirs: Floats) -> float:
    """Weight of the units that ours put on top, of the most that so many can have; NaN where that is not above 0."""
    k = int(np.ceil(TOP * len(theirs)))
    most = float(np.sort(theirs)[-k:].sum())
    return float(theirs[np.argsort(-ours, kind="stable")[:k]].sum()) / most if most > 0 else np.nan
