"""Rationales in every form mark the same characters."""

from typing import Any

import pytest

from didact.data.load import load_data
from didact.data.rationales import majority
from didact.types import Example, Span

TEXT = "A dull plot, badly told."
DULL, BADLY = Span(2, 6), Span(13, 18)


@pytest.mark.parametrize(
    "rationale",
    [
        [[2, 6], [13, 18]],
        [[2, 6, 0], [13, 18, 0]],
        [0, 1, 0, 1, 0],
        [0.0, 1.0, 0.0, 1.0, 0.0],
        [False, True, False, True, False],
        ["dull", "badly"],
        "[[2, 6], [13, 18]]",
        "[0, 1, 0, 1, 0]",
    ],
)
def test_forms(rationale: Any) -> None:
    for column in ("rationale", "rationales"):
        (found,) = load_data([{"text": TEXT, column: rationale}])
        assert found.rationale == (DULL, BADLY)


def test_neighbouring_tokens_become_one_span() -> None:
    (found,) = load_data([{"text": TEXT, "rationale": [1, 1, 0, 1, 1]}])
    assert found.rationale == (Span(0, 6), Span(13, 24))


def test_masks_over_given_tokens() -> None:
    row = {"text": TEXT, "tokens": ["A", "dull", "plot", ",", "badly", "told", "."], "rationale": [0, 1, 0, 0, 1, 0, 0]}
    (found,) = load_data([row])
    assert found.rationale == (DULL, BADLY)
    (pieces,) = load_data([{"text": "A dull", "tokens": ["[CLS]", "a", "du", "##ll"], "rationale": [1, 0, 0, 1]}])
    assert pieces.rationale == (Span(4, 6),)


def test_tokens_can_be_the_text() -> None:
    row = {"post_tokens": ["so", "dull"], "rationale": [0, 1]}
    (found,) = load_data([row], fields={"tokens": "post_tokens"})
    assert found == Example("so dull", rationale=(Span(3, 7),))


def test_masks_and_passages_of_pairs() -> None:
    pair = {"premise": "a man sleeps", "hypothesis": "he wakes"}
    expected = (Span(6, 12), Span(3, 8, 1))
    # The third word of the first text and the second of the second: a run does not cross from text to text.
    for rationale in ([0, 0, 1, 0, 1], [[6, 12], [3, 8, 1]], ["sleeps", "wakes"], [[[6, 12], [3, 8]]]):
        (found,) = load_data([pair | {"rationale": rationale}])
        assert found.rationale == expected
    (both,) = load_data([pair | {"rationale": [0, 0, 1, 1, 0]}])
    assert both.rationale == (Span(6, 12), Span(0, 2, 1))


def test_a_passage_may_go_over_a_line_break() -> None:
    (found,) = load_data([{"text": "it is\nso dull", "rationale": ["is so"]}])
    assert found.rationale == (Span(3, 8),)


def test_nothing_marked_is_not_nobody_asked() -> None:
    marked, unmarked = load_data([{"text": TEXT, "rationale": []}, {"text": TEXT}])
    assert marked.rationale == ()
    assert unmarked.rationale is None


def test_several_annotators() -> None:
    people = [[0, 1, 1, 0, 0], [[2, 6]], ["plot, badly"]]
    (found,) = load_data([{"text": TEXT, "annotators": people}])
    assert found.annotators == ((Span(2, 12),), (DULL,), (Span(7, 18),))
    # Votes: "dull" 2 of 3, the blank after it 1, "plot," 2 (the mask and the quotation), " badly" 1.
    assert found.rationale == (Span(2, 6), Span(7, 12))
    (given,) = load_data([{"text": TEXT, "annotators": people, "rationale": [[2, 6]]}])
    assert given.rationale == (DULL,)
    assert len(given.annotators) == 3


@pytest.mark.parametrize(
    ("annotators", "expected"),
    [
        ([[Span(0, 4)], [Span(2, 6)]], (Span(0, 6),)),  # two: the union
        ([[Span(0, 4)], [Span(2, 6)], [Span(3, 5)]], (Span(2, 5),)),  # votes 1 1 2 3 2 1
        ([[Span(0, 4)], [], []], ()),
        ([[], []], ()),
        ([[Span(0, 4), Span(2, 4)], [], []], ()),  # nobody votes twice
        ([[Span(0, 4), Span(0, 4, 1)], [Span(0, 2, 1)], [Span(1, 4, 1)]], (Span(0, 4, 1),)),
    ],
)
def test_at_least_half_must_have_marked_it(annotators: list[list[Span]], expected: tuple[Span, ...]) -> None:
    assert majority(annotators) == expected


def test_annotators_survive_json() -> None:
    example = Example(TEXT, rationale=(DULL,), annotators=((DULL,), (), (DULL, BADLY)))
    assert Example.from_dict(example.to_dict()) == example
    assert Example.from_dict({"text": TEXT}).annotators == ()
