"""Expected disagreement: calibrated on texts apart, saved with the explainer, and what a fallback is decided by."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didact.attribution.occlusion import Occlusion
from didact.errors import FormatError, InputError, ParameterError
from didact.models.load import load_model
from didact.protocols import Explainer, Model
from didact.testing.tiny import keyword_predict
from didact.trained.disagreement import (
    CHECKED_SCOPE,
    FEATURES,
    DisagreementEstimate,
    Observed,
    _ridge,
    features,
    fit_disagreement,
    scope,
)
from didact.trained.explainer import LearnedExplainer
from didact.trained.fallback import FallbackExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.scorer import Scorer, ScorerConfig
from didact.trained.signals.ranking import Ranking
from didact.types import Example, Prediction

MANY = len(FEATURES)
TEXTS = ["a warm and wonderful film", "a dull plot", "good food", "the acting was worse than the plot"]


def drawn(seed: int, count: int, noise: float = 0.1, shift: float = 0.0) -> Observed:
    """Texts whose disagreement grows with the first feature, which is higher by a shift, and falls with the second."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, MANY))
    rows[:, 0] += shift
    return Observed(rows, 0.8 + 0.3 * rows[:, 0] - 0.2 * rows[:, 1] + noise * rng.normal(size=count))


def test_the_estimate_is_the_disagreement_to_be_expected() -> None:
    estimate = fit_disagreement(drawn(0, 100), drawn(1, 100))
    report = estimate.report
    assert report["texts"] == 100
    assert report["rank correlation"] > 0.9
    for number in range(1, 5):
        assert abs(report[f"bin {number} predicted"] - report[f"bin {number} observed"]) < 0.1
    assert report["bin 4 observed"] > report["bin 1 observed"] + 0.5
    others = drawn(2, 200)
    above = estimate(others.rows) > estimate.threshold
    assert 0.04 < above.mean() < 0.2  # of other texts nearly a tenth as well
    assert others.errors[above].mean() > others.errors[~above].mean() + 0.3


def test_the_threshold_leaves_the_stated_share_above() -> None:
    checked = drawn(1, 100)
    for share in (0.1, 0.25):
        estimate = fit_disagreement(drawn(0, 100), checked, share=share)
        assert (estimate(checked.rows) > estimate.threshold).mean() == pytest.approx(share)


def test_the_scope_names_the_threshold_and_a_lower_one() -> None:
    checked = drawn(1, 100)
    estimate = fit_disagreement(drawn(0, 100), checked)
    usual = estimate(checked.rows).mean()
    sentences = scope(estimate, checked=False)
    assert f"more than {estimate.threshold:.3f} is expected (10% of the held-out texts)" in sentences
    assert f"--disagreement-above {usual:.3f}" in sentences
    assert CHECKED_SCOPE not in sentences
    assert sentences + " " + CHECKED_SCOPE == scope(estimate, checked=True)
    flat = fit_disagreement(drawn(0, 100), checked, share=0.9)  # its threshold is below the mean already
    assert "--disagreement-above" not in scope(flat, checked=False)


def test_noise_gives_estimates_near_the_mean() -> None:
    rng = np.random.default_rng(0)
    rows, errors = rng.normal(size=(60, MANY)), 0.5 + 0.2 * rng.normal(size=60)
    expected = fit_disagreement(Observed(rows, errors), drawn(1, 20))(rows)
    assert abs(expected - errors.mean()).max() < 0.15
    assert expected.std() < 0.25 * errors.std()


def test_predictions_for_left_out_texts_are_those_of_a_fit_without_them() -> None:
    rows, errors = vars(drawn(0, 12)).values()
    standard = (rows - rows.mean(0)) / rows.std(0)
    _, found = _ridge(standard, errors - errors.mean(), 3.0)
    for out in range(12):
        kept = np.arange(12) != out
        left = standard[kept]
        weights = np.linalg.solve(left.T @ left + 3.0 * np.eye(MANY), left.T @ (errors - errors.mean())[kept])
        assert found[out] == pytest.approx(standard[out] @ weights)


def test_texts_without_a_measurable_disagreement_are_left_out() -> None:
    all_known = drawn(0, 40)
    holed = np.concatenate([all_known.errors, [np.nan]])
    more = np.concatenate([all_known.rows, np.full((1, MANY), 9.0)])
    assert fit_disagreement(Observed.known(more, holed), drawn(1, 20)) == fit_disagreement(all_known, drawn(1, 20))


def test_altered_texts_tell_what_a_feature_means_elsewhere() -> None:
    flat = Observed(drawn(0, 60).rows, np.full(60, 0.5))  # texts of one kind, all explained alike
    flat.rows[:, 0] *= 0.05
    alone = fit_disagreement(flat, drawn(1, 40))
    both = fit_disagreement(flat.joined(drawn(2, 60, shift=3.0)), drawn(1, 40), drawn(3, 50, shift=3.0))
    assert both(drawn(4, 50, shift=3.0).rows).mean() > alone(drawn(4, 50, shift=3.0).rows).mean() + 0.3
    assert both.report["altered texts"] == 50
    assert both.report["altered predicted"] == pytest.approx(both.report["altered observed"], abs=0.2)
    assert both.report["altered above threshold"] > 0.5
    assert "altered texts" not in alone.report


def test_too_little_to_go_by_is_told() -> None:
    with pytest.raises(InputError, match="at least 8 texts to learn from and 8 to check it on, got 40 and 5"):
        fit_disagreement(drawn(0, 40), drawn(1, 5))
    with pytest.raises(ParameterError, match="share of texts above the threshold"):
        fit_disagreement(drawn(0, 40), drawn(1, 40), share=1.0)


