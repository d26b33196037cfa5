"""Targets: from what a user names to the number that is explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from didact.errors import ModelError, TargetError
from didact.protocols import Answering, Model, TargetLike
from didact.registry import unknown
from didact.types import Example, Prediction, Scale, Span, Target

if TYPE_CHECKING:
    from torch import Tensor


def resolve_target(model: Model, given: TargetLike, prediction: Prediction, scale: Scale | None = None) -> Target:
    """Turn what a user names, or nothing (what is predicted), into a target of this model on one of its scales."""
    own = given.scale if isinstance(given, Target) else model.scales[0]
    chosen = scale or own
    if chosen not in model.scales:
        raise TargetError(f"{model.name} has no {chosen!r} scale; allowed: {', '.join(model.scales)}")
    pair = _contrasted(given)
    if pair is None:
        return model.target(given, prediction, chosen)
    first, second = (model.target(each, prediction, chosen) for each in pair)
    if first.answer != second.answer:
        raise TargetError("a contrastive target compares two labels, and this model predicts spans; give one target")
    if first.index == second.index:
        raise TargetError(
            f"a contrastive target needs two different labels, got {first.label!r} twice; "
            f"{model.name} has {', '.join(model.labels)}"
        )
    return dataclasses.replace(first, contrast=second.index, contrast_label=second.label)


def _contrasted(given: TargetLike) -> tuple[TargetLike, TargetLike] | None:
    """Both parts of a contrastive target; None where another kind of target is given."""
    if isinstance(given, Target):
        return None if given.second is None else (given.first, given.second)
    if not isinstance(given, (tuple, list)):
        return None
    if len(given) != 2:
        raise TargetError(f"a contrastive target is a pair of labels (target, versus), got {len(given)} labels")
    return given[0], given[1]


def predicted_targets(
    model: Model,
    examples: Sequence[Example],
    wanted: Sequence[TargetLike],
    scale: Scale | None = None,
    known: Sequence[Prediction] | None = None,
) -> tuple[list[Prediction], list[Target]]:
    """Plain predictions and one target for each.

    A prediction has an output for its target also where that is about another span than the predicted one.

    Args:
        model: the explained model.
        examples: what is explained.
        wanted: what a user names, one per example.
        scale: of all targets; the model's first when not given.
        known: the predictions where they were made already.
    """
    predictions = list(model.predict(examples) if known is None else known)
    targets = []
    for number, (example, given) in enumerate(zip(examples, wanted, strict=True)):
        place = given.answer if isinstance(given, Target) else given
        if isinstance(place, Span):
            _check_inside(example, place)
        target = resolve_target(model, given, predictions[number], scale)
        if isinstance(place, Span) and place != predictions[number].extract:
            (predictions[number],) = cast("Answering", model).predict([example], about=[place])
            target = resolve_target(model, given, predictions[number], scale)
        targets.append(target)
    return predictions, targets


def _check_inside(example: Example, given: Span) -> None:
    """Refuse a span that lies outside of the input."""
    text = example.fields[given.field] if 0 <= given.field < len(example.fields) else None
    if not isinstance(text, str):
        raise TargetError(f"the span {given} is given as the target, but field {given.field} of the example is no text")
    if not 0 <= given.start < given.end <= len(text):
        raise TargetError(
            f"characters {given.start} to {given.end} are given as the target, but field {given.field} has "
            f"{len(text)} characters; give a span inside of it that is not empty"
        )


def described(model: Model) -> str:
    """A model at a prompt: what it reads, what it predicts, and what methods may look at."""
    labels = ", ".join(model.labels[:LABELS]) + (", ..." if len(model.labels) > LABELS else "")
    reads = getattr(model, "inputs", "examples")
    return f"{type(model).__name__}({model.name!r}: {reads} -> {labels})"


LABELS = 6
"""How many labels of a model a prompt prints."""


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


def at_least_single(outputs: Tensor) -> Tensor:
    """The outputs of a network in half precision as single ones; others as they are."""
    return outputs.float() if outputs.dtype.itemsize < 4 else outputs


def check_defined(outputs: Tensor, examples: Sequence[Example], model: str) -> None:
    """Refuse outputs (rows, ...) that are not numbers, naming the example of the first such row."""
    undefined = outputs.isnan().flatten(1).any(1).nonzero().flatten().tolist()
    if undefined:
        text = examples[undefined[0]].fields[0]
        raise ModelError(f"{model} returns NaN for {text!r:.60}: its weights are damaged, or overflow")


def _index(given: TargetLike, labels: tuple[str, ...]) -> int:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int(given)
    if given in labels:
        return labels.index(given)
    folded = [label.casefold() for label in labels]
    if str(given).casefold() in folded:
        return folded.index(str(given).casefold())
    raise TargetError(unknown("label", given, labels) + f" (or an index from 0 to {len(labels) - 1})")
