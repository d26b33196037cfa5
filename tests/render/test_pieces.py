import pytest

from didact.render.pieces import name, pieces, printable, ranked
from didact.types import Span
from tests.render.conftest import NASTY, Make


@pytest.mark.parametrize("kind", NASTY)
def test_pieces_joined_are_the_text(make: Make, kind: str) -> None:
    text = NASTY[kind]
    explanation = make(text, pair=text[::-1])
    for field, source in enumerate(explanation.example.fields):
        assert "".join(piece.text for piece in pieces(explanation, field)) == source


def test_overlapping_and_empty_units(make: Make) -> None:
    spans = [Span(0, 1), Span(0, 1), Span(1, 4), Span(3, 6), Span(4, 4)]
    found = pieces(make("👍abcdef", spans=spans, scores=[0.5, 0.25, -1.0, 0.5, 1.0]))
    assert [(piece.text, piece.units, piece.strength) for piece in found] == [
        ("👍", (0, 1), 0.75),
        ("ab", (2,), -1.0),
        ("c", (2, 3), -0.5),
        ("de", (3,), 0.5),
        ("f", (), 0.0),
    ]


def test_only_what_lies_outside_the_units_was_cut(make: Make) -> None:
    explanation = make("one two three", spans=[Span(0, 3), Span(4, 7)], truncated=0.4)
    assert [piece.cut for piece in pieces(explanation)] == [False, False, False, True]
    whole = make("one two three", spans=[Span(0, 3), Span(4, 7)])
    assert not any(piece.cut for piece in pieces(whole))
    head = make("one two three", spans=[Span(8, 13)], truncated=0.4)
    assert [piece.cut for piece in pieces(head)] == [True, False]


def test_a_field_without_units_is_cut_whole(make: Make) -> None:
    explanation = make("one", pair="two", spans=[Span(0, 3)], truncated=0.5)
    assert [piece.cut for piece in pieces(explanation, 1)] == [True]


def test_control_characters_become_pictures() -> None:
    assert printable("a\x1b[0m\n\tb\x9b\ud800") == "a␛[0m\n\tb\ufffd\ufffd"


def test_names_are_short_single_lines() -> None:
    assert name(" a\nb ") == "a␊b"
    assert name("  ") == "(blank)"
    assert name("x" * 50, 10) == "x" * 9 + "…"


def test_ranked_by_strength_with_ties_in_order(make: Make) -> None:
    assert ranked(make("a b c d", scores=[1, -3, 3, 0])) == [1, 2, 0, 3]
    assert ranked(make("a b c d", scores=[1, -3, 3, 0], signed=False)) == [2, 0, 1, 3]
