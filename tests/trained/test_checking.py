"""Expected disagreement of texts of another kind: new words, and a few evaluations of the model."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.deeplift import DeepLift
from didact.attribution.occlusion import Occlusion
from didact.errors import CapabilityError, FormatError, ParameterError, UnknownNameError
from didact.models.load import load_model
from didact.ops.units import word_spans
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.testing.tiny import keyword_predict, tiny_model
from didact.trained.checked import checked_disagreement
from didact.trained.checking import CHECKS, checked
from didact.trained.disagreement import ALL, BESIDE, CHECKED, DisagreementEstimate
from didact.trained.explainer import LearnedExplainer
from didact.trained.fallback import FallbackExplainer
from didact.trained.novelty import BUCKETS, SeenWords
from didact.trained.train import train
from didact.types import Example, Units

WORDS = ("wonderful", "warm", "good", "dull", "worse", "avoid", "film", "plot", "acting", "the", "a", "with", "saw")


def texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation(WORDS)[: rng.integers(4, 10)]) for _ in range(count)]


def units(text: str) -> Units:
    return Units(Example(text), "word", tuple(word_spans(text)))


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=("negative", "positive"))


@pytest.fixture(scope="module")
def network() -> Model:
    return load_model(tiny_model("bert"), device="cpu")


@pytest.fixture(scope="module")
def learned(model: Model) -> LearnedExplainer:
    settings = {"width": 16, "blocks": 1, "min_count": 1, "dropout": 0.0, "epochs": 15, "learning_rate": 5e-3}
    return train("l2e", model, texts(150), Occlusion(), **settings)  # type: ignore[arg-type]


def test_new_words_are_unseen_and_rare_ones_surprise() -> None:
    seen = SeenWords.of([units("the good film")] * 8 + [units("a rare word")])
    assert seen.features(units("The good FILM")) == (0.0, 9 - 4)  # 8 occurrences: 1 + log2(8)
    assert seen.features(units("rare word")) == (0.0, 9 - 1)
    assert seen.features(units("quarterly revenue rare word")) == (0.5, 9 - 0.5)
    assert SeenWords("").features(units("anything")) == (0.0, 0.0)
    assert len(seen.levels) == BUCKETS
    with pytest.raises(FormatError, match="has 8192 digits, got 3"):
        SeenWords("123")


def test_scores_that_predict_the_model_fit_and_reversed_ones_do_not(model: Model) -> None:
    explained = Occlusion().explain(model, texts(20))
    turned = [dataclasses.replace(one, scores=tuple(-score for score in one.scores)) for one in explained]
    fits, fails = checked(model, explained), checked(model, turned)
    assert (np.median(fits, axis=0) < 0.35).all()
    np.testing.assert_allclose(fits + fails, 2.0)
    assert checked(model, explained[3:4])[0] == pytest.approx(fits[3])  # whatever stands beside
    nothing = dataclasses.replace(explained[0], scores=(0.0,) * len(explained[0].scores))
    assert checked(model, [nothing]).tolist() == [[1.0, 1.0]]
    assert checked(model, []).shape == (0, 2)


def test_many_checks_know_the_order_that_an_additive_model_has(model: Model) -> None:
    explained = Occlusion().explain(model, texts(12))
    few, many = (checked(model, explained, count)[:, 1].mean() for count in (8, 200))
    assert many < few
    assert many < 0.25


def test_both_estimates_are_fitted_saved_and_loaded(model: Model, learned: LearnedExplainer, tmp_path: Path) -> None:
    assert learned.disagreement is not None
    assert learned.checked is not None
    assert (learned.disagreement.measured.names, learned.checked.measured.names) == (ALL, CHECKED)
    learned.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    explained = learned.explain(model, texts(5, seed=1))
    again = loaded.explain(model, texts(5, seed=1))
    assert [one.details for one in again] == [one.details for one in explained]
    np.testing.assert_array_equal(
        checked_disagreement(loaded, model, again), checked_disagreement(learned, model, explained)
    )
    assert checked_disagreement(learned, model, []).shape == (0,)


def test_an_estimate_keeps_how_often_the_model_is_evaluated(model: Model, tmp_path: Path) -> None:
    settings = {"width": 16, "blocks": 1, "epochs": 1, "choose": "loss", "checks": 5}
    made = train("l2e", model, texts(60), Occlusion(), **settings)  # type: ignore[arg-type]
    made.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    for explainer in (made, loaded):
        assert explainer.checked is not None
        assert explainer.checked.measured.checks == 5
    found = FallbackExplainer(loaded, Occlusion(), above=2.0, check=True).explain(model, texts(3, seed=3))
    assert {one.cost.forwards for one in found} == {1 + 5}
    with pytest.raises(ParameterError, match="checks of l2e must be at least 2, got 1"):
        train("l2e", model, texts(60), Occlusion(), checks=1)


def test_checks_notice_scores_that_are_wrong(model: Model, learned: LearnedExplainer) -> None:
    explained = learned.explain(model, texts(30, seed=2))
    turned = [dataclasses.replace(one, scores=tuple(-score for score in one.scores)) for one in explained]
    right, wrong = (checked_disagreement(learned, model, some).mean() for some in (explained, turned))
    assert wrong > right + 0.2


def test_a_fallback_with_checks_counts_them(model: Model, learned: LearnedExplainer) -> None:
    given = texts(6, seed=3)
    everything = FallbackExplainer(learned, Occlusion(), above=-1.0, check=True)
    assert [one.method for one in everything.explain(model, given)] == ["occlusion"] * 6
    nothing = FallbackExplainer(learned, Occlusion(), above=2.0, check=True)
    found = nothing.explain(model, given)
    assert [one.method for one in found] == ["l2e"] * 6
    assert {one.cost.forwards for one in found} == {1 + CHECKS}
    expected = checked_disagreement(learned, model, learned.explain(model, given))
    assert [one.details["disagreement"] for one in found] == pytest.approx(expected.tolist())
    without = LearnedExplainer(learned.shape, learned.signal, dataclasses.replace(learned.about, checked=None))
    with pytest.raises(ParameterError, match="no estimate of its disagreement that rests on checks"):
        checked_disagreement(without, model, found)
    with pytest.raises(ParameterError, match="has no estimate of its disagreement"):
        FallbackExplainer(without, Occlusion(), check=True)


def test_a_quick_method_may_stand_beside_the_scores(network: Model, tmp_path: Path) -> None:
    settings = {"width": 16, "blocks": 1, "epochs": 1, "choose": "loss", "checks": 5, "check_beside": "deeplift"}
    made = train("l2e", network, texts(60), DeepLift(), shape="scorer", **settings)  # type: ignore[arg-type]
    made.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=network, device="cpu")
    for explainer in (made, loaded):
        assert explainer.checked is not None
        assert (explainer.checked.measured.names, explainer.checked.measured.beside) == (BESIDE, "deeplift")
    explained = DeepLift().explain(network, texts(12))
    own = checked(network, explained, beside="deeplift")
    np.testing.assert_array_equal(own[:, :2], checked(network, explained))
    np.testing.assert_allclose(own[:, 2], 0.0, atol=1e-6)  # the method itself
    turned = [dataclasses.replace(one, scores=tuple(-score for score in one.scores)) for one in explained]
    np.testing.assert_allclose(checked(network, turned, beside="deeplift")[:, 2], 2.0, atol=1e-6)
    assert checked(network, [], beside="deeplift").shape == (0, 3)
    data = loaded.checked.to_dict()  # type: ignore[union-attr] # there is one, as above
    for wrong in ({**data, "beside": "unknown"}, {**data, "beside": None}, {**data, "features": CHECKED}):
        with pytest.raises(FormatError, match="compares scores with the method"):
            DisagreementEstimate.from_dict(wrong)
    new = texts(30, seed=7)
    learned, wanted = loaded.explain(network, new), DeepLift().explain(network, new)
    apart = [1 - spearman(one.array, other.array) for one, other in zip(learned, wanted, strict=True)]
    assert spearman(checked_disagreement(loaded, network, learned), np.array(apart)) > 0.5
    found = FallbackExplainer(loaded, DeepLift(), above=2.0, check=True).explain(network, new[:3])
    assert {(one.cost.forwards, one.cost.backwards) for one in found} == {(1 + 5 + 2, 2)}


def test_given_explanations_have_a_quick_method_beside_them_without_altered_texts(network: Model) -> None:
    settings = {"width": 16, "blocks": 1, "epochs": 1, "choose": "loss", "check_beside": "deeplift"}
    given = DeepLift().explain(network, texts(60))
    made = train("l2e", network, given, shape="scorer", **settings)  # type: ignore[arg-type]
    assert made.checked is not None
    assert made.checked.measured.names == BESIDE
    assert "altered texts" not in made.checked.report


def test_a_method_beside_that_there_is_not_or_that_cannot_be_is_refused(model: Model) -> None:
    with pytest.raises(UnknownNameError, match="did you mean deeplift"):
        train("l2e", model, texts(60), Occlusion(), check_beside="deeplfit")  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="deeplift needs a model that is differentiable"):
        train("l2e", model, texts(60), Occlusion(), check_beside="deeplift")  # type: ignore[arg-type]


def test_an_estimate_that_an_earlier_version_saved_is_still_read(learned: LearnedExplainer) -> None:
    assert learned.disagreement is not None
    data = learned.disagreement.to_dict()
    old = {
        **data,
        "features": data["features"][:7],
        **{name: data[name][:7] for name in ("centre", "scale", "weights")},
    }  # type: ignore[index]
    del old["seen"]
    loaded = DisagreementEstimate.from_dict(old)
    assert loaded.measured.names == ALL[:7]
    assert learned.checked is not None
    data = learned.checked.to_dict()
    old = {
        **data,
        "features": data["features"][:-1],
        **{name: data[name][:-1] for name in ("centre", "scale", "weights")},
    }  # type: ignore[index]
    loaded = DisagreementEstimate.from_dict(old)
    assert loaded.measured.names == CHECKED[:-1]
    assert loaded.measured.checks == CHECKS
    with pytest.raises(FormatError, match="other features than length"):
        DisagreementEstimate.from_dict({**data, "features": ["length"]})
