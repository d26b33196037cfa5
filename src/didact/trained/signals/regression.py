"""Regression: learn the values of another explainer's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from didact.errors import ParameterError
from didact.trained.labels import Normalise, normalised
from didact.trained.samples import TrainingBatch
from didact.trained.signals._distil import Distil
from didact.trained.signals.base import REFERENCE, SignalCard, register
from didact.types import Explanation, Floats


@register(
    SignalCard(
        name="regression",
        family="distillation",
        summary="Give the words a reference explainer's weights, each document's brought to one size.",
        reference="as ranking and labelling, with the squared error",
        outputs="1",
        needs=frozenset({REFERENCE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Regression(Distil):
    """Give the words the reference's weights, each document's brought to one size.

    L = sum over i of (v_i - w_i)^2 / 2, from ``delta`` on continued as a straight line (Huber) where it is given.

    Args:
        normalise: divide a document's weights by the "max" of |w|, by the "sum" of |w|, by the "norm" sqrt(sum w^2), or
            by "none", where the reference's scale means the same in every document.
        delta: how large a difference may be before it counts linearly; None for never.
        signed: whether the reference's weights have a sign.
        reduce: "sum" over words, or their "mean".
    """

    normalise: Normalise = "max"
    delta: float | None = None
    signed: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(normalise=Normalise)
        if self.delta is not None and not self.delta > 0:
            raise ParameterError(f"delta of {self.card.name} must be above 0, or None, got {self.delta!r}")

    @classmethod
    def suited(cls, *, signed: bool, **settings: object) -> Self:
        """Signed as the reference is."""
        return cls.configured(**{"signed": signed} | settings)

    @property
    def outputs(self) -> int:
        """One: v."""
        return 1

    def targets(self, explanation: Explanation) -> Floats:
        """The normalised weights."""
        return normalised(explanation.array, self.normalise)

    def scores(self, outputs: Tensor) -> Tensor:
        """The output itself."""
        return outputs[..., 0]

    def _terms(self, outputs: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        v, w = outputs[..., 0], torch.where(batch.present, batch.targets, 0).to(outputs.dtype)
        each = (v - w) ** 2 / 2 if self.delta is None else F.huber_loss(v, w, reduction="none", delta=self.delta)
        return torch.where(batch.present, each, 0.0).sum(1), batch.present.sum(1)