def test_plain_values_and_back() -> None:
    estimate = fit_disagreement(drawn(0, 40), drawn(1, 40))
    assert DisagreementEstimate.from_dict(estimate.to_dict()) == estimate
    with pytest.raises(FormatError, match="other features"):
        DisagreementEstimate.from_dict({**estimate.to_dict(), "features": ["length"]})
    with pytest.raises(FormatError, match="not an estimate of disagreement"):
        DisagreementEstimate.from_dict({name: value for name, value in estimate.to_dict().items() if name != "centre"})


def test_features_of_a_text() -> None:
    item = {"ids": np.array([1, 3, 1, 7])}
    scores = np.array([1.0, 3.0, 1.0, -1.0])  # mean 1, deviation sqrt(2); top 2 (30 % of 4, up): 3 and 1
    found = features(item, scores, Prediction(("a", "b"), (0.0, 0.0), (0.3, 0.7)))
    # in deviations the order is 2.12, 0.71, 0.71, -0.71: gaps 1.41, 0, 1.41
    expected = {
        "length": np.log(5),
        "unknown": 0.5,
        "rarity": np.log([2, 4, 2, 8]).mean(),
        "spread": np.log(np.sqrt(2)),
        "separation": (2 - 0) / np.sqrt(2),
        "ties": 1 / 3,
        "margin": 0.4,
    }
    assert dict(zip(FEATURES, found, strict=True)) == pytest.approx(expected, abs=1e-5)


def test_features_exist_for_one_word_and_for_regression() -> None:
    assert np.isfinite(features({"ids": np.array([2])}, np.array([0.3]), Prediction(("x",), (1.0,)))).all()


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=("negative", "positive"))


def with_estimate(model: Model, **changes: Any) -> LearnedExplainer:
    """An untrained explainer whose expected disagreement grows with the length."""
    weights = tuple(float(name == "length") for name in FEATURES)
    estimate = DisagreementEstimate((0.0,) * MANY, (1.0,) * MANY, weights, 0.0, threshold=float(np.log(4.5)))
    units = model.units([Example(text) for text in TEXTS])
    shape = Scorer.for_texts(units, ScorerConfig(labels=model.labels, width=8, blocks=1))
    return LearnedExplainer(
        shape, Ranking(), dataclasses.replace(ExplainerMetadata.of(model, disagreement=estimate.to_dict()), **changes)
    )


def test_doubtful_texts_go_to_the_fallback(model: Model) -> None:
    explainer = with_estimate(model)
    plain = explainer.explain(model, TEXTS)
    # ln(1 + words), at most 2: 5, 3, 2 and 7 words
    assert [one.details["disagreement"] for one in plain] == pytest.approx([np.log(6), np.log(4), np.log(3), 2.0])
    found = FallbackExplainer(explainer, Occlusion()).explain(model, TEXTS)
    assert [one.method for one in found] == ["occlusion", "l2e", "l2e", "occlusion"]
    slow = Occlusion().explain(model, TEXTS)
    assert (found[0].scores, found[3].scores) == (slow[0].scores, slow[3].scores)
    assert [one.details["disagreement"] for one in found] == [one.details["disagreement"] for one in plain]
    assert found[0].cost.forwards == slow[0].cost.forwards + plain[0].cost.forwards
    assert [one.scores for one in found[1:3]] == [one.scores for one in plain[1:3]]


def test_the_threshold_can_be_moved(model: Model) -> None:
    explainer = with_estimate(model)
    for above, slow in ((0.0, 4), (1.2, 3), (2.0, 0)):
        found = FallbackExplainer(explainer, Occlusion(), above=above).explain(model, TEXTS)
        assert sum(one.method == "occlusion" for one in found) == slow


def test_the_fallback_explains_the_same_target(model: Model) -> None:
    found = FallbackExplainer(with_estimate(model), Occlusion()).explain(model, TEXTS[:1], ["negative"])
    assert (found[0].method, found[0].target.label) == ("occlusion", "negative")


def test_the_estimate_is_saved_with_the_explainer(model: Model, tmp_path: Path) -> None:
    explainer = with_estimate(model)
    explainer.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path)
    assert loaded.disagreement == explainer.disagreement
    again = FallbackExplainer(loaded, Occlusion()).explain(model, TEXTS)
    assert [one.method for one in again] == ["occlusion", "l2e", "l2e", "occlusion"]


def test_a_fallback_needs_an_estimate(model: Model) -> None:
    with pytest.raises(ParameterError, match="has no estimate of its disagreement"):
        FallbackExplainer(with_estimate(model, disagreement=None), Occlusion())


def test_a_fallback_is_an_explainer_with_parameters_and_cost_of_both(model: Model) -> None:
    learned, slow = with_estimate(model), Occlusion()
    explainer = FallbackExplainer(learned, slow)
    assert isinstance(explainer, Explainer)
    own = {name.removeprefix("learned."): v for name, v in explainer.parameters.items() if name.startswith("learned.")}
    assert own == learned.parameters
    assert (explainer.parameters["slow"], explainer.parameters["above"]) == ("occlusion", pytest.approx(np.log(4.5)))
    assert explainer.parameters != FallbackExplainer(learned, slow, above=0.1).parameters
    (units,) = model.units([Example(TEXTS[0])])
    assert explainer.cost(units).forwards == learned.cost(units).forwards + slow.cost(units).forwards
    known = model.predict([Example(text) for text in TEXTS])
    given = explainer.explain(model, TEXTS, predictions=known)
    assert [one.scores for one in given] == [one.scores for one in explainer.explain(model, TEXTS)]


def test_explanations_are_named_after_the_preset(model: Model) -> None:
    explainer = with_estimate(model, method="probe")
    assert (explainer.card.name, explainer.explain(model, TEXTS[:1])[0].method) == ("probe", "probe")
    assert LearnedExplainer.card.name == "l2e"
