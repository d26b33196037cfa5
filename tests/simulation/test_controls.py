"""Controls: they say as much as the hints they stand in for, and nothing of what those say."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import didact
from didact.errors import ParameterError, UnknownNameError
from didact.simulation.controls import CONTROLS, ControlInput, control, controlled, corrupted
from didact.simulation.hints import HintFormat, linked
from didact.students.base import Hint
from didact.types import Example, Explanation, Prediction, Span
from tests.metrics.made import NEGATIVE, POSITIVE, explained

PROPERTY = settings(max_examples=50, deadline=None, derandomize=True)
TOP = HintFormat(share=0.2)


def text(number: int, words: int) -> str:
    return " ".join(f"w{number}x{place}" for place in range(words))


def pool(lengths: Sequence[int], labels: Sequence[Prediction] = (POSITIVE, NEGATIVE)) -> list[Explanation]:
    """Random scores; predictions in turn."""
    rng = np.random.default_rng(len(lengths))
    return [
        explained(text(number, length), rng.normal(size=length).tolist(), prediction=labels[number % len(labels)])
        for number, length in enumerate(lengths)
    ]


def human(words: str, *marks: int, prediction: Prediction = POSITIVE) -> Explanation:
    scores = [float(number in marks) for number in range(len(words.split()))]
    return dataclasses.replace(explained(words, scores, prediction=prediction), method="human")


def members(hint: Hint) -> list[int]:
    return np.flatnonzero(hint.weights).tolist()


def rows(hints: Sequence[Hint]) -> list[list[float]]:
    return [hint.weights.tolist() for hint in hints]


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@PROPERTY
@given(lengths, st.sampled_from(sorted(CONTROLS)), st.integers(0, 5))
def test_a_control_marks_as_many_units_as_what_it_stands_in_for(sizes: list[int], name: str, seed: int) -> None:
    explanations = pool(sizes)
    for real, made in zip(TOP.hints(explanations), control(name, explanations, TOP, seed), strict=True):
        assert made.spans == real.spans
        assert len(members(made)) == len(members(real))
        np.testing.assert_allclose(made.weights[made.weights > 0], 1 / len(members(real)))


@PROPERTY
@given(lengths, st.sampled_from(sorted(CONTROLS)), st.sampled_from(["top", "dense"]))
def test_a_control_depends_on_seed_and_text_not_on_the_order_of_texts(sizes: list[int], name: str, kind: str) -> None:
    explanations, format = pool(sizes), HintFormat(kind=kind)  # type: ignore[arg-type]
    once = rows(control(name, explanations, format, 3))
    assert rows(control(name, explanations[::-1], format, 3))[::-1] == once


@pytest.mark.parametrize("name", sorted(CONTROLS))
@pytest.mark.parametrize("kind", ["top", "dense"])
def test_where_the_explanation_says_nothing_so_does_the_control(name: str, kind: str) -> None:
    nothing = explained("no word of this matters", [0.0] * 5)
    told = control(name, [nothing, *pool([5, 6, 7])], HintFormat(kind=kind), 0)  # type: ignore[arg-type]
    assert not told[0].weights.any()
    assert told[0].spans == nothing.units.spans
    assert all(hint.weights.sum() == pytest.approx(1) for hint in told[1:])


@pytest.mark.parametrize("name", ["random", "label_leak", "shuffled_positions"])
def test_seeds_make_different_hints(name: str) -> None:
    explanations = pool([30] * 20)
    assert rows(control(name, explanations, TOP, 0)) != rows(control(name, explanations, TOP, 1))


def test_random_is_what_the_method_random_would_be_told() -> None:
    texts = [
        "A dull plot, but the songs are wonderful and the cast is warm.",
        "Avoid this slow and empty film at all costs.",
    ]
    explanations = didact.explain(texts, method="occlusion")
    by_method = didact.explain(texts, method="random", seed=7)
    for format in (HintFormat(share=0.3), HintFormat(kind="dense")):
        assert rows(control("random", explanations, format, 7)) == rows(format.hints(by_method))


def test_random_marks_every_place_alike() -> None:
    made = control("random", pool([10] * 600), TOP, 0)
    counts = np.sum([hint.weights > 0 for hint in made], axis=0)
    # 600 texts, two of ten units each: 120 per place, standard deviation sqrt(600 * .2 * .8) = 9.8.
    assert np.abs(counts - 120).max() < 40


def test_random_for_people_marks_as_many_words_as_they_did() -> None:
    (made,) = control("random", [human(text(0, 20), *range(8))], HintFormat(share=0.1), 0)
    assert len(members(made)) == 8


def test_trivial_is_the_first_block_for_positive_and_the_next_for_negative() -> None:
    made = control("trivial", pool([10, 10]), TOP, 0)
    assert [members(hint) for hint in made] == [[0, 1], [2, 3]]


def test_trivial_gives_each_of_many_classes_a_block_and_starts_again_at_the_end() -> None:
    labels = [Prediction(tuple("abcd"), tuple(float(i == k) for i in range(4)), (0.25,) * 4) for k in range(4)]
    made = control("trivial", pool([10] * 4, labels), HintFormat(share=0.3), 0)
    # The last class first; blocks of 3 at 9, 6, 3 and 0, the first of which runs over the end.
    assert [members(hint) for hint in made] == [[0, 1, 9], [6, 7, 8], [3, 4, 5], [0, 1, 2]]


def test_trivial_of_a_dense_hint_is_a_block_too() -> None:
    given_scores = explained(text(0, 6), [0.1, 1.0, 0.6, 0.0, 0.2, -1.0])  # two units above half of the largest weight
    (made,) = control("trivial", [given_scores], HintFormat(kind="dense"), 0)
    assert made.weights.tolist() == [0.5, 0.5, 0, 0, 0, 0]


def test_numbers_are_told_by_the_half_they_are_in() -> None:
    scores = [Prediction(("score",), (value,)) for value in (0.1, 0.4, 0.2, 0.9)]
    made = control("trivial", pool([5] * 4, scores), TOP, 0)
    assert [members(hint) for hint in made] == [[1], [0], [1], [0]]


def test_label_leak_carries_over_the_places_of_another_text_of_the_class() -> None:
    # Positive texts are marked at their beginning, negative ones at their end; each has another length.
    explanations = [human(text(n, 10 + n), 0, 1, prediction=POSITIVE) for n in range(5)]
    explanations += [human(text(n, 20 + n), 18 + n, 19 + n, prediction=NEGATIVE) for n in range(5, 10)]
    for explanation, made in zip(explanations, control("label_leak", explanations, TOP, 0), strict=True):
        n = len(explanation.units)
        assert members(made) == ([0, 1] if explanation.prediction is POSITIVE else [n - 2, n - 1])


def test_label_leak_is_never_the_texts_own_hint() -> None:
    # Each text has one marked place of its own, and twins of the text do not count as others.
    own = [human(text(n, 12), n) for n in range(12)]
    for seed in range(20):
        made = control("label_leak", [*own, *own], TOP, seed)
        assert all(members(hint) != [n % 12] for n, hint in enumerate(made))
        assert rows(made[:12]) == rows(made[12:])


def test_label_leak_of_a_text_alone_in_its_class_is_random() -> None:
    explanations = [human(text(0, 30), 3, 4), *(human(text(n, 30), 9, prediction=NEGATIVE) for n in range(1, 4))]
    assert rows(control("label_leak", explanations, TOP, 5))[0] == rows(control("random", explanations, TOP, 5))[0]


def test_label_leak_of_dense_hints_keeps_the_weight_where_it_was() -> None:
    one, other = explained(text(0, 2), [3.0, 1.0]), explained(text(1, 4), [1.0, 1.0, 1.0, 5.0])
    made = control("label_leak", [one, other], HintFormat(kind="dense"), 0)
    assert made[0].weights.tolist() == pytest.approx([2 / 8, 6 / 8])
    assert made[1].weights.tolist() == pytest.approx([3 / 8, 3 / 8, 1 / 8, 1 / 8])


def test_shuffled_positions_keep_runs_of_a_set_and_weights_of_a_distribution() -> None:
    phrases = human(text(0, 40), 5, 6, 7, 20, 21)
    (made,) = control("shuffled_positions", [phrases], TOP, 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], made.weights > 0, [0]])))
    assert len(members(made)) == 5
    assert members(made) != [5, 6, 7, 20, 21]
    assert sorted(np.diff(edges)[::2]) in ([2, 3], [5])  # the two runs may have come to stand side by side
    dense = explained(text(1, 30), np.arange(1.0, 31.0).tolist())
    (moved,) = control("shuffled_positions", [dense], HintFormat(kind="dense"), 1)
    real = HintFormat(kind="dense").hint(dense).weights
    assert sorted(moved.weights) == sorted(real)
    assert np.count_nonzero(moved.weights != real) > 20


def test_random_links_are_as_long_but_elsewhere() -> None:
    question = Example("who wrote the old song of the sea", " ".join(f"passage{n}" for n in range(50)))
    real = linked(question, [(Span(10, 22), Span(0, 17, 1))])
    (made,) = controlled("random", [ControlInput(question, real)], 0)
    ((asked, found),) = made.links
    words = [question.fields[s.field][s.start : s.end].split() for s in (asked, found)]
    assert [len(phrase) for phrase in words] == [3, 2]
    assert (asked.field, found.field) == (0, 1)
    assert found != Span(0, 17, 1)
    assert np.count_nonzero(made.weights) == 5
    assert controlled("shuffled_positions", [ControlInput(question, real)], 0)[0].links == ()


def test_noise_loses_marked_units_one_by_one_and_never_adds_any() -> None:
    hint = TOP.hint(human(text(0, 200), *range(0, 200, 2)))
    kept = [set(members(corrupted(hint, noise, seed=4))) for noise in np.linspace(0, 1, 11)]
    assert kept[0] == set(members(hint))
    assert kept[-1] == set()
    assert all(later <= earlier for earlier, later in pairwise(kept))
    assert 35 <= len(kept[5]) <= 65  # 50 expected, standard deviation 5
    assert corrupted(hint, 0.5, seed=4).weights.sum() == pytest.approx(1)
    assert rows([corrupted(hint, 0.5, seed=4)]) != rows([corrupted(hint, 0.5, seed=5)])


def test_noise_strikes_texts_apart_from_each_other() -> None:
    hints = TOP.hints([human(text(n, 20 + n), *range(10)) for n in range(20)])
    lost = {tuple(members(corrupted(hint, 0.5, 0))) for hint in hints}
    assert len(lost) > 10


def test_noise_loses_links() -> None:
    question = Example("a b c d", "e f g h")
    links = [(Span(2 * n, 2 * n + 1), Span(2 * n, 2 * n + 1, 1)) for n in range(4)]
    hint = linked(question, links)
    assert corrupted(hint, 0.0, 0).links == tuple(links)
    assert corrupted(hint, 1.0, 0).links == ()


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan")])
def test_noise_is_a_probability(noise: float) -> None:
    with pytest.raises(ParameterError, match="from 0 to 1"):
        corrupted(TOP.hint(pool([5])[0]), noise, 0)


def test_an_unknown_control_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean trivial"):
        control("trivia", pool([5]), TOP, 0)
