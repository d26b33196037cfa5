"""Shapley sampling against Shapley values from their definition: exact, unbiased, and with honest errors."""

from math import comb

import numpy as np
import pytest

from didact.attribution.shapley_sampling import ShapleySampling, _Orders
from didact.meter import metered
from didact.models.load import load_model
from didact.ops.orders import balanced_orders
from didact.testing.tiny import TEXTS
from tests.reference.plain import text_model
from tests.reference.test_kernel_shap import (
    INTERACTING,
    by_permutations,
    by_subsets,
    interacting,
    masked_game,
    text_game,
)


def black_box() -> object:
    return load_model(interacting, labels=("negative", "positive"))


@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_all_coalitions_give_exact_shapley_values_of_a_transformer(scale: str) -> None:
    model = text_model("bert")
    (found,) = ShapleySampling(evaluations=254, scale=scale).explain(model, [TEXTS[0]])
    n = len(found.units)
    assert n in (7, 8)
    game = masked_game(model, TEXTS[0], found.target.index, scale)
    np.testing.assert_allclose(found.array, by_subsets(game, n), atol=1e-5)
    assert not any(found.errors)


@pytest.mark.parametrize("text", ["good", "not good", "dull but not worse"])
def test_few_words_down_to_one_equal_the_mean_over_all_orders(text: str) -> None:
    (found,) = ShapleySampling().explain(black_box(), [text], ["positive"])
    np.testing.assert_allclose(found.array, by_permutations(text_game(text, interacting), len(text.split())), atol=1e-9)


@pytest.mark.parametrize("evaluations", [66, 130, 400])
def test_drawn_orders_are_unbiased_and_their_errors_are_their_spread(evaluations: int) -> None:
    n = len(INTERACTING.split())
    exact = by_subsets(text_game(INTERACTING, interacting), n)
    model = black_box()
    runs = [
        ShapleySampling(evaluations=evaluations, seed=seed).explain(model, [INTERACTING], [1])[0] for seed in range(100)
    ]
    values = np.array([run.scores for run in runs])
    spread = values.std(axis=0, ddof=1)
    assert spread.max() > 0.01
    assert (np.abs(values.mean(axis=0) - exact) <= 4 * spread / 10 + 1e-12).all()
    said = np.sqrt(np.mean([np.square(run.errors) for run in runs], axis=0))
    ratio = said[spread > 0] / spread[spread > 0]
    assert ratio.min() >= 0.65
    assert 0.8 <= np.sqrt((said**2).mean() / (spread**2).mean()) <= 1.7
    zero = spread == 0
    covered = np.array([np.abs(run.array - exact) <= 1.96 * np.array(run.errors) + 1e-12 for run in runs])
    assert covered[:, ~zero].mean() >= 0.9


def test_every_run_adds_up_and_a_word_without_effect_gets_nothing() -> None:
    (found,) = ShapleySampling(evaluations=60).explain(black_box(), [INTERACTING], [1])
    game = text_game(INTERACTING, interacting)
    everything = max(game, key=len)
    assert sum(found.scores) == pytest.approx(game[everything] - game[frozenset()], abs=1e-12)
    scores = dict(zip(found.units.texts, found.scores, strict=True))
    assert scores["avoid"] == scores["or"] == 0.0


@pytest.mark.parametrize("evaluations", [40, 130, 400])
def test_no_coalition_is_evaluated_twice_and_the_budget_is_kept(evaluations: int) -> None:
    method = ShapleySampling(evaluations=evaluations)
    with metered() as meter:
        (found,) = method.explain(black_box(), [INTERACTING], [1])
    assert meter.forwards == meter.evaluated == method.cost(found.units).forwards <= evaluations + 3


def test_it_stops_at_the_wanted_precision() -> None:
    model = black_box()
    long = INTERACTING + " and then not dull but warm"
    loose = ShapleySampling(evaluations=4000, tolerance=0.1)
    with metered() as meter:
        found = loose.explain(model, [long, "not good", INTERACTING], [1, 1, 1])
    assert sum(one.cost.forwards for one in found) == meter.forwards
    assert max(found[0].errors) <= 0.1
    assert found[0].cost.forwards < loose.cost(found[0].units).forwards / 2
    (alone,) = loose.explain(model, [long], [1])
    assert alone.scores == found[0].scores


def games(n: int, seed: int) -> dict[str, np.ndarray]:
    """Games of several kinds as values of all coalitions, by the bits of their numbers."""
    rng = np.random.default_rng(seed)
    present = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(float)
    weights = rng.normal(size=n)
    joint = present @ weights
    for size in (2, 2, 3, 3, 4):
        joint = joint + rng.normal() * present[:, rng.choice(n, size, replace=False)].prod(axis=1)
    hidden = np.tanh(2 * present @ rng.normal(size=(n, 8)) / np.sqrt(n)) @ rng.normal(size=8)
    return {
        "sigmoid": 1 / (1 + np.exp(-2 * present @ weights)),
        "max": (present * np.abs(weights)).max(axis=1),
        "joint": joint,
        "network": hidden,
    }


def by_bits(values: np.ndarray, n: int) -> np.ndarray:
    """Shapley values from their definition."""
    coalitions = np.arange(1 << n)
    sizes = np.array([bin(number).count("1") for number in coalitions])
    weights = np.array([1 / (n * comb(n - 1, size)) for size in range(n)] + [0.0])
    shapley = []
    for unit in range(n):
        outside = coalitions[(coalitions >> unit) & 1 == 0]
        shapley.append((weights[sizes[outside]] * (values[outside | (1 << unit)] - values[outside])).sum())
    return np.array(shapley)


@pytest.mark.parametrize(("n", "evaluations"), [(8, 32), (8, 64), (11, 32), (11, 64), (11, 128), (11, 400)])
def test_errors_cover_the_exact_values_or_are_not_given(n: int, evaluations: int) -> None:
    bits = 1 << np.arange(n)
    covered: dict[str, list[float]] = {}
    for seed in range(2):
        for name, values in games(n, seed).items():
            exact = by_bits(values, n)
            for draw in range(25):
                job = _Orders(balanced_orders(n, evaluations, np.random.default_rng([seed, draw])), None)
                job.take(values[(job.wanted() * bits).sum(axis=1)])
                outcome = job.outcome()
                if len(outcome.errors):
                    inside = np.abs(outcome.scores - exact) <= 1.96 * np.array(outcome.errors) + 1e-12
                    covered.setdefault(name, []).append(float(inside.mean()))
    assert bool(covered) == ((n, evaluations) != (11, 32))  # two orders
    for name, shares in covered.items():
        assert np.mean(shares) >= 0.9, name


@pytest.mark.parametrize("evaluations", [4, 30])  # one order of 11 units, and two that share coalitions
def test_a_budget_below_three_orders_states_no_errors(evaluations: int) -> None:
    (found,) = ShapleySampling(evaluations=evaluations).explain(black_box(), [INTERACTING], [1])
    assert found.errors == ()
    assert "max_standard_error" not in found.details


def test_a_budget_below_one_pair_of_orders_takes_one() -> None:
    (found,) = ShapleySampling(evaluations=4).explain(black_box(), [INTERACTING], [1])
    assert found.cost.forwards == 2 * len(found.units) - 2 + 3
