"""From a model's raw outputs to predictions and to the explained number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from didact.errors import TargetError
from didact.protocols import Model, TargetLike
from didact.registry import unknown
from didact.types import SCALES, Prediction, Scale, Target

Activation = Literal["softmax", "sigmoid", "identity"]
"""How outputs become probabilities: one label, several labels at once, or regression (not at all)."""


def predictions(outputs: Tensor, labels: tuple[str, ...], activation: Activation) -> list[Prediction]:
    """One prediction per row of outputs (rows, labels)."""
    probabilities = _probabilities(outputs, activation)
    if probabilities is None:
        return [Prediction(labels, tuple(row)) for row in outputs.tolist()]
    pairs = zip(outputs.tolist(), probabilities.tolist(), strict=True)
    return [Prediction(labels, tuple(raw), tuple(share)) for raw, share in pairs]


def read(outputs: Tensor, targets: Sequence[Target], activation: Activation) -> Tensor:
    """The explained number per row, differentiable: (rows, labels) -> (rows,)."""
    index = torch.tensor([target.index for target in targets], device=outputs.device)
    rows = torch.arange(len(targets), device=outputs.device)
    logits = outputs[rows, index]
    scales = {target.scale for target in targets}
    if activation == "identity" or scales == {"logit"}:
        return logits
    several = activation == "sigmoid"
    log_p = functional.logsigmoid(logits) if several else outputs.log_softmax(-1)[rows, index]
    if len(scales) == 1:
        return log_p if scales == {"log_probability"} else log_p.exp()
    kind = torch.tensor([SCALES.index(target.scale) for target in targets], device=outputs.device)
    return torch.where(kind == 0, logits, torch.where(kind == 1, log_p, log_p.exp()))


def resolve_target(model: Model, given: TargetLike, prediction: Prediction, scale: Scale | None = None) -> Target:
    """Turn a label, an index or nothing (the predicted class) into a target of this model."""
    if isinstance(given, Target):
        index, scale = given.index, scale or given.scale
    elif given is None:
        index = prediction.index
    else:
        index = _index(given, model.labels)
    scale = scale or model.scales[0]
    if scale not in model.scales:
        raise TargetError(f"{model.name} has no {scale!r} scale; allowed: {', '.join(model.scales)}")
    if not 0 <= index < len(model.labels):
        raise TargetError(f"label index {index} does not exist; {model.name} has {_menu(model.labels)}")
    return Target(index, model.labels[index], scale)


def _index(given: int | str, labels: tuple[str, ...]) -> int:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int(given)
    if given in labels:
        return labels.index(given)
    folded = [label.casefold() for label in labels]
    if str(given).casefold() in folded:
        return folded.index(str(given).casefold())
    raise TargetError(unknown("label", given, labels) + f" (or an index from 0 to {len(labels) - 1})")


def _menu(labels: tuple[str, ...]) -> str:
    return ", ".join(f"{number} {label}" for number, label in enumerate(labels))


def _probabilities(outputs: Tensor, activation: Activation) -> Tensor | None:
    if activation == "identity":
        return None
    return outputs.softmax(-1) if activation == "softmax" else outputs.sigmoid()
