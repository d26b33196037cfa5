"""How near a student's answers come to the teacher's: one number per test item.

>>> answer_f1("the Eiffel Tower", "Eiffel tower in Paris")  # 2 words in common, of 2 and 4
0.6666666666666666
>>> exact_match("The Eiffel Tower!", "eiffel tower")
1.0
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError, ParameterError
from didact.registry import unknown
from didact.students.base import LabelledExample
from didact.types import AnswerKind, Floats, Span

METRICS: Mapping[AnswerKind, tuple[str, ...]] = {
    "class": ("accuracy",),
    "number": ("squared_error",),
    "span": ("f1", "exact"),
}
"""The metrics of each kind of answer, the usual one first."""

LOWER_IS_BETTER = frozenset({"squared_error"})


def item_scores(kind: AnswerKind, answers: NDArray[np.generic], test: Sequence[LabelledExample], metric: str) -> Floats:
    """One number per test item.

    Args:
        kind: of the teacher's answers.
        answers: of one student: classes (items,), numbers (items,), or first and last character (items, 2) of spans in
            the passage; negative where there is no answer.
        test: the test examples with the teacher's answers. Of several right spans, the most similar counts.
        metric: "accuracy" (1 or 0) of classes, "squared_error" of numbers, "f1" or "exact" of spans.
    """
    if metric not in METRICS[kind]:
        raise ParameterError(unknown(f"metric of answers of kind {kind}", metric, METRICS[kind]))
    if len(answers) != len(test):
        raise InputError(f"{len(answers)} answers were given to {len(test)} test items; one each is needed")
    if kind == "span":
        score = answer_f1 if metric == "f1" else exact_match
        pairs = zip(np.asarray(answers, dtype=np.int64).tolist(), test, strict=True)
        return np.array([_span_score(place, labelled, score) for place, labelled in pairs], dtype=np.float64)
    truth = np.array([labelled.answer for labelled in test], dtype=np.float64)
    predicted = np.asarray(answers, dtype=np.float64)
    return (predicted == truth).astype(np.float64) if metric == "accuracy" else np.asarray((predicted - truth) ** 2)


def answer_f1(answer: str, truth: str) -> float:
    """F1 of the words in common, as SQuAD counts them; of an empty answer, whether both are empty."""
    first, second = _normal(answer).split(), _normal(truth).split()
    if not first or not second:
        return float(first == second)
    common = (Counter(first) & Counter(second)).total()
    return 2 * common / (len(first) + len(second))


def exact_match(answer: str, truth: str) -> float:
    """Whether both are the same but for case, punctuation, articles and blanks, as SQuAD counts them."""
    return float(_normal(answer) == _normal(truth))


def _span_score(place: Sequence[int], labelled: LabelledExample, score: Callable[[str, str], float]) -> float:
    first, last = place
    fields = labelled.example.texts
    answer = fields[-1][first : last + 1] if 0 <= first <= last else ""
    golds = [fields[span.field][span.start : span.end] for span in _spans(labelled.answer)]
    return max(score(answer, gold) for gold in golds)


def _spans(answer: object) -> list[Span]:
    spans = [answer] if isinstance(answer, Span) else list(answer) if isinstance(answer, Sequence) else []
    if not spans or not all(isinstance(span, Span) for span in spans):
        raise InputError(f"the answer to a question is a span of the passage, or several; got {answer!r}")
    return spans


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def _normal(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
