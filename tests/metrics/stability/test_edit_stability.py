"""Stability under edits that keep the meaning."""

import math

import numpy as np
import pytest

from didact.attribution.human import Human
from didact.attribution.occlusion import Occlusion
from didact.errors import ParameterError
from didact.metrics._words import Words
from didact.metrics.stability._edits import KINDS, Kind, edited, matched
from didact.metrics.stability.edit_stability import EditStability
from didact.models.load import load_model
from didact.ops.units import word_spans
from didact.protocols import Evidence
from didact.testing.tiny import keyword_predict, tiny_model
from didact.types import Example, Floats, Span


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("case", "A dull film", "a dull film"),
        ("case", "dull, USA", "Dull, USA"),
        ("case", "USA today", None),
        ("case", "I agree", None),
        ("punctuation", "a dull film", "a dull film."),
        ("punctuation", "a dull film .", "a dull film"),
        ("punctuation", "a dull film!", None),
        ("punctuation", "a dull film...", None),
        ("blanks", "a dull  film", "a  dull  film"),
        ("blanks", "dull", None),
        ("contractions", "we don't say it does n't", "we do not say it does not"),
        ("contractions", "They’re late, I'LL go", "They are late, I will go"),
        ("contractions", "it's the film's end", None),
        ("synonyms", "Film, FILM and filmed movies", "Movie, MOVIE and filmed films"),
        ("synonyms", "a dull evening", None),
    ],
)
def test_what_each_edit_does(kind: Kind, before: str, after: str | None) -> None:
    found = edited(Example(before), kind)
    assert (found and found.example.text) == after


def test_an_edit_never_leaves_nothing() -> None:
    assert edited(Example("dull", "b."), "punctuation") is not None
    assert edited(Example("."), "punctuation") is None


def test_both_texts_of_a_pair_are_edited_and_rationales_move() -> None:
    example = Example(
        "we don't like it", "a film", rationale=(Span(3, 8), Span(2, 6, 1)), annotators=((Span(14, 16),),)
    )
    found = edited(example, "contractions")
    assert found is not None
    assert found.example.fields == ("we do not like it", "a film")
    assert found.example.rationale == (Span(3, 9), Span(2, 6, 1))  # "do not", "film"
    assert found.example.annotators == ((Span(15, 17),),)  # "it"


def words(text: str, scores: list[float]) -> Words:
    return Words((text,), tuple(word_spans(text)), np.array(scores, dtype=np.float64))


def pairs(before: str, old: list[float], kind: Kind, new: list[float]) -> list[tuple[float, float]]:
    edit = edited(Example(before), kind)
    assert edit is not None
    one, other = matched(words(before, old), words(edit.example.text, new), edit)
    return list(zip(one.tolist(), other.tolist(), strict=True))


def test_words_meet_the_word_in_their_place() -> None:
    assert pairs("a film here", [1, 2, 3], "synonyms", [4, 5, 6]) == [(1, 4), (2, 5), (3, 6)]


def test_split_words_are_summed() -> None:
    # don't -> do not: 5 + 6.
    assert pairs("we don't go", [1, 2, 3], "contractions", [4, 5, 6, 7]) == [(1, 4), (2, 11), (3, 7)]


def test_words_that_come_or_go_are_left_out() -> None:
    assert pairs("a film", [1, 2], "punctuation", [3, 4, 9]) == [(1, 3), (2, 4)]
    assert pairs("a film .", [1, 2, 9], "punctuation", [3, 4]) == [(1, 3), (2, 4)]


def test_joined_words_are_summed() -> None:
    # Taken the other way round: what one edit splits, its opposite joins.
    from didact.metrics.stability._edits import Edited

    edit = Edited(Example("we don't go"), (((5, 9, "n't"),),))
    one, other = matched(words("we do not go", [1, 2, 3, 4]), words("we don't go", [5, 6, 7]), edit)
    assert (one.tolist(), other.tolist()) == ([1, 5, 4], [5, 6, 7])


