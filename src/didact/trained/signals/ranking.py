"""Ranking: learn the order of another explainer's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from didact.errors import ParameterError
from didact.trained.samples import TrainingBatch
from didact.trained.signals._distil import Distil
from didact.trained.signals.base import REFERENCE, SignalCard, register
from didact.types import Explanation, Floats


@register(
    SignalCard(
        name="ranking",
        family="distillation",
        summary="Put the words into the order of a reference explainer's weights.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        outputs="1",
        needs=frozenset({REFERENCE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Ranking(Distil):
    """Put the words into the reference's order.

    L = - sum over i < j of log(e^{v_k} / (e^{v_i} + e^{v_j})), where k is the one of i and j with the larger |w|.
    Where |w_i| = |w_j| either could be k, and the pair counts half for each answer: this is smallest where v_i = v_j
    and has no gradient there, so that equal words are drawn together.

    All pairs of a document with at most ``pairs`` + 1 words are taken. In longer ones every word meets ``pairs`` others
    drawn at random, and the sum is scaled to what all pairs would give on average: cost is linear in the length.

    Args:
        by: order words by "absolute" weight, as the paper does, or by "signed" weight.
        pairs: how many others a word is compared with; None for all, whatever the length.
        reduce: "sum" over pairs (the paper), or their "mean".
    """

    by: Literal["absolute", "signed"] = "absolute"
    pairs: int | None = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(by=Literal["absolute", "signed"])
        if self.pairs is not None and self.pairs < 1:
            raise ParameterError(f"pairs of {self.card.name} must be at least 1, or None for all, got {self.pairs!r}")

    @property
    def outputs(self) -> int:
        """One: v."""
        return 1

    @property
    def signed(self) -> bool:
        """Never: where pairs are compared, no value lies between evidence for and against."""
        return False

    @property
    def absolute(self) -> bool:
        """Unless the order is that of signed weights."""
        return self.by == "absolute"

    def targets(self, explanation: Explanation) -> Floats:
        """Places in the order, from 0 for the smallest; equal words share one. Nothing else enters the loss."""
        weights = explanation.array if self.by == "signed" else abs(explanation.array)
        return np.unique(weights, return_inverse=True)[1].astype(np.float64)

    def scores(self, outputs: Tensor) -> Tensor:
        """The output itself."""
        return outputs[..., 0]

    def _terms(self, outputs: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        present = batch.present
        v, w = outputs[..., 0], torch.where(present, batch.targets, 0)
        n = present.sum(1)  # (rows,)
        partner, share = _partners(present, self.pairs, batch.generator)  # (rows, units, m)
        flat = partner.flatten(1)
        ahead = v[..., None] - v.gather(1, flat).view(partner.shape)  # v_i - v_j
        order = (w[..., None] - w.gather(1, flat).view(partner.shape)).sign()
        # order 1: log(1 + e^(v_j - v_i)); -1: the same the other way round; 0: half of each
        pair = F.softplus(-ahead.abs()) + (ahead.abs() - order * ahead) / 2
        return torch.where(share > 0, pair * share, 0.0).sum((1, 2)), n * (n - 1) / 2


def _partners(present: Tensor, pairs: int | None, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """For each unit the columns of the units it is compared with, and what the comparison counts: (rows, units, m).

    Seen from both its units a pair comes twice, so each counts half; 0 where there is no pair.
    """
    n = present.sum(1)[:, None, None]
    others = present.shape[1] - 1 if pairs is None else min(pairs, present.shape[1] - 1)
    steps = torch.arange(1, others + 1, device=present.device).expand(*present.shape, -1)  # units further on
    share = (steps < n) * 0.5
    if pairs is not None and others < present.shape[1] - 1:
        # A generator of its own where none is given, so that a validation loss is the same each time.
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        drawn = torch.rand(steps.shape, generator=generator, device=generator.device).to(present.device)
        long = n - 1 > pairs
        steps = torch.where(long, 1 + (drawn * (n - 1)).long().clamp(max=(n - 2).clamp(min=0)), steps)
        share = torch.where(long, (n - 1) / (2 * pairs), share)
    place = present.cumsum(1) - 1  # among those present
    column = present.logical_not().long().argsort(dim=1, stable=True)  # place -> column
    met = (place[..., None].clamp(min=0) + steps) % n.clamp(min=1)
    partner = column.gather(1, met.flatten(1)).view(met.shape)
    return partner, share * present[..., None]
