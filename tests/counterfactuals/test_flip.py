"""The flip search against models whose smallest flips are known."""

import itertools

import numpy as np
import pytest

from didact.counterfactuals.edits import changed
from didact.counterfactuals.flip import Flip, find_flip
from didact.errors import FormatError, InputError, ParameterError, TargetError
from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import TEXTS, tiny_images, tiny_model
from didact.types import Example, Floats

WEIGHTS = {"good": 2.0, "great": 3.0, "fine": 1.0, "bad": -2.5, "dull": -2.0, "not": -0.5}


def lexicon(texts: list[str]) -> Floats:
    """A sum of word weights, with a small bias for the negative class: every smallest flip can be enumerated."""
    sums = np.array([sum(WEIGHTS.get(word.strip(".,!"), 0.0) for word in text.lower().split()) for text in texts])
    positive = 1 / (1 + np.exp(-(sums - 0.1)))
    return np.stack([1 - positive, positive], axis=1)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(lexicon, labels=["negative", "positive"], name="lexicon", version="1")


def smallest(model: Model, text: str) -> int:
    """By trying every subset."""
    (units,) = model.units([Example(text)])
    plain = model.predict([Example(text)])[0].index
    for size in range(1, len(units)):
        for chosen in itertools.combinations(range(len(units)), size):
            after = changed(units, dict.fromkeys(chosen, ""))
            if after is not None and model.predict([after])[0].index != plain:
                return size
    return 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("A good plot, but dull.", 1),
        ("A good and great film.", 2),
        ("good good great fine, not bad", 2),
        ("bad bad dull dull not good", 4),
        ("dull dull dull dull bad bad, good", 6),
    ],
)
def test_the_smallest_flip_is_as_small_as_the_smallest_of_all_subsets(model: Model, text: str, size: int) -> None:
    flip = find_flip(model, Example(text))
    assert flip.flipped
    assert flip.size == smallest(model, text) == size


def test_both_predictions_are_plain_passes_of_the_texts_before_and_after(model: Model) -> None:
    flip = find_flip(model, Example("A good and great film."))
    assert flip.after.text == "A and film."
    assert [change.before for change in flip.changes] == ["good", "great"]
    assert flip.prediction == model.predict([Example("A good and great film.")])[0]
    assert flip.prediction_after == model.predict([Example("A and film.")])[0]
    assert (flip.prediction.label, flip.prediction_after.label) == ("positive", "negative")
    assert flip.smallest  # no single word flips it
    assert Flip.from_dict(flip.to_dict()) == flip


@pytest.mark.parametrize(
    "damage",
    [
        {"changes": 3},
        {"changes": [{"unit": 0, "before": "a", "after": "", "place": [0, 0, 4, 4, 0]}]},
        {"flipped": "yes"},
        {"budget": -1},
        {"units": []},
    ],
)
def test_damaged_flips_are_refused(model: Model, damage: dict[str, object]) -> None:
    plain = find_flip(model, Example("A good plot, but dull.")).to_dict()
    with pytest.raises(FormatError):
        Flip.from_dict({**plain, **damage})


def test_a_text_that_nothing_flips_gets_the_nearest_change_as_its_answer(model: Model) -> None:
    flip = find_flip(model, Example("bad and dull film"), budget=40)
    assert not flip.flipped
    assert not flip.smallest
    assert flip.evaluations <= flip.budget == 40
    assert flip.prediction_after.label == flip.prediction.label == "negative"
    assert flip.prediction_after.probabilities[1] == pytest.approx(1 / (1 + np.exp(0.1)))  # both words are gone
    assert not {"bad", "dull"} & set(flip.after.text.split())


def test_the_budget_is_never_exceeded(model: Model) -> None:
    calls: list[int] = []

    def counted(texts: list[str]) -> Floats:
        calls.append(len(texts))
        return lexicon(texts)

    watched = load_model(counted, labels=["negative", "positive"], name="counted", version="1")
    flip = find_flip(watched, Example("great " * 12 + "good film"), budget=30)
    assert sum(calls) == flip.evaluations + 1 <= 31  # with the pass of the text itself


def test_words_are_replaced_where_words_are_proposed(model: Model) -> None:
    text = Example("good and great and fine")
    deleted = find_flip(model, text)
    replaced = find_flip(model, text, propose=lambda units: {unit: ["bad", "table"] for unit in range(len(units))})
    assert (deleted.size, replaced.size) == (3, 2)
    assert {change.after for change in replaced.changes} == {"bad"}
    assert replaced.prediction_after == model.predict([replaced.after])[0]


def test_a_class_to_flip_to_can_be_given() -> None:
    def three(texts: list[str]) -> Floats:
        rows = [[1.0 + 3 * text.count("ball"), 1.5 * text.count("money"), text.count("chip")] for text in texts]
        return np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)

    model = load_model(three, labels=["Sport", "Business", "Tech"], name="three", version="1")
    text = Example("ball money chip chip")
    assert find_flip(model, text).prediction_after.label == "Tech"
    assert find_flip(model, text, target="Business").after.text in ("money chip", "money")
    with pytest.raises(TargetError, match="'Sport' is predicted already; give another class"):
        find_flip(model, text, target="Sport")


def test_pairs_keep_a_word_in_each_text() -> None:
    model = load_model(tiny_model("bert"), inputs="pair")
    flip = find_flip(model, Example("a dull plot", "good food"), budget=60)
    assert all(text.strip() for text in flip.after.texts)
    assert flip.prediction_after == model.predict([flip.after])[0] or flip.prediction_after.probabilities == (
        pytest.approx(model.predict([flip.after])[0].probabilities, abs=1e-5)
    )


def test_what_has_no_classes_or_no_words_is_refused(model: Model) -> None:
    with pytest.raises(TargetError, match=r"a flip is a change of the predicted class, and .* predicts a number"):
        find_flip(load_model(tiny_model("bert", ["score"])), Example(TEXTS[0]))
    with pytest.raises(InputError, match=r"a flip is searched by changing words, and an image .* has none"):
        find_flip(model, tiny_images()[0])
    with pytest.raises(ParameterError, match="must be at least 1 evaluation, got 0"):
        find_flip(model, Example("good"), budget=0)


def test_a_text_of_one_word_stays_as_it_is(model: Model) -> None:
    flip = find_flip(model, Example("good"))
    assert (flip.flipped, flip.size, flip.evaluations) == (False, 0, 0)
    assert flip.after.text == "good"


def test_words_that_a_flip_of_a_long_text_does_not_need_are_put_back_together() -> None:
    """Any of six words decides, so no word alone has an effect, and the first flip deletes nearly everything."""
    model = load_model(
        lambda texts: [[0.1, 0.9] if "bad" in text else [0.8, 0.2] for text in texts], name="any", version="1"
    )
    words = [f"bad{number}" if number % 7 == 3 else f"word{number}" for number in range(42)]
    flip = find_flip(model, Example(" ".join(words)), budget=180)
    assert [change.before for change in flip.changes] == [word for word in words if word.startswith("bad")]
