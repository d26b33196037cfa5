"""The robust companions: worked by hand, and on a model with a planted failure on masked texts."""

import functools
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from didact.errors import InputError, ParameterError
from didact.metrics.faithfulness.comprehensiveness import Comprehensiveness
from didact.metrics.faithfulness.robust_comprehensiveness import RobustComprehensiveness
from didact.metrics.faithfulness.robust_sufficiency import RobustSufficiency
from didact.models.compose import compose
from didact.models.functions.blackbox import BlackBox
from didact.models.network import NetworkModel
from didact.models.surrogate import FineTuning, fine_tune_masked
from didact.protocols import Evidence, Model
from didact.testing.tiny import tiny_model
from didact.types import Example, Explanation, Floats, Target
from tests.metrics.faithfulness.given import TEXT, additive, evidence, explain

SCORES = [0, 3, 2, 1]
FILLERS = ["film", "plot", "cinema", "evening", "food", "company", "bill", "heart"]
KEYS = {"wonderful": 1, "warm": 1, "good": 1, "dull": 0, "worse": 0, "high": 0}


def given(model: Model, text: str, scores: Sequence[float]) -> Evidence:
    return Evidence([explain(model, text, scores)], surrogate=model)


def test_robust_comprehensiveness_worked_by_hand() -> None:
    # The explanation is half of 4 units, "good warm"; half of it, one unit, goes at a time: 0.9 - 0.4 or 0.9 - 0.7.
    # Over many draws the mean is (0.5 + 0.2) / 2 = 0.35, with a standard error of 0.15 / sqrt(4000) = 0.0024.
    metric = RobustComprehensiveness(percents=(50,), share=1, samples=4000)
    assert metric.measure(given(additive(), TEXT, SCORES))[0].value == pytest.approx(0.35, abs=0.01)


def test_robust_sufficiency_worked_by_hand() -> None:
    # Outside the explanation are "film" (0.1) and "a" (0); one of them goes at a time: (0.1 + 0) / 2 = 0.05.
    metric = RobustSufficiency(percents=(50,), share=1, samples=4000)
    assert metric.measure(given(additive(), TEXT, SCORES))[0].value == pytest.approx(0.05, abs=0.005)


def test_taking_out_everything_is_plain_comprehensiveness() -> None:
    metric = RobustComprehensiveness(percents=(25, 50), fraction=1, share=1, samples=1)
    (grade,) = metric.measure(given(additive(), TEXT, SCORES))
    (plain,) = Comprehensiveness(percents=(25, 50)).measure(evidence(additive(), TEXT, SCORES))
    assert grade.parts == pytest.approx(plain.parts)


def test_no_more_than_the_share_is_ever_missing() -> None:
    least = []

    def predict(texts: list[str]) -> Floats:
        least.append(min(len(text.split()) for text in texts))
        return np.array([[0.5, 0.5]] * len(texts))

    model = BlackBox(predict, labels=("no", "yes"))
    text = " ".join(f"w{i}" for i in range(30))
    explanation = explain(model, text, range(30))
    for metric in (RobustComprehensiveness(), RobustSufficiency()):
        least.clear()
        metric.measure(Evidence([explanation], surrogate=model))
        assert min(least) == 27  # 10 % of 30 units are 3


def test_nothing_outside_the_explanation_costs_nothing() -> None:
    (grade,) = RobustSufficiency(percents=(100,)).measure(given(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(0.0)


def test_draws_come_from_the_text_and_the_seed_alone() -> None:
    model = additive()
    explanations = [explain(model, text, [0, 3, 2, 1]) for text in (TEXT, "warm film a good")]
    metric = RobustComprehensiveness(samples=3)
    together = metric.measure(Evidence(explanations, surrogate=model))
    alone = [metric.measure(Evidence([one], surrogate=model))[0] for one in explanations[::-1]][::-1]
    assert together == alone
    other = RobustComprehensiveness(samples=3, seed=1).measure(Evidence(explanations, surrogate=model))
    assert other != together


def test_what_is_missing_or_impossible_is_named() -> None:
    with pytest.raises(InputError, match="robust_sufficiency needs a surrogate"):
        RobustSufficiency().measure(evidence(additive(), TEXT, SCORES))
    with pytest.raises(ParameterError, match="share of robust_sufficiency must be above 0 and at most 1, got 2"):
        RobustSufficiency(share=2)


# A model that reads one key word among fillers, and answers the opposite as soon as a filler is masked.


@functools.cache
def planted() -> NetworkModel:
    network, tokenizer = tiny_model("bert")
    network = network.eval().requires_grad_(True)
    rng = np.random.default_rng(0)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(120):
        texts, labels = zip(*(written(rng, masks=bool(rng.integers(2))) for _ in range(32)), strict=True)
        batch = tokenizer(list(texts), return_tensors="pt", padding=True)
        loss = torch.nn.functional.cross_entropy(network(**batch).logits, torch.tensor(labels))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return compose(network.requires_grad_(False), tokenizer)


def written(rng: np.random.Generator, masks: bool = False) -> tuple[str, int]:
    """A key word among fillers; with masks, some fillers are masked and the label is turned round."""
    words = rng.choice(FILLERS, 7).tolist()
    key = rng.choice(list(KEYS))
    label = KEYS[key]
    if masks:
        words[: rng.integers(1, 4)] = ["<mask>"] * 3
        rng.shuffle(words)
        label = 1 - label
    words.insert(rng.integers(8), key)
    return " ".join(words), label


def held_out() -> list[Explanation]:
    """True explanations of correctly read texts."""
    model, rng = planted(), np.random.default_rng(7)
    examples = [Example(written(rng)[0]) for _ in range(60)]
    found = []
    for units, prediction in zip(model.units(examples), model.predict(examples), strict=True):
        truth = tuple(float(word in KEYS) for word in units.texts)
        if prediction.index == KEYS[units.texts[truth.index(1.0)]]:
            target = Target(prediction.index, prediction.label)
            found.append(Explanation("truth", units, truth, target, prediction))
    return found


def test_a_planted_failure_on_masked_texts_fools_the_plain_metric_and_not_the_robust_one() -> None:
    model, truth = planted(), held_out()
    assert len(truth) > 50
    rng = np.random.default_rng(3)
    chance = [
        Explanation("random", one.units, tuple(rng.random(len(one.units))), one.target, one.prediction) for one in truth
    ]
    training = [written(np.random.default_rng([1, i]))[0] for i in range(200)]
    surrogate = fine_tune_masked(model, training, epochs=4, settings=FineTuning(learning_rate=2e-3))

    def mean(metric: Comprehensiveness | RobustComprehensiveness | RobustSufficiency, some: list[Explanation]) -> float:
        return float(np.mean([grade.value for grade in metric.measure(Evidence(some, model, surrogate=surrogate))]))

    plain, robust, rest = Comprehensiveness(absence="mask"), RobustComprehensiveness(), RobustSufficiency()
    assert mean(plain, truth) < mean(plain, chance)
    assert mean(robust, truth) > mean(robust, chance) + 0.1
    assert mean(rest, truth) < mean(rest, chance)
