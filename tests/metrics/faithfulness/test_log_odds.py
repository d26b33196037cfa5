"""The two numbers that papers call log-odds, and prediction agreement: worked by hand, and L2E's defects."""

import math

import numpy as np
import pytest
import torch

from didact.errors import InputError, ParameterError
from didact.metrics.base import METRICS
from didact.metrics.faithfulness.log_odds_difference import LogOddsDifference
from didact.metrics.faithfulness.log_probability_drop import LogProbabilityDrop
from didact.metrics.faithfulness.prediction_agreement import PredictionAgreement
from didact.models.functions.blackbox import BlackBox
from didact.models.load import load_model
from didact.protocols import Evidence
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Explanation, Floats, Target
from tests.metrics.faithfulness.given import TEXT, additive, answering, evidence, explain

SCORES = [0, 3, 2, 1]


def log_odds(p: float) -> float:
    return math.log(p / (1 - p))


def test_log_odds_difference_worked_by_hand() -> None:
    # 30 % of 4 units is ceil(1.2) = 2: "good warm" go, p falls from 0.9 to 0.2.
    # ln(0.9 / 0.1) - ln(0.2 / 0.8) = ln 9 + ln 4 = 3.583519
    (grade,) = LogOddsDifference().measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(3.583519, abs=1e-5)


def test_log_probability_drop_worked_by_hand() -> None:
    # 20 % of 4 units is ceil(0.8) = 1: "good" goes, p falls from 0.9 to 0.4: ln 0.4 - ln 0.9 = -0.810930
    (grade,) = LogProbabilityDrop().measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(-0.810930, abs=1e-5)
    # With 50 % too: "good warm" go, ln 0.2 - ln 0.9 = -1.504077; the mean is -1.157504.
    (grade,) = LogProbabilityDrop(percents=(20, 50)).measure(evidence(additive(), TEXT, SCORES))
    assert grade.value == pytest.approx(-1.157504, abs=1e-5)


def test_the_two_log_odds_are_named_apart_and_point_in_opposite_directions() -> None:
    assert METRICS.card("log_odds_difference").higher_is_better is True
    assert METRICS.card("log_probability_drop").higher_is_better is False


def test_amls_rule_leaves_short_texts_alone() -> None:
    given = evidence(additive(), TEXT, SCORES)
    assert LogProbabilityDrop(rounding="floor").measure(given)[0].value == 0.0  # 20 % of 4 units is 0.8
    assert LogOddsDifference(percents=(20,), rounding="floor").measure(given)[0].value == 0.0


def test_log_odds_of_several_classes_are_one_against_the_rest() -> None:
    rows = {"x y z": [0.2, 0.5, 0.3], "y z": [0.6, 0.3, 0.1]}
    model = BlackBox(lambda texts: np.array([rows.get(text, [0.2, 0.5, 0.3]) for text in texts]), labels=tuple("abc"))
    (grade,) = LogOddsDifference().measure(evidence(model, "x y z", [1, 0, 0]))
    assert grade.value == pytest.approx(log_odds(0.5) - log_odds(0.3))


def test_a_probability_of_one_has_large_log_odds_and_not_zero() -> None:
    """L2E's code sets the log-odds of p = 1.0 to 0, so that the surest predictions count as undecided."""
    model = answering(lambda text: 1.0 if "good" in text.split() else 0.5)
    (grade,) = LogOddsDifference().measure(evidence(model, TEXT, SCORES))
    assert grade.value == pytest.approx(30)  # held to the limit, minus ln 1
    (grade,) = LogOddsDifference(limit=12).measure(evidence(model, TEXT, SCORES))
    assert grade.value == pytest.approx(12)


def test_logits_that_round_to_probability_one_keep_their_log_odds() -> None:
    network, tokenizer = tiny_model("bert")
    state = network.state_dict()
    state["classifier.weight"].zero_()
    state["classifier.bias"].copy_(torch.tensor([-10.0, 15.0]))
    model = load_model((network, tokenizer))
    explanation = explain(model, TEXTS[0], range(8), 1, "logit")
    assert explanation.prediction.probabilities[1] == 1.0
    metric = LogOddsDifference()
    assert metric._log_odds(explanation, np.array([explanation.prediction.outputs])) == pytest.approx([25.0])
    assert metric.measure(Evidence([explanation], model))[0].value == pytest.approx(0.0, abs=1e-5)


