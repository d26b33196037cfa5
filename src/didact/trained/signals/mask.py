"""Mask: learn which units preserve the prediction when they are kept, and destroy it when they are taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, cast, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from didact.errors import CapabilityError, ParameterError
from didact.protocols import DIFFERENTIABLE, Differentiable, Model
from didact.settings import at_least
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Shape
from didact.trained.signals._masking import Masking, masked_outputs, shared
from didact.trained.signals.base import Signal, SignalCard, SignalTask, register
from didact.types import Example, Prediction, Units

Penalty = Literal["bce", "l1"]


@register(
    SignalCard(
        name="mask",
        family="masking",
        summary="Mark the units that keep the model's prediction when shown, and change it when masked.",
        reference="Barkan et al. 2024, LLM Explainability via Attributive Masking Learning",
        outputs="1",
        needs=frozenset({DIFFERENTIABLE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class MaskSignal(Signal):
    """Mark the units that keep the prediction of the frozen model F, and without which it changes.

    With a = sigmoid(output) per unit, x' the text with unit i shown with weight a_i, and x'' with weight 1 - a_i:

        L = preserve * L_p + sparse * L_a + destroy * L_inv
        L_p   = - sum over j of F(x)_j log F(x')_j
        L_a   = mean over units of -log(1 - a_i) ("bce"), or of a_i ("l1")
        L_inv = - log(1 - F(x'')_y),  y the predicted label

    1 - F(x'')_y is summed over the other labels, so that value and gradient are finite also where F(x'')_y rounds
    to 1. Special tokens, padding and the text of a prompt are always shown and are in no mean. For a regressor, with
    the ``spread`` s of its numbers:

        L_p = ((F(x') - F(x)) / s)^2,    L_inv = exp(-|F(x'') - F(x)| / s)

    L_inv is 1 where taking the marked units out changes nothing, and falls to 0 with the change.

    Args:
        preserve: weight of L_p.
        sparse: weight of L_a.
        destroy: weight of L_inv.
        penalty: "bce", or "l1".
        masking: how a unit with weight a is shown. "soft": its embeddings are mixed with those of the mask token,
            a x + (1 - a) m. "hard": it is x with probability a and else m (in validation x from a = 0.5 on), with the
            gradient of "soft". "top": exactly a share of the units is marked, those with the largest logits, as
            metrics at fixed shares do it; with the gradient of "soft". "learned": m is learned too, from the mask
            token's on. "replace": m is drawn from the embeddings of the training texts, anew for every position and
            step. "omit": units below 0.5 are taken out, with the gradient of "soft".
        shares: of the units that "top" marks, rounded down but at least one unit; of several, one is drawn for each
            text and step.
        spread: of a regressor's numbers, as a unit for differences; their standard deviation over the training texts
            when not given.
    """

    preserve: float = 1.0
    sparse: float = 1.0
    destroy: float = 1.0
    penalty: Penalty = "bce"
    masking: Masking = "soft"
    shares: tuple[float, ...] = (0.2,)
    spread: float | None = None

    def __post_init__(self) -> None:
        at_least(self, preserve=0, sparse=0, destroy=0)
        for name, allowed in (("penalty", get_args(Penalty)), ("masking", get_args(Masking))):
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name} of {self.card.name} must be one of {allowed}, got {getattr(self, name)!r}"
                )
        if not self.preserve and not self.destroy:
            raise ParameterError("preserve and destroy of mask are both 0, so no term decides which units to mark")
        object.__setattr__(self, "shares", tuple(self.shares))
        if not self.shares or not all(0 < share < 1 for share in self.shares):
            raise ParameterError(
                f"shares of {self.card.name} must be above 0 and below 1, at least one; got {self.shares}"
            )
        if self.spread is not None and not self.spread > 0:
            raise ParameterError(f"spread of mask must be above 0, or None, got {self.spread!r}")

    @property
    def outputs(self) -> int:
        """One: the logit of a."""
        return 1

    @property
    def signed(self) -> bool:
        """Never: a unit is marked or not."""
        return False

    def scores(self, outputs: Tensor) -> Tensor:
        """The share a of each unit that is shown, from 0 to 1."""
        return outputs[..., 0].sigmoid()

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """Texts as the shape reads them, with their units and the model's prediction; empty texts are left out."""
        train, validation = (_samples(task, shape, texts) for texts in (task.train, task.validation))
        model = cast("Differentiable", task.model)
        units = [cast("Units", sample.extra["units"]) for sample in train]
        around = {"model": model, **shared(self.masking, model, units)}
        trained = ("absent",) if self.masking == "learned" else ()
        return TrainingSamples(train, validation, around, trained, {"explained model": model.fingerprint()})

    def fitted(self, samples: TrainingSamples) -> Self:
        """With the spread of a regressor's predictions of the training texts, where it was not given."""
        predictions = [cast("Prediction", sample.extra["prediction"]) for sample in samples.of_epoch(0)]
        if self.spread is not None or not predictions or predictions[0].probabilities:
            return self
        spread = float(np.std([one.outputs for one in predictions], axis=0).mean())
        return replace(self, spread=spread if spread > 0 else 1.0)

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """L of each text: (rows,)."""
        logits = outputs[..., 0]  # (rows, units)
        each = [row[present] for row, present in zip(logits, batch.present, strict=True)]
        kept, left = masked_outputs(self.masking, each, batch, self.shares)  # F(x') and F(x''): (rows, labels) each
        predictions = [cast("Prediction", extra["prediction"]) for extra in batch.extra]
        if predictions[0].probabilities:
            preserved, destroyed = _of_classes(kept, left, batch.extra, predictions)
        else:
            preserved, destroyed = self._of_numbers(kept, left, batch.extra, predictions)
        return (
            self.preserve * preserved + self.sparse * self._sparsity(logits, batch.present) + self.destroy * destroyed
        )

    def _sparsity(self, logits: Tensor, present: Tensor) -> Tensor:
        each = F.softplus(logits) if self.penalty == "bce" else logits.sigmoid()  # -log(1 - sigmoid(z)) = softplus(z)
        return torch.where(present, each, 0.0).sum(1) / present.sum(1).clamp(min=1)

    def _of_numbers(
        self, kept: Tensor, left: Tensor, extra: Sequence[Mapping[str, object]], predictions: Sequence[Prediction]
    ) -> tuple[Tensor, Tensor]:
        spread = self.spread or 1.0
        wanted = kept.new_tensor([one.outputs for one in predictions])
        index = _targets(extra, kept.device)
        change = (left - wanted).gather(1, index)[:, 0].abs()
        return ((kept - wanted) / spread).square().sum(1), torch.exp(-change / spread)


def _of_classes(
    kept: Tensor, left: Tensor, extra: Sequence[Mapping[str, object]], predictions: Sequence[Prediction]
) -> tuple[Tensor, Tensor]:
    """L_p and L_inv from log-probabilities (rows, labels)."""
    wanted = kept.new_tensor([one.probabilities for one in predictions])
    others = left.scatter(1, _targets(extra, left.device), -torch.inf)  # log(1 - p_y) is their log-sum-exp
    return -(wanted * kept).sum(1), -others.logsumexp(1)


def _targets(extra: Sequence[Mapping[str, object]], device: torch.device) -> Tensor:
    """The explained output of each row: (rows, 1)."""
    return torch.tensor([[cast("int", own["target"])] for own in extra], device=device)


def _samples(task: SignalTask, shape: Shape, texts: Sequence[Example]) -> list[Sample]:
    scored = [(text, own) for text, own in zip(texts, task.model.units(texts, task.level), strict=True) if len(own)]
    predictions, units = task.model.predict([text for text, _ in scored]), [own for _, own in scored]
    for prediction in predictions[:1]:
        _check(task.model, prediction)
    items = shape.read(task.model, units, [one.index for one in predictions], predictions)
    return [
        Sample(item, np.zeros(len(own)), {"units": own, "prediction": one, "target": one.index})
        for item, own, one in zip(items, units, predictions, strict=True)
    ]


def _check(model: Model, prediction: Prediction) -> None:
    if prediction.kind not in ("class", "number") or prediction.extract is not None:
        raise CapabilityError(
            f"mask learns what preserves a class or a number that is predicted of the whole input, and {model.name} "
            f"predicts a {prediction.kind} of a part of it; use a signal that learns another explainer's scores"
        )
