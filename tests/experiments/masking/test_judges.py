"""Judges give a metric's own values, with its own direction; what cannot choose between maps is refused."""

import pickle

import numpy as np
import pytest

from didact.attribution.gradient_x_input import GradientXInput
from didact.data.corpus import generate
from didact.errors import ParameterError, UnknownNameError
from didact.experiments.masking.judges import AML_METRICS, judge
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.protocols import Evidence, Model
from didact.types import Explanation


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("default", device="cpu")


@pytest.fixture(scope="module")
def explanations(model: Model) -> list[Explanation]:
    return GradientXInput(level="token").explain(model, generate(6))


@pytest.mark.parametrize("metric", [*AML_METRICS, "deletion_area", "rationale_auc"])
def test_a_judge_gives_the_values_of_its_metric(metric: str, model: Model, explanations: list[Explanation]) -> None:
    made = judge(metric)
    name, settings = AML_METRICS.get(metric, (metric, {}))
    wanted = METRICS.get(name).configured(**settings).measure(Evidence(explanations, model))
    np.testing.assert_array_equal(made.grades(model, explanations), [grade.value for grade in wanted])
    assert made.lower_is_better == (METRICS.card(name).higher_is_better is False)


def test_a_judge_knows_the_shares_of_its_metric() -> None:
    assert judge("comp").shares == (0.2,)
    assert judge("aopc_suff").shares == pytest.approx((0.01, 0.05, 0.1, 0.2, 0.5))
    assert judge("rationale_auc").shares == ()


def test_the_five_are_those_of_the_paper(model: Model, explanations: list[Explanation]) -> None:
    """Slow truth: K = floor(n / 5) tokens deleted, left alone, or masked; the plain mean over five shares."""
    one = explanations[0]
    n, order = len(one.units), np.argsort(-one.array)
    p, kept = one.prediction.probabilities[one.target.index], {}
    for percent in (1, 5, 10, 20, 50):
        top = np.zeros(n, dtype=np.bool_)
        top[order[: int(n * percent / 100)]] = True
        masks = np.stack([top, ~top]) if top.any() else np.stack([~top, ~top])
        target = type(one.target)(one.target.index, one.target.label, "probability")
        kept[percent] = [float(value) for value in model.score([one.units], [target], [masks], "delete")[0]]
        if percent == 20:
            masked = float(model.score([one.units], [target], [~top[None]], "mask")[0][0])
    falls = {percent: (p - alone, p - without) for percent, (alone, without) in kept.items()}
    wanted = {
        "suff": falls[20][0],
        "comp": falls[20][1],
        "lo": np.log(masked) - np.log(p),
        "aopc_suff": sum(fall[0] for fall in falls.values()) / 5,
        "aopc_comp": sum(fall[1] for fall in falls.values()) / 5,
    }
    for name, value in wanted.items():
        assert judge(name).grades(model, [one])[0] == pytest.approx(value, abs=1e-5), name


def test_settings_change_the_metric_and_the_name() -> None:
    made = judge("comp", percents=[50])
    assert made.name == "comp (percents=[50])"
    assert made.grade.metric.percents == (50.0,)  # type: ignore[attr-defined]


def test_other_processes_can_be_given_a_judge(model: Model, explanations: list[Explanation]) -> None:
    copied = pickle.loads(pickle.dumps(judge("suff")))
    np.testing.assert_array_equal(copied.grades(model, explanations), judge("suff").grades(model, explanations))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("robust_sufficiency", "it needs surrogate; choose one such as suff, lo, comp"),
        ("seed_stability", "it needs repeats"),
        ("seconds", "it measures their cost"),
        ("comprehensivness", "comprehensiveness"),
    ],
)
def test_what_cannot_choose_is_refused(metric: str, message: str) -> None:
    with pytest.raises((ParameterError, UnknownNameError), match=message):
        judge(metric)
