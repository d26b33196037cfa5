"""KernelSHAP against Shapley values from their definition, and its standard errors against its errors."""

from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest
import torch

from didact.attribution.kernel_shap import KernelShap
from didact.meter import metered
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, keyword_predict
from didact.types import Example
from tests.reference.plain import encoded, read, special, text_model, value, without

Game = dict[frozenset[int], float]

INTERACTING = "not good but warm and wonderful then dull or worse avoid"


def by_subsets(game: Game, n: int) -> np.ndarray:
    """Marginal contributions to every subset of the others, weighed as Shapley does."""
    found = np.zeros(n)
    for player in range(n):
        others = [other for other in range(n) if other != player]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for subset in map(frozenset, combinations(others, size)):
                found[player] += weight * (game[subset | {player}] - game[subset])
    return found


def by_permutations(game: Game, n: int) -> np.ndarray:
    """Average marginal contribution over all orders of arrival."""
    found = np.zeros(n)
    for order in permutations(range(n)):
        for place, player in enumerate(order):
            found[player] += game[frozenset(order[: place + 1])] - game[frozenset(order[:place])]
    return found / factorial(n)


def subsets(n: int) -> list[frozenset[int]]:
    return [frozenset(chosen) for size in range(n + 1) for chosen in combinations(range(n), size)]


def masked_game(model: NetworkModel, text: str, index: int, scale: str) -> Game:
    """The model's answer for every subset of words, the others replaced by the mask token."""
    units = model.units([Example(text)])[0]
    inputs = encoded(model, text)
    ids = inputs.pop("input_ids")[0]
    players = subsets(len(units))
    absent = [set(range(len(units))) - kept for kept in players]
    mask = torch.tensor(model.tokenizer.mask_token_id)
    rows = torch.stack([torch.where(without(units, gone, len(ids)), ids, mask) for gone in absent])
    with torch.no_grad():
        logits = model.network(rows, **{name: given.expand(len(rows), -1) for name, given in inputs.items()}).logits
    return dict(zip(players, read(logits.double(), index, scale).tolist(), strict=True))


def text_game(text: str, predict: object = keyword_predict) -> Game:
    """A function's probability of the second label for every subset of the words of a text without punctuation."""
    words = text.split()
    players = subsets(len(words))
    rows = predict([" ".join(words[i] for i in sorted(kept)) for kept in players])  # type: ignore[operator]
    return dict(zip(players, rows[:, 1].tolist(), strict=True))


def interacting(texts: list[str]) -> np.ndarray:
    """A function whose words act on each other: "not" turns what follows round."""
    rows = []
    for text in texts:
        total, sign = 0.0, 1.0
        for word in text.split():
            total += sign * {"good": 2.0, "warm": 1.0, "wonderful": 3.0, "dull": -2.0, "worse": -1.5}.get(word, 0.0)
            sign = -sign if word in ("not", "but") else sign
        p = 1 / (1 + np.exp(-total))
        rows.append([1 - p, p])
    return np.array(rows)


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("text", ["a truly unforgettable film, warm heart", TEXTS[0]])
def test_all_coalitions_give_exact_shapley_values_of_a_transformer(text: str, scale: str) -> None:
    model = text_model("bert")
    (found,) = KernelShap(evaluations=254, scale=scale).explain(model, [text])
    n = len(found.units)
    assert n in (7, 8)
    game = masked_game(model, text, found.target.index, scale)
    np.testing.assert_allclose(found.array, by_subsets(game, n), atol=1e-5)


@pytest.mark.parametrize(
    "text", ["good", "not good", "not good warm", "dull but not worse", "not good but wonderful film"]
)
def test_few_words_down_to_one_equal_the_mean_over_all_orders(text: str) -> None:
    model = load_model(interacting, labels=("negative", "positive"))
    (found,) = KernelShap(scale="probability").explain(model, [text], ["positive"])
    n = len(text.split())
    assert found.units.texts == tuple(text.split())
    np.testing.assert_allclose(found.array, by_permutations(text_game(text, interacting), n), atol=1e-9)


@pytest.mark.parametrize("text", ["wonderful", "dull plot", "a warm film"])
def test_one_two_and_three_words_of_a_transformer(text: str) -> None:
    model = text_model("roberta")
    (found,) = KernelShap(evaluations=2).explain(model, [text])
    game = masked_game(model, text, found.target.index, "logit")
    np.testing.assert_allclose(found.array, by_permutations(game, len(found.units)), atol=1e-5)
    assert found.details["base_value"] == pytest.approx(game[frozenset()], abs=1e-5)


