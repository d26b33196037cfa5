"""Explanations with given scores, without a model."""

from collections.abc import Sequence

from didact.metrics.base import BaseMetric
from didact.ops.units import word_spans
from didact.protocols import Evidence
from didact.types import Cost, Example, Explanation, Prediction, Span, Target, Units

POSITIVE = Prediction(("negative", "positive"), (-1.0, 1.0), (0.1, 0.9))
NEGATIVE = Prediction(("negative", "positive"), (1.0, -1.0), (0.9, 0.1))
FREE = Cost()


def explained(
    example: Example | str,
    scores: Sequence[float],
    *,
    tokens: Sequence[Span] = (),
    prediction: Prediction = POSITIVE,
    cost: Cost = FREE,
) -> Explanation:
    """Scores for the words of an example (the first of them, where it is truncated), or for its ``tokens``."""
    given = Example.of(example)
    words = [span for field, text in enumerate(given.fields) for span in word_spans(text, field)]
    spans = tokens or words[: len(scores)]
    units = Units(given, "token" if tokens else "word", tuple(spans))
    target = Target(prediction.index, prediction.label)
    return Explanation("made", units, tuple(map(float, scores)), target, prediction, cost=cost)


def marked(text: str, *words: str) -> tuple[Span, ...]:
    """A rationale: the first place of each of these words."""
    return tuple(Span(text.index(word), text.index(word) + len(word)) for word in words)


def values(metric: BaseMetric, explanations: Sequence[Explanation]) -> list[float]:
    return [grade.value for grade in metric.measure(Evidence(explanations))]


def value(metric: BaseMetric, explanation: Explanation) -> float:
    (only,) = values(metric, [explanation])
    return only
