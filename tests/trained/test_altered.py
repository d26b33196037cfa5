"""Altered texts: unlike those of a training, readable, and the same for the same seed."""

from didact.models.load import load_model
from didact.testing.tiny import keyword_predict
from didact.trained.altered import altered, known_words
from didact.types import Example

TEXTS = [Example("a warm and wonderful film"), Example("a dull plot"), Example("good food and drink"), Example("why")]


def test_texts_are_joined_and_their_words_replaced_in_turns() -> None:
    model = load_model("default", device="cpu")
    words = set(known_words(model))
    made = altered(model, TEXTS, seed=1)
    assert [example.text for example in made[::2]] == [
        "a warm and wonderful film why",
        "good food and drink a dull plot",
    ]
    assert len(made[1].text.split()) == len(TEXTS[1].text.split())
    new = set(made[1].text.split()) - set(TEXTS[1].text.split())
    assert new
    assert new <= words
    assert altered(model, TEXTS, seed=1) == made
    assert altered(model, TEXTS, seed=2) != made


def test_words_are_whole_ones() -> None:
    words = known_words(load_model("default", device="cpu"))
    assert len(words) > 1000
    assert all(word.isalpha() and len(word) > 2 for word in words)


def test_the_parts_of_a_pair_stay_apart() -> None:
    pairs = [Example("Who wrote it?", "Mary wrote it."), Example("When?", "In 1818.")]
    made = altered(load_model("default:questions", device="cpu"), pairs)
    assert made[0].texts == ("Who wrote it?", "Mary wrote it. In 1818.")
    assert len(made[1].texts) == 2


def test_functions_have_no_words_so_texts_are_only_joined() -> None:
    model = load_model(keyword_predict, labels=("negative", "positive"))
    made = altered(model, TEXTS[:2])
    assert [example.text for example in made] == [
        "a warm and wonderful film a dull plot",
        "a dull plot a warm and wonderful film",
    ]


def test_what_is_too_long_for_the_model_is_left_out() -> None:
    model = load_model("default", device="cpu")
    assert altered(model, [Example("a good film " * 300)]) == []
