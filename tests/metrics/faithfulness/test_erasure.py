"""Comprehensiveness and sufficiency: worked by hand, against ERASER written anew, and the defects of others."""

import itertools
import math

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.metrics.base import METRICS
from didact.metrics.faithfulness._erasure import count, ranking
from didact.metrics.faithfulness.comprehensiveness import Comprehensiveness
from didact.metrics.faithfulness.sufficiency import Sufficiency
from didact.models.load import load_model
from didact.protocols import Evidence
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Explanation, Floats, Target
from tests.metrics.faithfulness.given import TEXT, additive, answering, evidence, explain

PERCENTS = (1, 5, 10, 20, 50)


def test_comprehensiveness_worked_by_hand() -> None:
    # "a good warm film": p = 0.1 + 0 + 0.5 + 0.2 + 0.1 = 0.9. Order: good, warm, film, a.
    # 25 % is 1 unit: without "good" 0.4, a fall of 0.5. 50 % is 2: without "good warm" 0.2, a fall of 0.7.
    (grade,) = Comprehensiveness(percents=(25, 50)).measure(evidence(additive(), TEXT, [-1, 3, 2, 0]))
    assert grade.parts == pytest.approx({"25%": 0.5, "50%": 0.7})
    assert grade.value == pytest.approx(0.6)


def test_sufficiency_worked_by_hand() -> None:
    # "good" alone: 0.6, a fall of 0.3. "good warm" alone: 0.8, a fall of 0.1.
    (grade,) = Sufficiency(percents=(25, 50)).measure(evidence(additive(), TEXT, [-1, 3, 2, 0]))
    assert grade.parts == pytest.approx({"25%": 0.3, "50%": 0.1})
    assert grade.value == pytest.approx(0.2)


def test_the_explained_label_is_judged_and_not_the_likeliest() -> None:
    # For "no", p = 0.1; without "good" it is 0.6: a fall of -0.5.
    (grade,) = Comprehensiveness(percents=(25,)).measure(evidence(additive(), TEXT, [0, 3, 2, 1], target=0))
    assert grade.value == pytest.approx(-0.5)


def test_a_unit_against_the_target_comes_last_however_strong() -> None:
    # "good" is strongest by size, but opposes: "film" (0.1) is taken out.
    (grade,) = Comprehensiveness(percents=(25,)).measure(evidence(additive(), TEXT, [0, -9, 1, 2]))
    assert grade.value == pytest.approx(0.1)


@pytest.mark.parametrize("metric", [Comprehensiveness(), Sufficiency()])
def test_aopc_of_constant_falls_is_that_constant(metric: Comprehensiveness | Sufficiency) -> None:
    """AML's code divides the sum over five k by six."""
    model = answering(lambda text: 0.9 if text == TEXT else 0.6)
    (grade,) = metric.measure(evidence(model, TEXT, [1, 2, 3, 4]))
    assert grade.value == pytest.approx(0.3)


def test_k_zero_policy_at_least_one_unit_and_amls_own_rule() -> None:
    # 1 % of 4 units: one unit by default ("good": 0.9 - 0.4, and 0.9 - 0.6), none under AML's rule, both 0 there.
    given = evidence(additive(), TEXT, [0, 3, 2, 1])
    assert Comprehensiveness(percents=(1,)).measure(given)[0].value == pytest.approx(0.5)
    assert Sufficiency(percents=(1,)).measure(given)[0].value == pytest.approx(0.3)
    assert Comprehensiveness(percents=(1,), rounding="floor").measure(given)[0].value == 0.0
    assert Sufficiency(percents=(1,), rounding="floor").measure(given)[0].value == 0.0


@pytest.mark.parametrize(
    ("n", "percent", "ceil", "floor"), [(100, 7, 7, 7), (10, 30, 3, 3), (4, 1, 1, 0), (17, 20, 4, 3), (1, 50, 1, 0)]
)
def test_how_many_units_a_percent_is(n: int, percent: float, ceil: int, floor: int) -> None:
    assert (count(n, percent), count(n, percent, "floor")) == (ceil, floor)


def test_constant_scores_are_not_rewarded_for_word_order() -> None:
    # The evidence always stands first; over many texts constant scores must not find it more often than one in five.
    model = additive({"good": 0.8})
    texts = [f"good {' '.join(words)}" for words in itertools.permutations("bcdefg", 4)]
    explanations = [explain(model, text, [0.0] * 5) for text in texts]
    grades = Comprehensiveness(percents=(20,)).measure(Evidence(explanations, model))
    found = np.mean([grade.value > 0.5 for grade in grades])  # 360 texts: standard error 0.021
    assert 0.1 < found < 0.3


