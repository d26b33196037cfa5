"""Contrast: learn Shapley values, then how sets of first units differ in what the output loses without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from didact.protocols import Model
from didact.trained.samples import TrainingBatch, TrainingSamples
from didact.trained.signals._coalitions import ExplainedTexts
from didact.trained.signals._kept_sets import KeptSets
from didact.trained.signals._orders import drawn_orders
from didact.trained.signals.base import SignalCard, register
from didact.trained.signals.erasure import HALF, ErasureSignal
from didact.types import Target, Units


@register(
    SignalCard(
        name="contrast",
        family="ablation",
        summary="Learn Shapley values first, then differences between what the output loses without sets of units.",
        reference="a regression on the sets of erasure; least squares as in Lundberg and Lee 2017, KernelSHAP",
        outputs="1",
    )
)
@dataclass(frozen=True, kw_only=True)
class Contrast(ErasureSignal):
    """As ``erasure``, for few evaluations: sets are drawn and evaluated once, and learned from in all further epochs.

    In the first epoch after ``warm``, orders o of each text's units are drawn from the scores as in ``erasure``, and
    the model is evaluated without o's first t units, t up to half of all and the same for a text's orders. From then on
    the scores also learn how these sets differ, by a regression instead of a policy gradient:

        L = anchor * L_s + sum over o of (d(o) - mean d - (V(o) - mean V))^2 / (orders - 1)

    d(o) is what the output falls by, relative to ``spread``, and V(o) the sum of the scores of o's first t units. What
    all sets of a text share has no part in it: that the units of a set do more together than each by itself. With
    ``alone`` the same is added, by that weight, for what a set does by itself. It costs ``orders`` evaluations for each
    text in all, twice as many with ``alone``. Epochs are compared as in ``erasure``.

    Args:
        pairs: of complementary coalitions drawn for a text in a round.
        rounds: epochs in which coalitions are drawn; each epoch learns from all that were evaluated until then.
        classes: how many classes of a text are learned from coalitions; sets are those of the predicted one.
        complete: scores are shifted to add up, as in ``ablate``; their order stays.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides the coalitions.
        spread: size of D, which values are learned relative to; that of the training texts when not given.
        warm: epochs that learn from coalitions alone.
        orders: drawn for each text.
        sharpness: how seldom drawn orders differ from that of the scores.
        anchor: weight of L_s.
        alone: weight of what the first units do alone.
        odds: weight of the log-odds beside the probability, where epochs are compared.
        absences: ways in which the sets are shown to be absent, of which each step draws one; ``absence`` alone when
            not given.
    """

    orders: int = 4
    anchor: float = 0.15
    alone: float = 0.0

    def _beside(self, texts: ExplainedTexts, number: int, epoch: int | None) -> Mapping[str, object]:
        """With the number of the text, by which its sets are kept."""
        found = super()._beside(texts, number, epoch)
        return {**found, "number": number} if found else found

    def _kept(self, texts: ExplainedTexts, samples: TrainingSamples) -> TrainingSamples:
        """With room for the sets, which checkpoints hold."""
        longest = max(map(len, texts.units), default=1)
        kept = KeptSets(len(texts.units), self.orders, longest, 2 if self.alone else 1)
        return replace(samples, shared={**samples.shared, "kept": kept}, carried=("kept",))

    def _joined(self, near: Tensor, every: Tensor, pursued: Tensor) -> Tensor:
        """Of the other classes, too, coalitions count for as much as ``anchor``."""
        return (self.anchor * near).index_add(0, every, pursued)

    def _pursued(self, v: Tensor, logits: Tensor, present: Tensor, batch: TrainingBatch) -> Tensor:
        """The regression on differences between sets of the same text: (texts,)."""
        kept = cast("KeptSets", batch.shared["kept"])
        numbers = torch.tensor([cast("int", own["number"]) for own in batch.extra])
        if new := (~kept.known[numbers]).nonzero().flatten().tolist():
            self._draw(kept, new, logits, present, batch)
        masks, values = kept.masks[numbers, :, : v.shape[1]].to(v), kept.values[numbers].to(v)
        sums = torch.einsum("tou,tu->to", masks, torch.where(present, v, 0.0))[:, None]
        signs, weights = v.new_tensor([[-1.0], [1.0]]), v.new_tensor([1.0, self.alone])
        parts = values.shape[1]
        found = signs[:parts] * values / (self.spread or 1.0)  # (texts, parts, orders)
        residual = found - found.mean(-1, keepdim=True) - (sums - sums.mean(-1, keepdim=True))
        return (residual.square().sum(-1) / (self.orders - 1)) @ weights[:parts]

    def _draw(self, kept: KeptSets, rows: list[int], logits: Tensor, present: Tensor, batch: TrainingBatch) -> None:
        """Draw the sets of some texts, evaluate the model on them, and keep both."""
        model, generator = cast("Model", batch.shared["model"]), cast("torch.Generator", batch.generator)
        first = drawn_orders(logits[rows], present[rows], self.orders, generator, HALF).first
        extra = [batch.extra[row] for row in rows]
        units = [cast("Units", own["units"]) for own in extra]
        targets = [cast("Target", own["target"]) for own in extra]
        found = model.score(units, targets, [self._sets(own) for own in first], self._drawn_way(generator))
        for own, masks, values in zip(extra, first, found, strict=True):
            kept.put(cast("int", own["number"]), masks, values)
