"""Answers in words: what is predicted, what is explained, and what is right."""

from __future__ import annotations

from didact.render.pieces import name
from didact.types import Answer, Example, Explanation, Span

LONGEST = 80
"""Characters of an answer in a heading."""


def predicted(explanation: Explanation) -> str:
    """The predicted class or output by its name, an answer in quotes, or which word a class is about."""
    prediction = explanation.prediction
    if prediction.kind in ("class", "number"):
        return _about(prediction.label, explanation.example, prediction.extract)
    extract = prediction.extract
    empty = isinstance(extract, Span) and extract.start == extract.end
    return "no answer" if empty else _written(explanation.example, extract or "")


def explained(explanation: Explanation) -> str:
    """The same of the target."""
    target = explanation.target
    if target.answer is None or explanation.prediction.kind in ("class", "number"):
        return _about(target.name, explanation.example, target.answer)
    return _written(explanation.example, target.answer)


def gold(example: Example) -> str:
    """The gold answer; several that are right are put beside each other."""
    if isinstance(example.label, tuple):
        return " or ".join(dict.fromkeys(_written(example, span) for span in example.label)) or "no answer"
    return _written(example, example.label) if isinstance(example.label, Span) else str(example.label)


def _about(label: str, example: Example, place: Span | str | None) -> str:
    return label if place is None else f"{label} of {_written(example, place)}"


def _written(example: Example, answer: Answer) -> str:
    """An answer in quotes."""
    text = example.texts[answer.field][answer.start : answer.end] if isinstance(answer, Span) else str(answer)
    return f"“{name(text, LONGEST)}”"
