"""Targets: from what a user names to the number that is explained."""

from __future__ import annotations

import numpy as np

from didact.errors import TargetError
from didact.protocols import Model, TargetLike
from didact.registry import unknown
from didact.types import Prediction, Scale, Target


def resolve_target(model: Model, given: TargetLike, prediction: Prediction, scale: Scale | None = None) -> Target:
    """Turn what a user names, or nothing (what is predicted), into a target of this model on one of its scales."""
    own = given.scale if isinstance(given, Target) else model.scales[0]
    chosen = scale or own
    if chosen not in model.scales:
        raise TargetError(f"{model.name} has no {chosen!r} scale; allowed: {', '.join(model.scales)}")
    return model.target(given, prediction, chosen)


def labelled(labels: tuple[str, ...], given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
    """A target among named outputs, from a label, its index, a target or nothing."""
    if isinstance(given, Target):
        index = given.index
    elif given is None:
        index = prediction.index
    else:
        index = _index(given, labels)
    if not 0 <= index < len(labels):
        menu = ", ".join(f"{number} {label}" for number, label in enumerate(labels))
        raise TargetError(f"label index {index} does not exist; the model has {menu}")
    return Target(index, labels[index], scale)


def _index(given: int | str, labels: tuple[str, ...]) -> int:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int(given)
    if given in labels:
        return labels.index(given)
    folded = [label.casefold() for label in labels]
    if str(given).casefold() in folded:
        return folded.index(str(given).casefold())
    raise TargetError(unknown("label", given, labels) + f" (or an index from 0 to {len(labels) - 1})")
