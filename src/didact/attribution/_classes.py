"""Explanations of every class of a text, the most probable class first."""

from __future__ import annotations

from collections.abc import Iterable

from didact.attribution._skipping import Explanations, OnError, Skipped, explain_all
from didact.errors import TargetError
from didact.protocols import ExampleLike, Explainer, Model, TargetLike
from didact.types import Explanation

EVERY = "all"
"""The target that stands for every class of a model."""


def is_every_class(target: TargetLike, model: Model) -> bool:
    """Whether every class is to be explained; a model's own label of that name comes first."""
    return isinstance(target, str) and target == EVERY and EVERY not in {label.casefold() for label in model.labels}


def explain_every_class(
    explainer: Explainer, model: Model, texts: list[ExampleLike], on_error: OnError = "raise"
) -> Explanations:
    """One explanation per text and class: all classes of the first text, then those of the next."""
    check_classes(model)
    by_text: dict[int, list[Explanation]] = {number: [] for number in range(len(texts))}
    skipped: dict[tuple[int, str], Skipped] = {}
    for label in range(len(model.labels)):
        made = explain_all(explainer, model, texts, label, on_error)
        skipped |= {(note.index, note.reason): note for note in made.skipped}
        left_out = {note.index for note in made.skipped}
        for number, explanation in zip((n for n in by_text if n not in left_out), made, strict=True):
            by_text[number].append(explanation)
    return Explanations((each for own in by_text.values() for each in by_probability(own)), skipped.values())


def check_classes(model: Model) -> None:
    """Refuse a model that has no classes to tell apart."""
    if len(model.labels) < 2:
        raise TargetError(
            f"target='{EVERY}' explains every class, and {model.name} has the one output {model.labels[0]!r}; leave "
            "the target out"
        )


def by_probability(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Explanations of the classes of one text, the most probable class first."""
    return sorted(explanations, key=_improbable)


def _improbable(explanation: Explanation) -> float:
    return -explanation.prediction.value(explanation.target)
