"""Hints, links and answers in characters, carried over to the tokens of students that cut texts differently."""

import numpy as np
import pytest

from didact.errors import InputError
from didact.models.tokens.encoding import Encoder
from didact.students.base import Hint, LabelledExample
from didact.students.tokenized import (
    PADDING,
    SEPARATOR,
    UNKNOWN,
    TokenizedTexts,
    WordNumbers,
    answer_characters,
    answer_positions,
    hint_table,
    hint_weights,
    tokenised,
    worded,
)
from didact.testing.tiny import tiny_tokenizer
from didact.types import Example, Span

TEXT = "a truly wonderful film with unforgettable music"


def place(text: str, part: str, field: int = 0) -> Span:
    return Span(text.index(part), text.index(part) + len(part), field)


def hint(*spans: Span, weights: list[float] | None = None) -> Hint:
    return Hint(spans, np.array(weights or [1.0] * len(spans)))


def read(architecture: str, *examples: Example, limit: int = 128) -> TokenizedTexts:
    return tokenised(examples, Encoder(tiny_tokenizer(architecture), limit, 1.0))


def marked(texts: TokenizedTexts, row: int, text: str, weights: np.ndarray) -> str:
    """What stands at the marked positions, put together again."""
    return "".join(text[texts.starts[row, at] : texts.ends[row, at]] for at in np.flatnonzero(weights)).strip()


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_a_hint_reaches_exactly_the_tokens_of_its_words_whatever_the_tokenizer(architecture: str) -> None:
    texts = read(architecture, Example(TEXT))
    for word in ("wonderful", "unforgettable", "a", "music"):
        weights = hint_weights(texts, 0, hint(place(TEXT, word)))
        assert marked(texts, 0, TEXT, weights) == word
        assert set(weights.tolist()) == {0.0, 1.0}, "a set stays a set: each piece of the word has its weight"
    assert not texts.text[0, 0], "the first token is special, and no hint points at it"


def test_a_hint_in_pieces_reaches_the_whole_word_of_a_student_that_reads_words() -> None:
    # The teacher cut "wonderful" into "wonder" and "ful"; the student's one word takes the larger weight.
    start = TEXT.index("wonderful")
    texts = worded([Example(TEXT)], WordNumbers([]), 20)
    pieces = hint(Span(start, start + 6), Span(start + 6, start + 9), weights=[0.2, 0.7])
    assert hint_weights(texts, 0, pieces).tolist() == pytest.approx([0, 0, 0.7, 0, 0, 0, 0])


def test_hints_of_the_second_text_do_not_reach_the_first() -> None:
    pair = Example("good food", "good company")
    for texts in (read("bert", pair), worded([pair], WordNumbers(["good"]), 20)):
        weights = hint_weights(texts, 0, hint(place("good company", "good", 1)))
        assert texts.fields[0, np.flatnonzero(weights)].tolist() == [1]


def test_what_the_length_limit_cuts_off_is_not_hinted_at() -> None:
    texts = read("bert", Example(TEXT), limit=6)
    assert texts.width == 6
    assert hint_weights(texts, 0, hint(place(TEXT, "music"))).sum() == 0
    assert marked(texts, 0, TEXT, hint_weights(texts, 0, hint(place(TEXT, "wonderful")))) == "wonderful"


def test_a_hint_that_says_nothing_marks_nothing() -> None:
    texts = read("bert", Example(TEXT))
    assert hint_weights(texts, 0, hint(place(TEXT, "film"), weights=[0.0])).sum() == 0
    assert hint_weights(texts, 0, Hint((), np.zeros(0))).sum() == 0


def test_courses_share_a_table_in_which_a_common_hint_stands_once() -> None:
    texts = read("bert", Example(TEXT), Example("the plot is dull"))
    common, other = hint(place(TEXT, "film")), hint(place("the plot is dull", "dull"))
    table = hint_table(texts, [np.array([0, 1]), np.array([1, 0])], [[common, other], [None, common]])
    assert table.rows.tolist() == [[1, 2], [0, 1]]
    assert len(table.weights) == 3
    assert table.weights[0].sum() == 0
    assert marked(texts, 1, "the plot is dull", table.weights[2]) == "dull"
    assert table.links is None


def test_links_join_tokens_of_both_texts_and_those_without_a_side_are_left_out() -> None:
    question, passage = "where is the old cinema", "the film is shown in a cinema on market street"
    link = (place(question, "the old cinema"), place(passage, "a cinema", 1))
    cut = (place(question, "where"), place(passage, "street", 1))
    texts = read("bert", Example(question, passage), limit=24)
    known = Hint((), np.zeros(0), links=(link, cut))
    full = hint_table(texts, [np.array([0])], [[known]])
    assert full.links is not None
    assert full.links.shape == (2, 1, 2, texts.width), "the second link's passage was cut off"
    asked, found = full.links[1, 0]
    assert marked(texts, 0, question, asked) == "theoldcinema"
    assert marked(texts, 0, passage, found) == "acinema"
    assert not full.links[0].any()


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_answers_become_positions_and_come_back_as_characters(architecture: str) -> None:
    passage = "we watched it on a rainy evening in an old cinema"
    labelled = [
        LabelledExample(Example("where", passage), place(passage, "an old cinema", 1)),
        LabelledExample(Example("when", passage), place(passage, "rainy evening", 1)),
    ]
    texts = read(architecture, *(item.example for item in labelled))
    characters = answer_characters(texts, answer_positions(texts, labelled))
    said = [passage[first : last + 1].strip() for first, last in characters]
    assert said == ["an old cinema", "rainy evening"]


def test_an_answer_that_was_cut_off_has_no_position() -> None:
    passage = "we watched it on a rainy evening in an old cinema"
    item = LabelledExample(Example("where", passage), place(passage, "rainy evening in an old cinema", 1))
    short, whole = read("bert", item.example, limit=12), read("bert", item.example)
    assert answer_positions(short, [item]).tolist() == [[-1, -1]]
    assert answer_positions(whole, [item]).min() > 0


def test_an_answer_must_be_a_span_of_its_texts() -> None:
    example = Example("where", "in an old cinema")
    texts = read("bert", example)
    with pytest.raises(InputError, match="must be a Span"):
        answer_positions(texts, [LabelledExample(example, 1)])
    with pytest.raises(InputError, match="field 2"):
        answer_positions(texts, [LabelledExample(example, Span(0, 2, 2))])


def test_a_vocabulary_knows_frequent_words_and_no_rare_ones() -> None:
    texts = [Example("The cat saw the dog"), Example("the dog", "a cat")]
    # the: 3, cat: 2, dog: 2, a and saw: 1
    words = WordNumbers.of(texts, min_count=2, largest=100)
    assert list(words.numbers) == ["the", "cat", "dog"]
    assert list(WordNumbers.of(texts, min_count=1, largest=2).numbers) == ["the", "cat"]
    texts = worded([Example("THE bird", "cat")], words, 10)
    the, cat = words.number("the"), words.number("cat")
    assert texts.ids.tolist() == [[the, UNKNOWN, SEPARATOR, cat]]
    assert len({the, cat, UNKNOWN, SEPARATOR, PADDING}) == 5
    assert max(words.numbers.values()) == len(words) - 1


def test_texts_are_padded_with_the_tokenizers_own_number() -> None:
    texts = read("roberta", Example("a warm film"), Example("dull"))
    pad = tiny_tokenizer("roberta").pad_token_id
    assert (texts.ids[1, texts.lengths[1] :] == pad).all()
    assert not texts.text[1, texts.lengths[1] :].any()
