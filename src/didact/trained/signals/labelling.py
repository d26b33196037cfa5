"""Labelling: learn the class of each of another explainer's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from didact.trained.samples import TrainingBatch
from didact.trained.signals._distil import Distil
from didact.trained.signals.base import REFERENCE, SignalCard, register
from didact.types import Explanation, Floats

STRONG, WEAK = 3, 1
"""Values of words that are labelled as strong or weak evidence."""


@register(
    SignalCard(
        name="labelling",
        family="distillation",
        summary="Classify every word as strong, weak or no evidence, as a reference explainer's weights do.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        outputs="1 per class (5 or 3)",
        needs=frozenset({REFERENCE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Labelling(Distil):
    """Classify every word as strong or weak evidence, for or against, or as none.

    L = - sum over i of log softmax(v_i)[h(w_i)]. What strong means is decided for each document, by ``kinds``.

    The score is the mean of the classes' values (-3, -1, 0, 1, 3 from strongly against to strongly for; 2, 1, 0 for
    high, medium and low) under the softmax: it orders words within a class as well, by how sure the network is. Strong
    weights are 3.5 to 8 times as large as weak ones; of 2, 3 and 4, 3 was the best compromise of faithfulness and
    stability on validation texts of two data sets.

    Args:
        classes: 5, or 3 for references whose weights are never negative.
        reduce: "sum" over words (the paper), or their "mean".
    """

    classes: Literal[3, 5] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(classes=Literal[3, 5])

    @classmethod
    def suited(cls, *, signed: bool, **settings: object) -> Self:
        """With 3 classes for a reference without signs, unless the settings give another number."""
        return cls.configured(**{"classes": 5 if signed else 3} | settings)

    @property
    def outputs(self) -> int:
        """One per class."""
        return self.classes

    @property
    def signed(self) -> bool:
        """With five classes, two of which are evidence against."""
        return self.classes == 5

    def targets(self, explanation: Explanation) -> Floats:
        """The class of every word."""
        return kinds(explanation.array, self.classes).astype(np.float64)

    @property
    def high(self) -> float | None:
        """Scores beyond it, either way, are nearer to a strong class than to a weak one; None with three classes."""
        return (STRONG + WEAK) / 2 if self.classes == 5 else None

    def scores(self, outputs: Tensor) -> Tensor:
        """The expected value of the class."""
        return outputs.softmax(-1) @ outputs.new_tensor(values_of(self.classes))

    def _terms(self, outputs: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        classes = torch.where(batch.present, batch.targets, 0).long()
        each = F.cross_entropy(outputs.transpose(1, 2), classes, reduction="none")  # (rows, units)
        return torch.where(batch.present, each, 0.0).sum(1), batch.present.sum(1)


def values_of(classes: Literal[3, 5]) -> tuple[int, ...]:
    """The value of each class: from strongly against to strongly for, or of high, medium and low."""
    return (-STRONG, -WEAK, 0, WEAK, STRONG) if classes == 5 else (2, 1, 0)


def kinds(weights: Floats, classes: Literal[3, 5] = 5) -> NDArray[np.int64]:
    """The class of each weight of one document.

    With five: 0 high negative, w < m-; 1 low negative; 2 neutral, w = 0; 3 low positive; 4 high positive, w > m+, where
    m+ and m- are the means of the positive and of the negative weights. With three: 0 high, w >= mean + deviation;
    1 medium; 2 low, w < mean - deviation (of the population), and all medium where all weights are equal.
    """
    if classes == 3:
        mean, deviation = weights.mean(), weights.std()
        classed = np.where(weights >= mean + deviation, 0, np.where(weights < mean - deviation, 2, 1))
        return classed if np.ptp(weights) > 0 else np.ones_like(classed)
    high, low = _mean(weights[weights > 0]), _mean(weights[weights < 0])
    return 2 + np.sign(weights).astype(np.int64) + (weights > high) * (weights > 0) - (weights < low) * (weights < 0)


def _mean(weights: Floats) -> float:
    """The mean, kept between the smallest and the largest against rounding; 0 of no weights."""
    return float(np.clip(weights.mean(), weights.min(), weights.max())) if len(weights) else 0.0