def test_the_log_odds_of_independent_labels_are_their_logits() -> None:
    network, tokenizer = tiny_model("bert", labels=("a", "b", "c"))
    network.config.problem_type = "multi_label_classification"
    model = load_model((network, tokenizer))
    explanation = explain(model, TEXTS[0], range(8), 2, "logit")
    (grade,) = LogOddsDifference(percents=(1,)).measure(Evidence([explanation], model))
    keep = np.array([[True] * 7 + [False]])
    (left,) = model.score([explanation.units], [Target(2, "c")], [keep], "mask")
    assert grade.value == pytest.approx(explanation.prediction.outputs[2] - left[0], abs=1e-4)


def test_agreement_worked_by_hand() -> None:
    # 30 % of 4 units is 2. "good warm" alone: p = 0.8, still yes. "a film" alone: p = 0.2, now no.
    assert PredictionAgreement().measure(evidence(additive(), TEXT, [0, 3, 2, 1]))[0].value == 1.0
    assert PredictionAgreement().measure(evidence(additive(), TEXT, [3, 0, 1, 2]))[0].value == 0.0


def test_agreement_is_with_the_predicted_label_whatever_was_explained() -> None:
    assert PredictionAgreement().measure(evidence(additive(), TEXT, [0, 3, 2, 1], target=0))[0].value == 1.0


def test_random_draws_that_agree_in_part_score_their_share() -> None:
    """L2E's code counts five random draws as agreeing only if all five do."""
    # One word of two says yes: keeping one unit of two at random agrees half of the time.
    model = additive({"good": 0.8})
    draws = [[1, 0], [1, 0], [0, 1], [1, 0], [0, 1]]
    grades = PredictionAgreement().measure(Evidence([explain(model, "good film", row) for row in draws], model))
    assert [grade.value for grade in grades] == [1, 1, 0, 1, 0]


@pytest.mark.parametrize("name", ["log_odds_difference", "prediction_agreement", "log_probability_drop"])
def test_texts_of_which_all_or_no_units_are_selected_are_not_skipped(name: str) -> None:
    """L2E's code leaves out documents where K = 0 or K = n."""
    metric = METRICS.get(name)()
    (grade,) = metric.measure(evidence(additive(), "good", [1.0]))
    # One unit, selected: it goes, and p falls from 0.6 to 0.1; or it alone stays, and nothing changes.
    wanted = {
        "log_odds_difference": log_odds(0.6) - log_odds(0.1),
        "prediction_agreement": 1.0,
        "log_probability_drop": math.log(0.1 / 0.6),
    }
    assert grade.value == pytest.approx(wanted[name])


@pytest.mark.parametrize("name", ["log_odds_difference", "prediction_agreement", "log_probability_drop"])
def test_regression_has_no_probabilities(name: str) -> None:
    model = load_model(tiny_model("bert", labels=("score",)))
    example = Example(TEXTS[0])
    (units,), (prediction,) = model.units([example]), model.predict([example])
    explanation = Explanation("by hand", units, (0.0,) * len(units), Target(0, "score"), prediction)
    with pytest.raises(InputError, match=f"{name} is about probabilities"):
        METRICS.get(name)().measure(Evidence([explanation], model))


def test_without_a_mask_token_the_models_own_way_is_used() -> None:
    # A function of texts has no mask token: units are deleted. Nothing but known words reaches it.
    seen: list[str] = []

    def predict(texts: list[str]) -> Floats:
        seen.extend(texts)
        return np.array([[0.3, 0.7]] * len(texts))

    model = BlackBox(predict)
    PredictionAgreement().measure(evidence(model, TEXT, SCORES))
    assert seen[-1] == "good warm"
    with pytest.raises(ParameterError, match="unknown perturbation"):
        PredictionAgreement(absence="hide it")
