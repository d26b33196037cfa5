"""Units and tokens of different tokenizers are brought together by their characters."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from didact.models.encoders import pretrained
from didact.models.tokens.encoding import Encoder
from didact.testing.tiny import tiny_tokenizer
from didact.trained.shapes._token_map import token_table
from didact.types import Example, Span, Units

HARD = {
    "emoji": "great 👍🏽 film 👩‍👩‍👧",
    "accents": "un café déjà naïve",
    "combining marks": unicodedata.normalize("NFD", "un café déjà naïve"),
    "CJK": "我很喜欢这部电影 very much",
    "repeated words": "good good good good",
    "double spaces": "a  truly   wonderful  film",
    "line breaks": "the plot\nis\t\tdull",
    "punctuation": "dull, worse: avoid!!! it...",
}
MAKERS = ("bert", "roberta", "xlm-roberta", "llama", "distilbert")


def encoded(maker: str) -> Encoder:
    return Encoder(tiny_tokenizer(maker), None, 1.0)


def meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Slow truth: the characters of both, compared one by one."""
    return one[0] == other[0] and bool(set(range(*one[1:])) & set(range(*other[1:])))


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("level", ["word", "token"])
def test_a_unit_has_exactly_the_tokens_that_share_a_character_with_it(text: str, level: str) -> None:
    for explained in MAKERS:
        (units,) = encoded(explained).units([Example(text)], level)
        for backbone in MAKERS:
            (code,) = encoded(backbone).encode([Example(text)])
            table = token_table(units, code.tokens)
            for span, row in zip(units.spans, table, strict=True):
                own = (span.field, span.start, span.end)
                wanted = {at for at, token in enumerate(code.tokens) if token is not None and meet(own, token)}
                if not wanted and row.max() >= 0:
                    assert unicodedata.category(text[span.start]) == "Mn"  # it has the token of its letter
                    continue
                found = {int(at) for at in row if at >= 0}
                if level == "token" and explained == backbone:
                    assert len(found) == 1
                    assert found <= wanted
                else:
                    assert found == wanted


def test_every_token_unit_of_the_same_tokenizer_has_its_own_token() -> None:
    """The bytes of an emoji all stand for the same character, and only their positions tell them apart."""
    encoder = encoded("llama")
    example = Example("so 👍🏽 good")
    (units,), (code,) = encoder.units([example], "token"), encoder.encode([example])
    table = token_table(units, code.tokens)
    assert len(set(units.spans)) < len(units)
    assert [int(row[0]) for row in table] == [own[0] for own in units.positions]
    assert (table[:, 1:] == -1).all()


def test_one_token_is_copied_to_all_units_that_it_covers() -> None:
    units = Units(Example("New York"), "word", (Span(0, 3), Span(4, 8)))
    assert token_table(units, [None, (0, 0, 8), None]).tolist() == [[1], [1]]


def test_all_tokens_of_a_unit_are_listed() -> None:
    units = Units(Example("unforgettable evening"), "word", (Span(0, 13), Span(14, 21)))
    tokens = [None, (0, 0, 2), (0, 2, 8), (0, 8, 13), (0, 14, 21), None]
    assert token_table(units, tokens).tolist() == [[1, 2, 3], [4, -1, -1]]


def test_repeated_words_are_not_mixed_up() -> None:
    units = Units(Example("good good"), "word", (Span(0, 4), Span(5, 9)))
    assert token_table(units, [(0, 0, 4), (0, 4, 9)]).tolist() == [[0], [1]]


def test_the_fields_of_a_pair_are_apart() -> None:
    units = Units(Example("good film", "good film"), "word", (Span(0, 4), Span(0, 4, 1), Span(5, 9, 1)))
    tokens = [None, (0, 0, 4), (0, 5, 9), None, (1, 0, 4), (1, 5, 9), None]
    assert token_table(units, tokens).tolist() == [[1], [4], [5]]


def test_a_unit_without_a_token_has_none() -> None:
    units = Units(Example("good \u200b film"), "word", (Span(0, 4), Span(5, 6), Span(7, 11)))
    tokens = [None, (0, 0, 4), (0, 5, 5), None]  # the second stands for nothing, and the text was cut behind it
    assert token_table(units, tokens).tolist() == [[1], [-1], [-1]]
    assert token_table(units, [None, None]).tolist() == [[-1], [-1], [-1]]


def test_a_dropped_accent_has_the_token_of_its_letter() -> None:
    text = unicodedata.normalize("NFD", "déjà")
    (units,) = encoded("llama").units([Example(text)], "token")
    assert "\u0301" in units.texts
    assert token_table(units, [None, (0, 0, 2), (0, 3, 4), (0, 4, 5), None])[:, 0].tolist() == [1, 1, 1, 1, 2, 3, 3, 3]
    alone = Units(Example("\u0301a"), "token", (Span(0, 1), Span(1, 2)))
    assert token_table(alone, [(0, 1, 2)]).tolist() == [[-1], [0]]


def test_overlapping_units_and_nested_tokens_are_found() -> None:
    units = Units(Example("abcdef"), "word", (Span(0, 6), Span(2, 3), Span(4, 6)))
    tokens = [(0, 0, 6), (0, 1, 2), (0, 2, 4)]
    assert [set(row.tolist()) - {-1} for row in token_table(units, tokens)] == [{0, 1, 2}, {0, 2}, {0}]


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_real_word_pieces_cover_the_units_of_other_tokenizers(text: str, shared: Path) -> None:
    """A tokenizer that lowers, strips accents and drops joiners still reads every unit that has a letter."""
    backbone = Encoder(pretrained("AutoTokenizer", str(shared / "weights" / "minilm-base")), 256, 1.0)
    (code,) = backbone.encode([Example(text)])
    for explained in MAKERS:
        for level in ("word", "token"):
            (units,) = encoded(explained).units([Example(text)], level)
            table = token_table(units, code.tokens)
            unread = [units.texts[number] for number in np.flatnonzero((table < 0).all(axis=1))]
            assert not [one for one in unread if any(map(str.isalnum, one))], f"{explained} {level}: {unread}"
