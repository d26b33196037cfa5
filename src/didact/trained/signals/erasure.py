"""Erasure: learn Shapley values, then the order of the units in which the output falls fastest without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.ops.masking import Absence
from didact.protocols import Model
from didact.settings import at_least
from didact.trained.samples import TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Shape
from didact.trained.signals._ablation import Ablation
from didact.trained.signals._coalitions import ExplainedTexts, explained_texts
from didact.trained.signals._orders import Masks, drawn_orders, own_orders
from didact.trained.signals.base import SignalCard, SignalTask, register
from didact.types import Floats, Target, Units

LARGEST = 30.0
"""Log-odds are held to this size, for outputs that round to 0 or 1."""
HALF = 0.5
"""Largest share of the units that come first where they are taken out, as in comprehensiveness and sufficiency."""
LEAST = 1e-2
"""Least deviation, relative to ``spread``, that scores are divided by, or nearly equal ones would outweigh others."""


@register(
    SignalCard(
        name="erasure",
        family="ablation",
        summary="Learn Shapley values first, then the order of units in which the output falls fastest without them.",
        reference="Williams 1992 (policy gradients), on deletion and insertion as of Petsiuk et al. 2018",
        outputs="1",
    )
)
@dataclass(frozen=True, kw_only=True)
class ErasureSignal(Ablation):
    """Give the units scores by whose order the output falls fastest without them, and is there soonest with them alone.

    The first ``warm`` epochs are those of ``ablate``, with its loss L_s. In those after it, orders o of each text's
    units are drawn from the scores and the model is evaluated without o's first t units, and on these alone:

        L = anchor * L_s - mean over o of (r(o) - mean of the other orders' r) * log P(o_1, ..., o_t)
        r(o) = alone * g(first t units alone) - g(all but the first t units),   g = p + odds * log(p / (1 - p))

    P is the Plackett-Luce model whose logits are the scores, standardised within the text, times ``sharpness``; t is
    drawn for each text and step. Where an output has no probability, g is the output relative to ``spread``.

    Metrics show absence in several ways: the log-odds and the areas mask words, comprehensiveness and sufficiency
    delete them. With ``absences=["mask", "delete"]`` one way is drawn for each step, so that the order holds for both.

    Shapley values average over all coalitions. Deletion, comprehensiveness and the fall of log-odds see only those that
    an explanation itself leads to, and it is on these that the order is improved. The scores that result are close to
    Shapley values, on their scale, and not equal to them: for values that add up, train by ``ablate``. It costs
    2 * orders evaluations at most for each text and epoch after ``warm``. Epochs are compared by -r of the scores' own
    order of validation texts, at nine shares of the units.

    Args:
        pairs: of complementary coalitions drawn for a text in a round.
        rounds: epochs in which coalitions are drawn; each epoch learns from all that were evaluated until then.
        classes: how many classes of a text are learned from coalitions; orders are those of the predicted one.
        complete: scores are shifted to add up, as in ``ablate``; their order stays.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides the coalitions.
        spread: size of D, which values are learned relative to; that of the training texts when not given.
        warm: epochs that learn from coalitions alone.
        orders: drawn for each text and step.
        sharpness: how seldom drawn orders differ from that of the scores.
        anchor: weight of L_s.
        alone: weight of what the first units do alone.
        odds: weight of the log-odds beside the probability.
        absences: ways in which the first units are shown to be absent, of which each step draws one; up to half of the
            units are taken out ("delete", "drop"). ``absence`` alone when not given.
    """

    warm: int = 8
    orders: int = 8
    sharpness: float = 3.0
    anchor: float = 0.3
    alone: float = 0.3
    odds: float = 0.05
    absences: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "absences", tuple(self.absences))  # a card has a list
        at_least(self, warm=0, orders=2, anchor=0, alone=0, odds=0)
        if not self.sharpness > 0:
            raise ParameterError(f"sharpness of {self.card.name} must be above 0, got {self.sharpness!r}")

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """As of all that learn from coalitions; ways of showing absence that the model does not have are refused."""
        if self.absences:  # before the epochs that need none of them
            one = explained_texts(task, task.train[:1], 1)
            nothing = [np.zeros((1, len(own)), dtype=np.bool_) for own in one.units]
            for way in self.absences:
                task.model.score(one.units, one.targets, nothing, way)
        return super().prepare(task, shape)

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """L of each text; without a generator, in validation, -r of the scores' own order: (rows,)."""
        near = super().loss(outputs, batch)
        rows = [
            number for number, own in enumerate(batch.extra) if len(cast("Sequence[int]", own.get("units", ()))) > 1
        ]
        if not rows:
            return near
        every = torch.tensor(rows, device=near.device)
        extra, model = [batch.extra[row] for row in rows], cast("Model", batch.shared["model"])
        v, present = outputs[rows, :, 0], batch.present[rows]
        logits = self.sharpness * _standardised(v, present)
        if batch.generator is None:
            first = own_orders(logits, present)
            gained = [[own.mean() for own in self._gains(model, extra, first, way)] for way in self._ways]
            return near.detach().index_copy(0, every, -torch.tensor(np.mean(gained, 0)).to(near))
        pursued = self._pursued(v, logits, present, replace(batch, extra=extra))
        return self._joined(near, every, pursued)

    def _joined(self, near: Tensor, every: Tensor, pursued: Tensor) -> Tensor:
        """L_s of all rows, and what is pursued of ``every`` row of a predicted class: (rows,)."""
        return (near * near.new_ones(len(near)).index_fill(0, every, self.anchor)).index_add(0, every, pursued)

    def _pursued(self, v: Tensor, logits: Tensor, present: Tensor, batch: TrainingBatch) -> Tensor:
        """What is learned besides L_s: (texts,).

        Args:
            v: scores, (texts, units).
            logits: of the orders, (texts, units).
            present: which units there are.
            batch: whose ``extra`` is that of these texts.
        """
        model, generator = cast("Model", batch.shared["model"]), cast("torch.Generator", batch.generator)
        way = self._drawn_way(generator)
        most = HALF if self.absences and Absence.parse(str(way)).removes else 1.0
        made = drawn_orders(logits, present, self.orders, generator, most)
        gained = self._gains(model, batch.extra, made.first, way)
        gains = torch.from_numpy(np.stack(gained)).to(v)  # r(o): (texts, orders)
        ahead = (gains - gains.mean(1, keepdim=True)) * (self.orders / (self.orders - 1))
        return -(ahead * made.log_p).mean(1)

    @property
    def _ways(self) -> Sequence[str | None]:
        """In which first units are shown to be absent."""
        return self.absences or (self.absence,)

    def _drawn_way(self, generator: torch.Generator) -> str | None:
        """That of a step."""
        ways = self._ways
        return ways[int(torch.randint(len(ways), (1,), generator=generator))] if len(ways) > 1 else ways[0]

    def _gains(
        self, model: Model, extra: Sequence[Mapping[str, object]], first: Sequence[Masks], way: str | None
    ) -> list[Floats]:
        """What r is for sets of first units, which are masks (sets, units): (sets,) per text."""
        units = [cast("Units", own["units"]) for own in extra]
        targets = [_bounded(model, cast("Target", own["target"])) for own in extra]
        keep = [self._sets(own) for own in first]
        values = model.score(units, targets, keep, way)
        goods = [self._good(own, target) for own, target in zip(values, targets, strict=True)]
        ends = [own[: len(sets)] for own, sets in zip(goods, first, strict=True)]
        return [self.alone * own[-len(end) :] - end for own, end in zip(goods, ends, strict=True)]

    def _sets(self, first: Masks) -> Masks:
        """What is kept where the first units are absent, and with ``alone`` also these alone: (masks, units)."""
        return np.concatenate([~first, first]) if self.alone else ~first

    def _good(self, values: Floats, target: Target) -> Floats:
        """What g is for the model's values."""
        if target.scale != "log_probability":
            return values / (self.spread or 1.0)
        with np.errstate(divide="ignore"):
            log_odds = values - np.log(-np.expm1(np.minimum(values, 0.0)))
        return np.exp(values) + self.odds * np.clip(log_odds, -LARGEST, LARGEST)

    def _beside(self, texts: ExplainedTexts, number: int, epoch: int | None) -> Mapping[str, object]:
        """Units and target of a text whose orders are evaluated."""
        if epoch is not None and epoch < self.warm:
            return {}
        return {"units": texts.units[number], "target": texts.targets[number]}


def _standardised(v: Tensor, present: Tensor) -> Tensor:
    """Scores brought to mean 0 and deviation 1 within each text, by numbers that no gradient reaches: (rows, units)."""
    count = present.sum(1, keepdim=True)
    known = torch.where(present, v.detach(), 0.0)
    mean = known.sum(1, keepdim=True) / count
    deviation = (torch.where(present, known - mean, 0.0).square().sum(1, keepdim=True) / count).sqrt()
    return (v - mean) / deviation.clamp_min(LEAST)


def _bounded(model: Model, target: Target) -> Target:
    """The target as a log-probability, where the model has one."""
    known = "log_probability" in model.scales and target.contrast is None
    return replace(target, scale="log_probability") if known else target
