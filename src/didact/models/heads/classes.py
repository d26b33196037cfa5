"""Classes with probabilities: one of several labels, or any number of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor
from torch.nn import functional

from didact.errors import CapabilityError
from didact.models.batch import EncodedBatch, placed
from didact.models.heads.base import HEADS, Head, HeadCard
from didact.models.outputs import at_least_single, labelled
from didact.protocols import TargetLike
from didact.types import SCALES, Prediction, Scale, Target

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@HEADS.register(
    HeadCard(
        name="classes",
        family="classification",
        summary="One logit per label; softmax, or a sigmoid each where several labels may hold.",
        answers="class",
        architecture="ForSequenceClassification",
        auto_class="AutoModelForSequenceClassification",
        further=(("ForImageClassification", "AutoModelForImageClassification"),),
    )
)
class ClassesHead(Head):
    """Explains the logit, the log-probability or the probability of a label.

    Args:
        labels: names of the outputs.
        several: whether each label holds or not by itself, so that probabilities do not add up to 1.
        scales: which of the scales may be explained, the default first.
    """

    def __init__(self, labels: Sequence[str], *, several: bool = False, scales: tuple[Scale, ...] = SCALES) -> None:
        self.labels = tuple(labels)
        self.several = several
        self.scales = scales

    @classmethod
    def serves(cls, architecture: str, config: PreTrainedConfig) -> bool:
        """Classifiers of texts and images that are no regressors."""
        return super().serves(architecture, config) and not is_regression(config)

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Self:
        """Labels and problem type as configured."""
        return cls(label_names(config), several=config.problem_type == "multi_label_classification")

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        """Logits and probabilities of each row."""
        probabilities = outputs.sigmoid() if self.several else outputs.softmax(-1)
        pairs = zip(outputs.tolist(), probabilities.tolist(), strict=True)
        return [Prediction(self.labels, tuple(raw), tuple(share)) for raw, share in pairs]

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch | None = None) -> Tensor:
        """The target's logit, log-probability or probability."""
        index = placed([target.index for target in targets], outputs.device)
        rows = torch.arange(len(targets), device=outputs.device)
        logits = outputs[rows, index]
        scales = {target.scale for target in targets}
        if scales == {"logit"}:
            return logits
        log_p = functional.logsigmoid(logits) if self.several else outputs.log_softmax(-1)[rows, index]
        if len(scales) == 1:
            return log_p if scales == {"log_probability"} else log_p.exp()
        kind = placed([SCALES.index(target.scale) for target in targets], outputs.device)
        return torch.where(kind == 0, logits, torch.where(kind == 1, log_p, log_p.exp()))

    def readout(self, outputs: Tensor, batch: EncodedBatch | None = None) -> Tensor:
        """Log-probabilities of the labels, of which one holds."""
        if self.several:
            raise CapabilityError(
                "the labels of this model hold independently of each other, and a distribution over labels that "
                "exclude one another is needed; load a model with problem_type='single_label_classification'"
            )
        return at_least_single(outputs).log_softmax(-1)

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """A label by its name or index; nothing means the predicted one."""
        return labelled(self.labels, given, prediction, scale)

    def loss(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Cross-entropy against the wanted probabilities."""
        if self.several:
            return functional.binary_cross_entropy_with_logits(outputs, wanted)
        return functional.cross_entropy(outputs, wanted)


def is_regression(config: PreTrainedConfig) -> bool:
    """Whether a network with this configuration returns a number rather than classes."""
    return config.num_labels == 1 or config.problem_type == "regression"


def label_names(config: PreTrainedConfig) -> tuple[str, ...]:
    """Names of the outputs in order."""
    return tuple(str(label) for _, label in sorted((config.id2label or {}).items()))
