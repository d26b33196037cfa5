"""Scores of answers, worked out by hand."""

from typing import Any

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.simulation.scoring import answer_f1, exact_match, item_scores
from didact.students.base import LabelledExample
from didact.types import Example, Span

QUESTION = "Where does she live?"
PASSAGE = "She lives in a house by the sea, near Dublin."


def asked(*phrases: str) -> LabelledExample:
    """A question whose answers are these phrases of the passage."""
    spans = [Span(PASSAGE.index(phrase), PASSAGE.index(phrase) + len(phrase), 1) for phrase in phrases]
    answer: Any = spans[0] if len(spans) == 1 else tuple(spans)
    return LabelledExample(Example(QUESTION, PASSAGE), answer)


def place(phrase: str) -> list[int]:
    """First and last character of a phrase."""
    return [PASSAGE.index(phrase), PASSAGE.index(phrase) + len(phrase) - 1]


@pytest.mark.parametrize(
    ("given", "wanted", "f1", "exact"),
    [
        ("a house", "House.", 1.0, 1.0),  # article, case and full stop do not count
        ("house by the sea", "house", 0.5, 0.0),  # house, by, sea: 1 in common, 2 * 1 / (3 + 1)
        ("near Dublin", "by the sea", 0.0, 0.0),
        ("the the", "a", 1.0, 1.0),  # nothing is left of either
        ("", "sea", 0.0, 0.0),
        ("no no yes", "no yes yes", 2 / 3, 0.0),  # no and yes once each in common: 2 * 2 / (3 + 3)
        ("sea-side", "seaside", 1.0, 1.0),  # punctuation goes without leaving a blank
        ("theatre", "atre", 0.0, 0.0),  # an article is a whole word
    ],
)
def test_answers_by_hand(given: str, wanted: str, f1: float, exact: float) -> None:
    assert answer_f1(given, wanted) == pytest.approx(f1)
    assert answer_f1(wanted, given) == pytest.approx(f1)
    assert exact_match(given, wanted) == exact


def test_spans_are_compared_as_texts_and_the_best_answer_counts() -> None:
    test = [asked("a house by the sea"), asked("near Dublin"), asked("near Dublin", "house"), asked("Dublin")]
    given = np.array([place("by the sea"), place("Dublin"), place("a house"), [-1, -1]])
    # by, sea of house, by, sea: 2 * 2 / 5. Dublin of near, Dublin: 2 / 3. house is one of two answers. No answer.
    assert item_scores("span", given, test, "f1") == pytest.approx([0.8, 2 / 3, 1.0, 0.0])
    assert item_scores("span", given, test, "exact").tolist() == [0.0, 0.0, 1.0, 0.0]


def test_classes_and_numbers() -> None:
    test = [LabelledExample(Example("x"), answer) for answer in (0, 2, 1)]
    assert item_scores("class", np.array([0, 1, 1]), test, "accuracy").tolist() == [1.0, 0.0, 1.0]
    test = [LabelledExample(Example("x"), answer) for answer in (0.5, -1.0)]
    assert item_scores("number", np.array([1.0, 1.0]), test, "squared_error").tolist() == [0.25, 4.0]


def test_refusals_say_what_is_wrong() -> None:
    test = [LabelledExample(Example("x"), 0)]
    with pytest.raises(ParameterError, match="known: accuracy"):
        item_scores("class", np.array([0]), test, "f1")
    with pytest.raises(InputError, match="2 answers were given to 1 test items"):
        item_scores("class", np.array([0, 1]), test, "accuracy")
    with pytest.raises(InputError, match="span of the passage"):
        item_scores("span", np.array([[0, 1]]), test, "f1")
