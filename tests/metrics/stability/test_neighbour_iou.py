"""Stability between neighbours: worked by hand, and the published defects."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from didact.errors import CapabilityError, InputError, ModelError, ParameterError
from didact.metrics.stability._neighbours import lexical, nearest, semantic
from didact.metrics.stability.neighbour_iou import NeighbourIou
from didact.models.load import load_model
from didact.models.text_vectors import sentence_vectors
from didact.protocols import Evidence
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example
from tests.metrics.made import NEGATIVE, explained, value, values


def test_by_hand() -> None:
    # Half of four words: {good, film} of the first text, {good, food} of the second: 1 shared of 3.
    one, other = explained("a good film here", [0, 2, 1, 0]), explained("a good warm food", [0, 3, 0, 1])
    (grade, mirrored) = NeighbourIou(share=0.5).measure(Evidence([one, other]))
    assert grade.value == mirrored.value == pytest.approx(1 / 3)
    # 1-grams: 2 of 6 shared (a, good); 2-grams: 1 of 5 (a good); 3- and 4-grams: none.
    assert grade.parts == {"neighbour 1": grade.value, "similarity": pytest.approx((2 / 6 + 1 / 5) / 4)}


@pytest.mark.parametrize("by", ["top", "labels", "signs"])
@pytest.mark.parametrize("neighbours", [1, 2, 3, 7])
def test_identical_explanations_have_one_for_any_number_of_neighbours(by: str, neighbours: int) -> None:
    # L2E's script for IMDB-R divided by the number of neighbours once more and gave 1 / N.
    same = [explained("a dull film with good songs", [0, -2, 0.5, 0, 3, -0.5]) for _ in range(6)]
    assert values(NeighbourIou.configured(by=by, neighbours=neighbours), same) == [1.0] * 6


def test_the_value_is_the_mean_over_neighbours() -> None:
    # Equation 1 averages over neighbours: overlaps 1 with the same text and 0 with the one that marks another word.
    texts = [explained("good film", [1, 0]), explained("good film", [2, 0]), explained("good songs", [0, 1])]
    (first, *_) = NeighbourIou(share=0.5, neighbours=2).measure(Evidence(texts))
    assert first.value == 0.5
    assert (first.parts["neighbour 1"], first.parts["neighbour 2"]) == (1.0, 0.0)


def test_labels_are_summed_before_dividing() -> None:
    # Means of the positive scores: 2 and 2; of the negative ones: -2 and -1.
    one = explained("good film dull plot bad", [3, 1, -3, 0, -1])
    other = explained("good film dull plot bad", [1, 3, -1, 0, -1])
    # signs: positive {good, film} twice, negative {dull, bad} twice: (2 + 2) / (2 + 2).
    assert value_of(NeighbourIou(by="signs"), one, other) == 1.0
    # labels: high positive {good} {film}, low positive {film} {good}, low negative {bad} {dull, bad}, high negative
    # {dull} {}: intersections 0 + 0 + 1 + 0, unions 2 + 2 + 2 + 1.
    assert value_of(NeighbourIou(by="labels"), one, other) == pytest.approx(1 / 7)
    # High from beyond 3 on: none is, so that it is the same as by signs. Beyond 0.5: all are.
    assert value_of(NeighbourIou(by="labels", high=3), one, other) == 1.0
    assert value_of(NeighbourIou(by="labels", high=0.5), one, other) == 1.0
    # Beyond 2: high positive {good} {film}, low {film} {good}, low negative {bad} {dull, bad}, high {dull} {}.
    assert value_of(NeighbourIou(by="labels", high=2), one, other) == pytest.approx(1 / 7)
    with pytest.raises(ParameterError, match="high of neighbour_iou must be above 0, got 0"):
        NeighbourIou(by="labels", high=0)


def value_of(metric: NeighbourIou, *explanations: object) -> float:
    return metric.measure(Evidence(explanations))[0].value  # type: ignore[arg-type]


def test_words_are_types_without_case_and_punctuation() -> None:
    # Good and good are one type; the full stop, though highest, is no word. ceil(0.3 * 3) = 1 word each.
    one = explained("Good film here .", [2, 1, 0, 9])
    other = explained("here good good", [0, 2, 1])
    assert value_of(NeighbourIou(), one, other) == 1.0


def test_tokens_are_summed_into_words() -> None:
    from didact.types import Span

    pieces = [Span(0, 4), Span(5, 8), Span(8, 14)]  # dull won derful
    one = explained("dull wonderful", [1, 0.6, 0.6], tokens=pieces)
    assert value_of(NeighbourIou(share=0.5), one, explained("dull wonderful", [0, 1])) == 1.0


def test_neighbours_have_the_same_prediction() -> None:
    one, other = explained("good film", [1, 0]), explained("good film", [1, 0], prediction=NEGATIVE)
    assert all(math.isnan(found) for found in values(NeighbourIou(), [one, other]))


def test_long_texts_are_left_out_on_both_sides() -> None:
    long, short = explained("good film " * 3, [1, 0] * 3), explained("good film", [1, 0])
    grades = values(NeighbourIou(max_words=5), [long, short, short])
    assert math.isnan(grades[0])
    assert grades[1:] == [1.0, 1.0]


def test_without_important_words_it_is_undefined() -> None:
    nothing = explained("good film", [0, 0])
    assert math.isnan(value_of(NeighbourIou(by="signs"), nothing, nothing))
    assert math.isnan(value(NeighbourIou(), nothing))


def test_lexical_similarity_by_hand() -> None:
    found = lexical([["a", "b", "c"], ["a", "b", "d"], ["x"], ["x"]])
    # n = 1: 2 of 4; n = 2: (a b) of 3; n = 3: 0 of 2; n = 4: neither has one, so it is left out.
    assert found[0, 1] == pytest.approx((2 / 4 + 1 / 3 + 0) / 3)
    assert found[2, 3] == 1.0
    assert found[0, 2] == 0.0
    np.testing.assert_array_equal(found, found.T)


def test_equally_near_texts_are_ordered_by_name() -> None:
    similarities = np.array([[1, 0.5, 0.5, 0.9], [0.5, 1, 0, 0], [0.5, 0, 1, 0], [0.9, 0, 0, 1]])
    assert nearest(similarities, ["m", "z", "b", "q"], 3)[0].numbers.tolist() == [3, 2, 1]


def test_semantic_neighbours_are_those_of_the_vectors() -> None:
    model = load_model(tiny_model("bert"))
    found = [explained(replace(Example.of(text)), range(len(text.split()))) for text in TEXTS]
    evidence = Evidence(found, model)
    grades = NeighbourIou(similarity="semantic", neighbours=1).measure(evidence)
    cosines = semantic(sentence_vectors(model, [Example(text) for text in TEXTS]))
    np.fill_diagonal(cosines, -2)
    assert [grade.parts["similarity"] for grade in grades] == pytest.approx(cosines.max(axis=1).tolist())


def test_semantic_similarity_needs_an_encoder() -> None:
    with pytest.raises(InputError, match="needs an encoder"):
        value(NeighbourIou(similarity="semantic"), explained("good film", [1, 0]))
    model = load_model(keyword_predict, labels=["negative", "positive"])
    with pytest.raises(CapabilityError, match="name an encoder"):
        NeighbourIou(similarity="semantic").measure(Evidence([explained("good film", [1, 0])], model))


def test_an_encoder_can_be_named(tmp_path: Path) -> None:
    network, tokenizer = tiny_model("bert", seed=3)
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = [explained(text, range(len(text.split()))) for text in TEXTS]
    grades = NeighbourIou(similarity="semantic", encoder=str(tmp_path), neighbours=1).measure(Evidence(found))
    own = NeighbourIou(similarity="semantic", neighbours=1).measure(Evidence(found, load_model((network, tokenizer))))
    assert [grade.parts for grade in grades] == [grade.parts for grade in own]


def test_a_missing_encoder_is_named() -> None:
    with pytest.raises(ModelError, match="no-such-encoder"):
        sentence_vectors("no-such-encoder", [Example("a text")])


@pytest.mark.parametrize("settings", [{"neighbours": 0}, {"share": 0.0}, {"share": 2.0}, {"by": "rank"}])
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="neighbour_iou"):
        NeighbourIou.configured(**settings)
