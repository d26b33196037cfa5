"""Learned scores corrected by evaluations: exact in the end, better before, and honest about what is left."""

from pathlib import Path

import numpy as np
import pytest

import didact
from didact.attribution.kernel_shap import KernelShap
from didact.cli import main
from didact.errors import InputError, ParameterError
from didact.ops.coalitions import different_pairs, shapley_pairs
from didact.ops.shapley import exact_fit, prior_fit, smooth_fit
from didact.testing.learned import case_model, case_texts
from didact.trained.budgeted import BudgetedExplainer
from didact.trained.explainer import LearnedExplainer
from didact.trained.train import train
from didact.types import Floats


def game(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, float]:
    """All pairs of a game of weights and weaker interactions of two and three units, its differences and total."""
    weights = rng.normal(size=n) * rng.exponential(size=n)
    triples = rng.normal(size=(n, n, n)) * (rng.random((n, n, n)) < 0.05) * 0.5
    pairs = rng.normal(size=(n, n)) * 0.3
    rows = shapley_pairs(n, 1 << n, rng)

    def value(keep: Floats) -> Floats:
        k = keep.astype(float)
        both = np.einsum("ri,ij,rj->r", k, pairs, k)
        return np.asarray(k @ weights + both + np.einsum("ri,rj,rk,ijk->r", k, k, k, triples))

    full, empty = value(np.ones((1, n)))[0], value(np.zeros((1, n)))[0]
    return rows, value(rows) - value(~rows), float(full - empty)


def test_a_prior_saves_evaluations_and_its_errors_are_honest() -> None:
    rng = np.random.default_rng(0)
    own, plain, covered = [], [], []
    for _ in range(40):
        n = 10
        rows, differences, total = game(rng, n)
        truth = exact_fit(rows, differences, total).values
        prior = 3.0 * truth + 0.4 * rng.normal(size=n) * np.abs(truth).mean()  # of another scale, and noisy
        some = rng.permutation(len(rows))[:10]
        values, errors = prior_fit(rows[some], differences[some], total, prior)
        own.append(np.abs(values - truth).mean())
        plain.append(np.abs(smooth_fit(rows[:n], differences[:n], total).values - truth).mean())
        covered.append(np.abs(values - truth) <= 1.96 * errors)
        assert values.sum() == pytest.approx(total)
    assert np.mean(own) < 0.85 * np.mean(plain)  # with as many evaluations
    assert np.mean(covered) > 0.85


def test_a_wrong_prior_is_corrected_and_a_contrary_one_dropped() -> None:
    rng = np.random.default_rng(1)
    rows, differences, total = game(rng, 9)
    truth = exact_fit(rows, differences, total).values
    wrong = prior_fit(rows, differences, total, rng.normal(size=9))
    np.testing.assert_allclose(wrong.values, truth, atol=0.02)
    some = slice(0, 30)
    contrary, none = (prior_fit(rows[some], differences[some], total, p).values for p in (-truth, np.zeros(9)))
    np.testing.assert_allclose(contrary, none)


def test_pairs_are_different_and_as_many_as_wanted() -> None:
    rng = np.random.default_rng(0)
    for n, pairs in ((2, 1), (3, 2), (6, 5), (12, 40), (70, 16)):
        rows = different_pairs(n, pairs, rng)
        both = {tuple(row) for row in rows.tolist()} | {tuple(row) for row in (~rows).tolist()}
        assert len(both) == 2 * pairs == 2 * len(rows)
        assert 0 < rows.sum(1).min() <= rows.sum(1).max() < n
    assert different_pairs(1, 4, rng).shape == (0, 1)


@pytest.fixture(scope="module")
def learned() -> LearnedExplainer:
    _, explained = case_texts("bert")
    return train("probe", case_model("bert"), explained[:60], epochs=4, rank=8, width=16, fit={"device": "cpu"})


def test_all_evaluations_give_shapley_values(learned: LearnedExplainer) -> None:
    model, text = case_model("bert"), "a good film with a dull plot"
    exact = didact.explain(text, model, "kernel_shap", evaluations=1000, target="positive")
    made = didact.explain(text, model, learned, evaluations=1000, target="positive")
    np.testing.assert_allclose(made.array, exact.array, atol=1e-5)
    assert not np.any(made.errors)
    assert made.method == "budgeted"
    assert made.details["base_value"] == pytest.approx(exact.details["base_value"])


def test_the_budget_is_kept_and_declared(learned: LearnedExplainer) -> None:
    model, (examples, _) = case_model("bert"), case_texts("bert")
    explainer = BudgetedExplainer(learned, 8)
    made = explainer.explain(model, [*examples[60:64], "good"])
    for explanation in made:
        assert explanation.cost.forwards <= explainer.cost(explanation.units).forwards <= 8 + 3
        total = explanation.prediction.value(explanation.target) - explanation.details["base_value"]
        assert explanation.array.sum() == pytest.approx(total, abs=1e-4)
        assert len(explanation.errors) == len(explanation.units)
    alone = explainer.explain(model, examples[61:62])[0]
    np.testing.assert_allclose(alone.array, made[1].array, atol=1e-5)  # whatever else is explained beside it
    long = [f"{examples[61].text} {examples[62].text} {examples[63].text}"]  # not all of its pairs can be drawn
    first, second = (BudgetedExplainer(learned, 48, seed=seed).explain(model, long)[0].array for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-6


def test_a_tolerance_stops_early(learned: LearnedExplainer) -> None:
    model, (examples, _) = case_model("bert"), case_texts("bert")
    long = [example for example in examples if len(example.text.split()) >= 9][:2]
    early = BudgetedExplainer(learned, 400, tolerance=100.0).explain(model, long)
    assert all(one.cost.forwards < 60 for one in early)


def test_bad_settings_are_refused(learned: LearnedExplainer) -> None:
    model = case_model("bert")
    for wrong in (1, 2.5, True, "8"):
        with pytest.raises(ParameterError, match="evaluations must be a whole number of at least 2"):
            didact.explain("good", model, learned, evaluations=wrong)
    with pytest.raises(ParameterError, match="tolerance must be at least 0"):
        BudgetedExplainer(learned, tolerance=-1.0)
    with pytest.raises(ParameterError, match=r"unknown setting .* 'sample'"):
        didact.explain("good", model, learned, evaluations=8, sample=1)
    with pytest.raises(InputError, match="beside a ready explainer"):
        didact.explain("good", model, KernelShap(), evaluations=8)


def test_the_command_takes_evaluations(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = didact.load_model()
    texts = ["a good film", "a dull plot", "warm and funny", "bad acting", "a wonderful film", "worse than that"] * 2
    explained = KernelShap(evaluations=20).explain(model, texts)
    train("probe", model, explained, epochs=1, rank=4, width=8).save_pretrained(tmp_path / "probe")
    start = ["explain", "A warm, funny film.", "--explainer", str(tmp_path / "probe")]
    assert main([*start, "--evaluations", "8", "--format", "json"]) == 0
    assert '"budgeted"' in capsys.readouterr().out
    assert main([*start, "--evaluations", "8", "--fallback", "lime"]) == 2
    assert "give --fallback or --evaluations, not both" in capsys.readouterr().err
    assert main(["explain", "A warm film.", "--evaluations", "8"]) == 2
    assert "go with --explainer DIR" in capsys.readouterr().err
