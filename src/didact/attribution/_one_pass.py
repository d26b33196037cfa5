"""Explaining in the pass that predicts, where a method and a model allow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from didact.models.pending import SettlesTargets, alike
from didact.protocols import Model, TargetLike
from didact.types import Example, Prediction, Scale, Target

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Passed(Generic[T]):
    """What one pass per example gave: its prediction, the target that this settled, and what the method computed."""

    predictions: list[Prediction]
    targets: list[Target]
    outcomes: list[T]


def in_one_pass(
    attribute: Callable[[Sequence[Target]], list[T]],
    model: Model,
    examples: Sequence[Example],
    wanted: Sequence[TargetLike],
    scale: Scale | None,
    method: str,
) -> Passed[T] | None:
    """Predictions from the passes that are differentiated; None where there must be a plain pass first.

    A plain pass after the first batch of a network, and after some later ones, guards that both predict the same.
    Where they do not, this batch and all later ones are explained with a plain pass.

    Args:
        attribute: the method, for targets that are settled in its first pass.
        model: the explained model.
        examples: what is explained.
        wanted: the targets that a user names.
        scale: of the targets.
        method: its name, for which the network is guarded: no setting changes what the pass computes.
    """
    targets = model.pending(examples, wanted, scale, method) if isinstance(model, SettlesTargets) else None
    if targets is None or targets.guard.failed:
        return None
    outcomes = attribute(targets)
    predictions = targets.predictions
    if targets.guard.is_due():
        pairs = zip(predictions, model.predict(examples), strict=True)
        targets.guard.failed = not all(alike(made, plain, model.precision) for made, plain in pairs)
        if targets.guard.failed:
            return None
    return Passed(predictions, list(targets), outcomes)
