"""Words of a text, and tokens grouped into them by character offsets."""

import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.ops.units import group_words, sum_to_units, word_spans
from didact.testing.tiny import tiny_model
from didact.types import Example, Span, Units


def words(text: str) -> list[str]:
    return [text[span.start : span.end] for span in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a warm film", ["a", "warm", "film"]),
        ("don't can’t rock'n'roll", ["don't", "can’t", "rock'n'roll"]),
        ("a well-made, one-of-a-kind film", ["a", "well-made", ",", "one-of-a-kind", "film"]),
        ("'quoted' -dash- end-", ["'", "quoted", "'", "-", "dash", "-", "end", "-"]),
        ("what?! ... no--really", ["what", "?!", "...", "no", "--", "really"]),
        ("snake_case x2 42", ["snake_case", "x2", "42"]),
        ("很好看 film", ["很", "好", "看", "film"]),
        ("これはtest映画", ["こ", "れ", "は", "test", "映", "画"]),
        ("좋은 영화", ["좋은", "영화"]),
        ("so good 👍🏽👩‍🚀!", ["so", "good", "👍🏽👩‍🚀!"]),
        ("naïve Übung", ["naïve", "Übung"]),
        ("one\ttwo\n\nthree\u00a0four\u3000five", ["one", "two", "three", "four", "five"]),
        ("", []),
        (" \t\n", []),
        ("Cafe\u0301 nai\u0308ve", ["Cafe\u0301", "nai\u0308ve"]),
        ("हिन्दी फ़िल्म", ["हिन्दी", "फ़िल्म"]),
        ("مُحَمَّد", ["مُحَمَّد"]),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


def test_words_know_their_field() -> None:
    assert word_spans("ok so", 1) == [Span(0, 2, 1), Span(3, 5, 1)]


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_words_are_disjoint_ordered_and_leave_only_blanks(text: str) -> None:
    cursor = 0
    for span in word_spans(text):
        assert span.start < span.end
        assert text[cursor : span.start].strip() == ""
        assert not any(character.isspace() for character in text[span.start : span.end])
        cursor = span.end
    assert text[cursor:].strip() == ""


def test_pieces_of_a_word_are_one_unit_and_specials_none() -> None:
    spans, positions = group_words(["unhappy film"], [None, (0, 0, 2), (0, 2, 7), (0, 8, 12), None])
    assert spans == [Span(0, 7), Span(8, 12)]
    assert positions == [[1, 2], [3]]


def test_words_between_blanks_keep_their_punctuation() -> None:
    text = "Well, it's \u4f60\u597d 27. \x1fend"
    tokens = [(0, 0, 4), (0, 4, 5), (0, 6, 10), (0, 11, 12), (0, 12, 13), (0, 14, 16), (0, 16, 17), (0, 19, 22)]
    spans, positions = group_words([text], tokens, "whitespace")
    assert [text[span.start : span.end] for span in spans] == text.split()
    assert positions == [[0, 1], [2], [3, 4], [5, 6], [7]]


def test_a_token_may_carry_the_blank_before_its_word() -> None:
    spans, positions = group_words(["good film"], [(0, 0, 4), (0, 4, 9)])
    assert spans == [Span(0, 4), Span(5, 9)]
    assert positions == [[0], [1]]


def test_words_that_share_a_token_become_one_unit() -> None:
    text = "so good, yes"
    spans, positions = group_words([text], [(0, 0, 2), (0, 3, 5), (0, 5, 8), (0, 9, 12)])  # "so" "go" "od," "yes"
    assert [text[s.start : s.end] for s in spans] == ["so", "good,", "yes"]
    assert positions == [[0], [1, 2], [3]]


def test_a_token_across_three_words_and_the_pieces_after_it_are_one_unit() -> None:
    text = "a-b c! d"
    spans, positions = group_words([text], [(0, 0, 5), (0, 5, 6), (0, 7, 8)])  # "a-b c" "!" "d"
    assert [text[s.start : s.end] for s in spans] == ["a-b c", "!", "d"]
    assert positions == [[0], [1], [2]]
    chained, places = group_words([text], [(0, 0, 3), (0, 2, 5), (0, 4, 6), (0, 7, 8)])
    assert [text[s.start : s.end] for s in chained] == ["a-b c!", "d"]
    assert places == [[0, 1, 2], [3]]


def test_a_token_of_blanks_belongs_to_the_word_that_follows() -> None:
    spans, positions = group_words(["  a   b  "], [(0, 0, 1), (0, 1, 3), (0, 3, 5), (0, 5, 7), (0, 7, 9)])
    assert spans == [Span(2, 3), Span(6, 7)]
    assert positions == [[0, 1], [2, 3, 4]]  # at the end no word follows: the last one takes it


def test_an_empty_token_belongs_to_the_word_that_follows() -> None:
    spans, positions = group_words(["a b"], [(0, 0, 0), (0, 0, 1), (0, 2, 2), (0, 2, 3)])
    assert spans == [Span(0, 1), Span(2, 3)]
    assert positions == [[0, 1], [2, 3]]


def test_byte_level_pieces_that_share_one_character_are_one_unit() -> None:
    text = "a 😀 b"
    spans, positions = group_words([text], [(0, 0, 1), (0, 1, 3), (0, 2, 3), (0, 2, 3), (0, 3, 5)])
    assert [text[s.start : s.end] for s in spans] == ["a", "😀", "b"]
    assert positions == [[0], [1, 2, 3], [4]]


def test_words_that_were_cut_off_are_no_units() -> None:
    spans, positions = group_words(["one two three"], [None, (0, 0, 3), (0, 4, 5), None])
    assert spans == [Span(0, 3), Span(4, 7)]
    assert positions == [[1], [2]]


def test_two_fields_keep_their_words_apart() -> None:
    spans, positions = group_words(["ab c", "ab"], [None, (0, 0, 1), (0, 1, 2), (0, 3, 4), None, (1, 0, 2), None])
    assert spans == [Span(0, 2, 0), Span(3, 4, 0), Span(0, 2, 1)]
    assert positions == [[1, 2], [3], [5]]


def test_blanks_at_the_end_of_a_field_stay_in_it() -> None:
    spans, positions = group_words(["a ", "b"], [(0, 0, 1), (0, 1, 2), (1, 0, 1)])
    assert spans == [Span(0, 1, 0), Span(0, 1, 1)]
    assert positions == [[0, 1], [2]]


@pytest.mark.parametrize("tokens", [[], [None], [(0, 0, 1)]])
def test_a_text_without_words_has_no_units(tokens: list[tuple[int, int, int] | None]) -> None:
    assert group_words(["  "], tokens) == ([], [])


def bert() -> NetworkModel:
    model = load_model(tiny_model("bert"), max_truncated=1.0)
    assert isinstance(model, NetworkModel)
    return model


BERT = bert()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=40))
def test_units_of_a_real_tokenizer_cover_every_character_once_and_in_order(text: str) -> None:
    if not text.strip():
        return
    code = BERT.reader.encode([Example(text)])[0]
    (units,) = BERT.units([Example(text)])
    assert units.truncated == 0
    ends = [0]
    for span in units.spans:
        assert ends[-1] <= span.start < span.end
        ends.append(span.end)
    covered = {i for span in units.spans for i in range(span.start, span.end)}
    assert {i for i, character in enumerate(text) if not character.isspace()} <= covered
    flat = [position for positions in units.positions for position in positions]
    assert flat == [i for i, token in enumerate(code.tokens) if token is not None]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(max_size=40))
def test_whatever_the_text_every_token_has_one_unit_that_holds_its_characters(text: str) -> None:
    code = BERT.reader.encode([Example(text)])[0]
    spans, positions = group_words([text], code.tokens)
    flat = [position for own in positions for position in own]
    standing = [i for i, token in enumerate(code.tokens) if token is not None]
    assert flat == (standing if spans else [])
    for span, own in zip(spans, positions, strict=True):
        for _, start, end in filter(None, (code.tokens[position] for position in own)):
            solid = [i for i in range(start, end) if not text[i].isspace()]
            assert all(span.start <= i < span.end for i in solid), (text, unicodedata.name(text[start], "?"))


def test_scores_of_tokens_add_up_to_scores_of_units() -> None:
    units = Units(Example("unhappy film"), "word", (Span(0, 7), Span(8, 12)), ((1, 2), (3,)))
    found = sum_to_units(units, torch.tensor([100.0, 1.5, -0.25, 4.0, 100.0], requires_grad=True))
    np.testing.assert_array_equal(found, [1.25, 4.0])
    assert found.dtype == np.float64