def test_ties_are_broken_alike_for_every_explainer() -> None:
    model = additive()
    one, other = explain(model, TEXT, [0, 0, 0, 0]), explain(model, TEXT, [7, 7, 7, 7])
    assert ranking(one).tolist() == ranking(other).tolist()


def test_regression_uses_the_output_itself() -> None:
    model = load_model(tiny_model("bert", labels=("score",)))
    example = Example(TEXTS[0])
    (units,), (prediction,) = model.units([example]), model.predict([example])
    scores = tuple(range(len(units)))
    explanation = Explanation("by hand", units, scores, Target(0, "score"), prediction)
    (grade,) = Comprehensiveness(percents=(1,)).measure(Evidence([explanation], model))
    keep = np.ones((1, len(units)), dtype=bool)
    keep[0, -1] = False
    (left,) = model.score([units], [Target(0, "score")], [keep], "delete")
    assert grade.value == pytest.approx(prediction.outputs[0] - left[0], abs=1e-5)


@pytest.mark.parametrize("percents", [(), (0,), (101,), (5, 5), (float("nan"),)])
def test_impossible_percents_are_refused(percents: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="above 0 and up to 100"):
        Comprehensiveness(percents=percents)


def test_a_recipe_may_give_a_list() -> None:
    metric = METRICS.get("sufficiency").configured(percents=[10, 20])
    assert metric == Sufficiency(percents=(10.0, 20.0))


def test_without_a_model_the_error_says_so() -> None:
    with pytest.raises(InputError, match="needs the explained model"):
        Comprehensiveness().measure(Evidence(evidence(additive(), TEXT, [1, 2, 3, 4]).explanations))


# ERASER, written from its paper: strings in, numbers out, one text and one k at a time.


def eraser(predict: object, words: list[str], scores: list[float], label: int) -> tuple[float, float]:
    """AOPC of comprehensiveness and of sufficiency, as plain means over the bins."""
    full = predict([" ".join(words)])[0][label]  # type: ignore[operator]
    removed, kept = [], []
    for percent in PERCENTS:
        size = math.ceil(len(words) * percent / 100)
        rationale = sorted(range(len(words)), key=lambda i: scores[i], reverse=True)[:size]
        rest = " ".join(word for i, word in enumerate(words) if i not in rationale)
        only = " ".join(word for i, word in enumerate(words) if i in rationale)
        removed.append(full - predict([rest])[0][label])  # type: ignore[operator]
        kept.append(full - predict([only])[0][label])  # type: ignore[operator]
    return sum(removed) / len(PERCENTS), sum(kept) / len(PERCENTS)


@pytest.mark.parametrize("seed", range(5))
def test_equals_eraser_written_anew_on_random_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(40, 3))

    def predict(texts: list[str]) -> Floats:
        # Words interact through the length, so the order of removal matters.
        sums = [weights[[int(word[1:]) for word in text.split()]].sum(0) / (1 + len(text.split())) for text in texts]
        exps = np.exp(3 * np.array(sums))
        return np.asarray(exps / exps.sum(1, keepdims=True))

    model = load_model(lambda texts: predict([t.replace("a short probe", "") for t in texts]), labels=("a", "b", "c"))
    explanations, wanted = [], []
    for size in (1, 2, 7, 20, 33):
        words = [f"w{number}" for number in rng.integers(40, size=size)]
        scores = rng.normal(size=size).tolist()
        label = int(rng.integers(3))
        explanations.append(explain(model, " ".join(words), scores, label))
        wanted.append(eraser(predict, words, scores, label))
    given = Evidence(explanations, model)
    found = zip(Comprehensiveness().measure(given), Sufficiency().measure(given), strict=True)
    assert [(a.value, b.value) for a, b in found] == [pytest.approx(pair, abs=1e-6) for pair in wanted]


def test_equals_eraser_written_anew_on_a_network() -> None:
    network, tokenizer = tiny_model("bert")
    model = load_model((network, tokenizer))
    rng = np.random.default_rng(0)

    def predict(texts: list[str]) -> Floats:
        return np.array([model.predict([Example(text)])[0].probabilities for text in texts])

    explanations, wanted = [], []
    for text in ("a truly wonderful film with a warm heart", "good food and good company in an old cinema"):
        words = text.split()
        scores = rng.normal(size=len(words)).tolist()
        explanations.append(explain(model, text, scores, 1, "logit"))
        wanted.append(eraser(predict, words, scores, 1))
    given = Evidence(explanations, model)
    found = zip(Comprehensiveness().measure(given), Sufficiency().measure(given), strict=True)
    assert [(a.value, b.value) for a, b in found] == [pytest.approx(pair, abs=1e-6) for pair in wanted]