def counting(texts: list[str]) -> Floats:
    """Positive by "good" and, half as much, by "movie"; doubled blanks turn it round."""
    totals = np.array([text.count("good") - 3 * text.count("  ") + 0.5 * text.count("movie") for text in texts])
    return np.stack([1 / (1 + np.exp(totals)), 1 / (1 + np.exp(-totals))], axis=1)


def test_by_hand_on_a_black_box() -> None:
    model = load_model(counting, labels=["negative", "positive"])
    explainer = Occlusion()
    found = explainer.explain(model, ["good old film"])
    metric = EditStability(edits=("case", "blanks", "synonyms", "contractions"))
    (grade,) = metric.measure(Evidence(found, model, explainer))
    # blanks: the prediction turns, so it does not count; contractions: there are none. case: "Good" is no "good", all
    # words get 0 where good had most: a constant against an order is 0. But p = 0.5 then; the tie goes to "negative".
    assert math.isnan(grade.parts["blanks"])
    assert math.isnan(grade.parts["contractions"])
    assert math.isnan(grade.parts["case"])
    # synonyms: before, good has a score and old and film have none: ranks 3, 1.5, 1.5. After, movie comes second:
    # ranks 3, 1, 2. Pearson of the ranks: (1 * 1 + -0.5 * -1 + -0.5 * 0) / sqrt(1.5 * 2).
    assert grade.parts["synonyms"] == pytest.approx(1.5 / math.sqrt(3))
    assert grade.value == grade.parts["synonyms"]


def test_a_model_that_reads_the_same_tokens_gives_one() -> None:
    # The tiny tokenizer folds case and blanks, so that occlusion sees the same text.
    model = load_model(tiny_model("bert"))
    explainer = Occlusion()
    found = explainer.explain(model, ["A truly wonderful film with a warm heart", "the plot is dull"])
    grades = EditStability(edits=("case", "blanks")).measure(Evidence(found, model, explainer))
    assert [grade.value for grade in grades] == pytest.approx([1.0, 1.0])
    assert set(grades[0].parts) == {"case", "blanks"}


def test_the_target_stays_the_same() -> None:
    # Explaining the class that is not predicted, too, compares like with like: 1 and not -1.
    model = load_model(keyword_predict, labels=["negative", "positive"])
    explainer = Occlusion()
    found = explainer.explain(model, ["good film and dull wine"], ["negative"])
    (grade,) = EditStability(edits=("blanks",)).measure(Evidence(found, model, explainer))
    assert grade.value == pytest.approx(1.0)


def test_a_regression_is_always_counted() -> None:
    model = load_model(tiny_model("bert", ["score"]))
    explainer = Occlusion()
    found = explainer.explain(model, ["the plot is dull"])
    (grade,) = EditStability(edits=("punctuation",)).measure(Evidence(found, model, explainer))
    assert not math.isnan(grade.value)


def test_a_rationale_moves_with_its_words() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    found = Human().explain(model, [Example("we don't like the dull film", rationale=(Span(3, 8), Span(18, 22)))])
    (grade,) = EditStability(edits=("contractions", "synonyms")).measure(Evidence(found, model, Human()))
    # "do not" sums to 2 where "don't" had 1, so dull is no longer tied with it; synonyms change nothing.
    assert grade.parts["synonyms"] == pytest.approx(1.0)
    assert 0.5 < grade.parts["contractions"] < 1.0


def test_where_no_edit_applies_it_is_undefined() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    found = Occlusion().explain(model, ["good"])
    (grade,) = EditStability(edits=("synonyms",)).measure(Evidence(found, model, Occlusion()))
    assert math.isnan(grade.value)


@pytest.mark.parametrize("edits", [(), ("spelling",)])
def test_unknown_edits_are_refused(edits: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match=KINDS[0]):
        EditStability(edits=edits)  # type: ignore[arg-type]
