"""How close a learned explainer comes to its teacher on the same texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from didact.stats.correlation import kendall, spearman
from didact.trained.fit_types import Sample
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal
from didact.types import Explanation, Floats

TOP = 0.3
"""Share of the units that count as the top ones, as published."""


def agreement_with_reference(
    learned: Sequence[Explanation], taught: Sequence[Explanation], signal: Signal
) -> dict[str, Floats]:
    """How well a student follows its teacher, per text: rank correlations and the IoU of the top 30 %.

    A student that learnt the order of absolute weights is held against these.
    """
    pairs = [(one.array, comparable(other, signal)) for one, other in zip(learned, taught, strict=True)]
    return {
        "spearman": np.array([spearman(ours, theirs) for ours, theirs in pairs]),
        "kendall": np.array([kendall(ours, theirs) for ours, theirs in pairs]),
        "top-k IoU": np.array([_iou(ours, theirs) for ours, theirs in pairs]),
    }


def top_weight(
    signal: Signal, samples: Sequence[Sample], taught: Sequence[Explanation], rows: int = 64
) -> Callable[[Shape], float]:
    """A monitor for ``fit``: how much of the teacher's weight the units have that the student puts on top.

    The teacher's weights summed over the student's top 30 % of a text's units, divided by their sum over the teacher's
    own, mean over texts. It still rises when the loss on validation texts rises again, because a network that grows too
    sure of its classes may go on to order units better.

    Args:
        signal: makes scores of what the shape gives.
        samples: validation texts as the shape reads them.
        taught: the teacher's explanations of the same texts.
        rows: texts of a batch.
    """
    wanted = [comparable(one, signal) for one in taught]

    def measure(shape: Shape) -> float:
        device = next(shape.parameters()).device
        found: list[float] = []
        for start in range(0, len(samples), rows):
            batch = shape.collate([item for item, _ in samples[start : start + rows]])
            outputs = shape({name: column.to(device) for name, column in batch.items()})
            scores = signal.scores(outputs.float()).double().cpu().numpy()
            found += [_share(ours, theirs) for ours, theirs in zip(scores, wanted[start : start + rows], strict=True)]
        return float(np.nanmean(found))

    return measure


def comparable(explanation: Explanation, signal: Signal) -> Floats:
    """The teacher's weights as the student's scores should order the units."""
    absolute = signal.settings.get("by") == "absolute"
    return abs(explanation.array) if absolute else explanation.array


def _iou(ours: Floats, theirs: Floats) -> float:
    """|A and B| / |A or B| of the top 30 % of both; the first of equal units count."""
    k = int(np.ceil(TOP * len(ours)))
    first, second = (set(np.argsort(-scores, kind="stable")[:k].tolist()) for scores in (ours, theirs))
    return len(first & second) / len(first | second)


def _share(ours: Floats, theirs: Floats) -> float:
    """Weight of the units that ours put on top, of the most that so many can have; NaN where that is not above 0."""
    k = int(np.ceil(TOP * len(theirs)))
    most = float(np.sort(theirs)[-k:].sum())
    return float(theirs[np.argsort(-ours[: len(theirs)], kind="stable")[:k]].sum()) / most if most > 0 else np.nan
