"""A number: the output of a regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor
from torch.nn import functional

from didact.models.batch import EncodedBatch, placed
from didact.models.heads.base import HEADS, Head, HeadCard
from didact.models.heads.classes import is_regression, label_names
from didact.models.outputs import at_least_single, labelled
from didact.protocols import TargetLike
from didact.types import Prediction, Scale, Target

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@HEADS.register(
    HeadCard(
        name="number",
        family="regression",
        summary="The outputs are numbers, explained as they are.",
        answers="number",
        architecture="ForSequenceClassification",
        auto_class="AutoModelForSequenceClassification",
        further=(("ForImageClassification", "AutoModelForImageClassification"),),
    )
)
class NumberHead(Head):
    """Explains an output itself; there are no probabilities.

    Args:
        labels: names of the outputs, usually one.
    """

    scales: tuple[Scale, ...] = ("logit",)

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    @classmethod
    def serves(cls, architecture: str, config: PreTrainedConfig) -> bool:
        """Networks with a single output, or configured as regressors."""
        return super().serves(architecture, config) and is_regression(config)

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Self:
        """Names as configured."""
        return cls(label_names(config))

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        """The numbers of each row."""
        return [Prediction(self.labels, tuple(row)) for row in outputs.tolist()]

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        """The target's output."""
        index = placed([target.index for target in targets], outputs.device)
        return outputs[torch.arange(len(targets), device=outputs.device), index]

    def readout(self, outputs: Tensor, batch: EncodedBatch) -> Tensor:
        """The numbers."""
        return at_least_single(outputs)

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """An output by its name or index; nothing means the only one."""
        return labelled(self.labels, given, prediction, scale)

    def loss(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Squared error."""
        return functional.mse_loss(outputs, wanted)
