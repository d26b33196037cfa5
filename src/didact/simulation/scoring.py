"""How near a student's answers come to the teacher's: one number per exam item, and two figures over all of them.

>>> answer_f1("the Eiffel Tower", "Eiffel tower in Paris")  # 2 words in common, of 2 given and 4 wanted
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
from numpy.typing import ArrayLike, NDArray

from didact.errors import InputError, ParameterError
from didact.registry import unknown
from didact.students.base import Lesson, Task
from didact.types import Floats, Span

METRICS: Mapping[Task, tuple[str, ...]] = {
    "classes": ("accuracy",),
    "number": ("squared_error",),
    "span": ("f1", "exact"),
}
"""The metrics of each task, the usual one first."""

LOWER_IS_BETTER = frozenset({"squared_error"})


def item_scores(task: Task, answers: NDArray[np.generic], lessons: Sequence[Lesson], metric: str) -> Floats:
    """One number per exam item.

    Args:
        task: what is imitated.
        answers: of one student: classes (items,), numbers (items,), or first and last character (items, 2) of spans in
            the passage; a negative one stands for no answer.
        lessons: the exam with the teacher's answers. Where an answer is a sequence of spans, the one that fits the
            student's best counts.
        metric: "accuracy" (1 or 0) of classes, "squared_error" of numbers, "f1" or "exact" of spans.
    """
    if metric not in METRICS[task]:
        raise ParameterError(unknown(f"metric of {task}", metric, METRICS[task]))
    if len(answers) != len(lessons):
        raise InputError(f"{len(answers)} answers were given to an exam of {len(lessons)} items; one each is needed")
    if task == "span":
        score = answer_f1 if metric == "f1" else exact_match
        pairs = zip(np.asarray(answers, dtype=np.int64).tolist(), lessons, strict=True)
        return np.array([_span_score(place, lesson, score) for place, lesson in pairs], dtype=np.float64)
    wanted = np.array([lesson.answer for lesson in lessons], dtype=np.float64)
    given = np.asarray(answers, dtype=np.float64)
    return (given == wanted).astype(np.float64) if metric == "accuracy" else np.asarray((given - wanted) ** 2)


def pearson(answers: ArrayLike, truth: ArrayLike) -> float:
    """Pearson's correlation of numbers with the teacher's; NaN where either list is constant."""
    given, wanted = _numbers(answers, truth)
    x, y = given - given.mean(), wanted - wanted.mean()
    norm = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / norm) if norm > 0 else float("nan")


def rmse(answers: ArrayLike, truth: ArrayLike) -> float:
    """Root mean square distance of numbers from the teacher's."""
    given, wanted = _numbers(answers, truth)
    return float(np.sqrt(((given - wanted) ** 2).mean()))


def answer_f1(given: str, wanted: str) -> float:
    """F1 of the words in common, as SQuAD counts them; of an empty answer, whether both are empty."""
    first, second = _normal(given).split(), _normal(wanted).split()
    if not first or not second:
        return float(first == second)
    common = (Counter(first) & Counter(second)).total()
    return 2 * common / (len(first) + len(second))


def exact_match(given: str, wanted: str) -> float:
    """Whether both are the same but for case, punctuation, articles and blanks, as SQuAD counts them."""
    return float(_normal(given) == _normal(wanted))


def _span_score(place: Sequence[int], lesson: Lesson, score: Callable[[str, str], float]) -> float:
    first, last = place
    fields = lesson.example.texts
    given = fields[-1][first : last + 1] if 0 <= first <= last else ""
    golds = [fields[span.field][span.start : span.end] for span in _spans(lesson.answer)]
    return max(score(given, gold) for gold in golds)


def _spans(answer: object) -> list[Span]:
    spans = [answer] if isinstance(answer, Span) else list(answer) if isinstance(answer, Sequence) else []
    if not spans or not all(isinstance(span, Span) for span in spans):
        raise InputError(f"the answer to a question is a span of the passage, or several; got {answer!r}")
    return spans


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def _normal(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _numbers(answers: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    given, wanted = np.asarray(answers, dtype=np.float64).ravel(), np.asarray(truth, dtype=np.float64).ravel()
    if len(given) != len(wanted) or not len(given):
        raise InputError(f"each item needs an answer and the teacher's number: got {len(given)} and {len(wanted)}")
    return given, wanted
