"""Combined: learn the class and the size of each of another explainer's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from didact.errors import ParameterError
from didact.trained.labels import Normalise, normalised
from didact.trained.samples import TrainingBatch
from didact.trained.signals._distil import Distil
from didact.trained.signals.base import REFERENCE, SignalCard, register
from didact.trained.signals.labelling import STRONG, values_of
from didact.types import Explanation, Floats


@register(
    SignalCard(
        name="combined",
        family="distillation",
        summary="Classify every word as labelling does, and give it a reference explainer's weight besides.",
        reference="Situ et al. 2021 for the classes, with the squared error of the weights added",
        outputs="1 per class (5 or 3) and 1",
        needs=frozenset({REFERENCE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Combined(Distil):
    """Classify every word, and give it the reference's weight, each document's brought to one size.

    L = sum over i of (weight * (u_i - w_i)^2 / 2 - log softmax(v_i)[h(w_i)]), with v_i the numbers of the classes h of
    ``labelling`` and u_i one further number. Classes keep what words are for and against from drowning in a few large
    weights; the squared error keeps the order of words of one class.

    The score is the mean of the two estimates on the scale of the weights: that of the classes' values, divided by
    the largest one, and u.

    Args:
        classes: 5, or 3 for references whose weights are never negative.
        weight: of the squared error beside the classes.
        normalise: divide a document's weights by the "max" of |w|, by the "sum" of |w|, by the "norm" sqrt(sum w^2), or
            by "none", where the reference's scale means the same in every document.
        reduce: "sum" over words, or their "mean".
    """

    classes: Literal[3, 5] = 5
    weight: float = 10.0
    normalise: Normalise = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(classes=Literal[3, 5], normalise=Normalise)
        if not self.weight > 0:
            raise ParameterError(f"weight of {self.card.name} must be above 0, got {self.weight!r}; 0 is labelling")

    @classmethod
    def suited(cls, *, signed: bool, **settings: object) -> Self:
        """With 3 classes for a reference without signs, unless the settings give another number."""
        return cls.configured(**{"classes": 5 if signed else 3} | settings)

    @property
    def outputs(self) -> int:
        """One per class, and the weight."""
        return self.classes + 1

    @property
    def signed(self) -> bool:
        """With five classes, two of which are evidence against."""
        return self.classes == 5

    def targets(self, explanation: Explanation) -> Floats:
        """The normalised weights; classes are those of ``labelling``, whatever the weights are divided by."""
        return normalised(explanation.array, self.normalise)

    def scores(self, outputs: Tensor) -> Tensor:
        """The mean of what the classes and the weight say."""
        values = outputs.new_tensor(values_of(self.classes)) / STRONG
        return (outputs[..., :-1].softmax(-1) @ values + outputs[..., -1]) / 2

    def _terms(self, outputs: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        w = torch.where(batch.present, batch.targets, 0).to(outputs.dtype)
        classes = weight_classes(w, batch.present, self.classes)
        named = F.cross_entropy(outputs[..., :-1].transpose(1, 2), classes, reduction="none")  # (rows, units)
        each = named + self.weight * (outputs[..., -1] - w) ** 2 / 2
        return torch.where(batch.present, each, 0.0).sum(1), batch.present.sum(1)


def weight_classes(w: Tensor, present: Tensor, classes: Literal[3, 5] = 5) -> Tensor:
    """The class of every weight in its document, as ``labelling.kinds`` defines it: (rows, units) -> (rows, units)."""
    if classes == 3:
        mean = _mean(w, present)
        deviation = _mean((w - mean) ** 2, present).sqrt()
        classed = torch.where(w >= mean + deviation, 0, torch.where(w < mean - deviation, 2, 1))
        return torch.where(deviation > 0, classed, 1)
    above, below = w > 0, w < 0
    return 2 + w.sign().long() + (above & (w > _mean(w, above))) - (below & (w < _mean(w, below))).long()


def _mean(w: Tensor, among: Tensor) -> Tensor:
    """Of some weights of each row, kept between the smallest and the largest against rounding: (rows, 1)."""
    mean = torch.where(among, w, 0.0).sum(1, keepdim=True) / among.sum(1, keepdim=True).clamp(min=1)
    low = w.masked_fill(~among, torch.inf).amin(1, keepdim=True)
    high = w.masked_fill(~among, -torch.inf).amax(1, keepdim=True)
    return torch.where(low <= high, mean.clamp(low, high), 0.0)