def test_the_two_definitions_agree() -> None:
    game = text_game("not good but wonderful film", interacting)
    np.testing.assert_allclose(by_subsets(game, 5), by_permutations(game, 5), atol=1e-12)


def test_the_error_falls_as_evaluations_grow() -> None:
    model = load_model(interacting, labels=("negative", "positive"))
    n = len(INTERACTING.split())
    exact = by_subsets(text_game(INTERACTING, interacting), n)
    errors = []
    for evaluations in (40, 160, 640, (1 << n) - 2):
        runs = [
            KernelShap(evaluations=evaluations, seed=seed).explain(model, [INTERACTING], [1])[0].array
            for seed in range(6)
        ]
        errors.append(float(np.mean([np.abs(run - exact).mean() for run in runs])))
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[2] < errors[0] / 3
    assert errors[3] < 1e-9


@pytest.mark.parametrize("evaluations", [2, 30, 300])
@pytest.mark.parametrize("absence", ["mask", "delete", "token:unk"])
def test_the_base_value_is_the_models_answer_without_any_word(absence: str, evaluations: int) -> None:
    model = text_model("bert")
    (found,) = KernelShap(evaluations=evaluations, absence=absence).explain(model, [TEXTS[1]])
    inputs = encoded(model, TEXTS[1])
    keeps = special(model, TEXTS[1])
    if absence == "delete":
        inputs = {name: given[:, keeps] for name, given in inputs.items()}
    else:
        tokens = {"mask": model.tokenizer.mask_token_id, "token:unk": model.tokenizer.unk_token_id}
        inputs["input_ids"] = torch.where(keeps, inputs["input_ids"], torch.tensor(tokens[absence]))
    empty = value(model, found.target.index, **inputs)
    full = value(model, found.target.index, **encoded(model, TEXTS[1]))
    assert found.details["base_value"] == pytest.approx(empty, abs=1e-5)
    assert sum(found.scores) == pytest.approx(full - empty, abs=1e-5)


def test_both_fits_agree_when_all_coalitions_are_known() -> None:
    model = text_model("bert")
    smooth, linear = (
        KernelShap(evaluations=254, fit=fit).explain(model, [TEXTS[0]])[0] for fit in ("smooth", "linear")
    )
    assert smooth.scores == linear.scores
    assert smooth.errors == (0.0,) * len(smooth.scores)
    assert smooth.details["max_standard_error"] == 0.0


@pytest.mark.parametrize("fit", ["smooth", "linear"])
def test_the_errors_of_a_transformers_values_are_as_large_as_it_says(fit: str) -> None:
    model = text_model("bert")
    text = "a truly unforgettable film, warm heart and dull plot"
    (exact,) = KernelShap(evaluations=2**10).explain(model, [text])
    assert 9 <= len(exact.units) <= 10
    runs = [KernelShap(evaluations=60, fit=fit, seed=seed).explain(model, [text])[0] for seed in range(20)]
    off = np.mean([(run.array - exact.array) ** 2 for run in runs])
    said = np.mean([np.square(run.errors) for run in runs])
    assert 0.5 < np.sqrt(off / said) < 2
    for run in runs[:3]:
        assert run.details["max_standard_error"] == pytest.approx(max(run.errors))
        assert run.details["mean_standard_error"] == pytest.approx(np.mean(run.errors))


def test_it_stops_at_the_wanted_precision_and_says_what_it_took() -> None:
    model = load_model(interacting, labels=("negative", "positive"))
    long = INTERACTING + " and then not dull but warm"
    texts = [INTERACTING, "not good", long]
    loose = KernelShap(evaluations=1500, tolerance=0.03)
    with metered() as meter:
        found = loose.explain(model, texts, [1, 1, 1])
    declared = [loose.cost(one.units).forwards for one in found]
    assert sum(one.cost.forwards for one in found) == meter.forwards
    assert found[2].cost.forwards < declared[2] / 2
    assert all(one.cost.forwards <= most for one, most in zip(found, declared, strict=True))
    assert max(found[2].errors) <= 0.03
    (tight,) = KernelShap(evaluations=1500, tolerance=0.003).explain(model, [long], [1])
    assert found[2].cost.forwards < tight.cost.forwards
    (alone,) = loose.explain(model, [long], [1])
    assert alone.scores == found[2].scores  # rounds do not depend on the batch
    (never,) = KernelShap(evaluations=100, tolerance=0.0).explain(model, [long], [1])
    (plain,) = KernelShap(evaluations=100).explain(model, [long], [1])
    assert never.scores == pytest.approx(plain.scores)
    assert never.cost.forwards == plain.cost.forwards
