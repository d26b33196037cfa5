"""Generated pictures, questions and translations: the planted evidence is where the rationale has it."""

import numpy as np
import pytest

from didact.data.planted import CLASSES, DICTIONARY, FACTS, SHAPES, questions, shapes, translations
from didact.types import Box, Example, Image, Span


@pytest.mark.parametrize("kind", [shapes, questions, translations])
def test_a_seed_decides_the_examples_and_a_longer_list_begins_with_the_shorter(kind) -> None:
    assert kind(5, seed=3) == kind(9, seed=3)[:5]
    assert kind(5, seed=3) != kind(5, seed=4)


def test_a_shape_fills_its_box_and_stands_out_from_its_ground() -> None:
    examples = shapes(60)
    assert {example.label for example in examples} == set(SHAPES)
    for example in examples:
        (image,), (box,) = example.fields, example.rationale or ()
        assert isinstance(image, Image)
        assert isinstance(box, Box)
        pixels = image.pixels.astype(float)
        inside = np.zeros(pixels.shape[:2], dtype=bool)
        inside[box.top : box.bottom, box.left : box.right] = True
        ground = np.median(pixels[~inside], axis=0)
        far = np.abs(pixels - ground).max(-1) > 60
        assert far[inside].mean() > 0.3
        assert far[~inside].mean() < 0.02


def test_a_question_is_answered_by_one_sentence_about_the_person() -> None:
    for example in questions(50):
        assert isinstance(example.label, Span)
        (name,) = {sentence.split()[0] for sentence in example.texts[1].split(" . ")}
        assert name in example.text.split()
        assert example.rationale == (example.label,)
        sentence, _, values = next(fact for fact in FACTS.values() if fact[1].format(name) == example.text)
        value = _written(example, example.label)
        assert value in values
        assert sentence.format(name, value) in example.texts[1]


def test_the_words_of_a_translation_that_are_marked_are_those_that_are_wrong() -> None:
    assert set(DICTIONARY) == {word for words in CLASSES.values() for word in words}
    assert len(set(DICTIONARY.values())) == len(DICTIONARY)
    for example in translations(50):
        source, target = (text.split() for text in example.texts)
        wrong = [a for a, b in zip(source, target, strict=True) if DICTIONARY[a] != b]
        marked = [_written(example, span) for span in example.rationale or () if span.field == 0]
        assert marked == wrong
        assert example.label == pytest.approx(1 - len(wrong) / len(source))


def _written(example: Example, span: object) -> str:
    assert isinstance(span, Span)
    return example.texts[span.field][span.start : span.end]
