"""KernelSHAP against Shapley values from their definition, and its sampling against the kernel."""

from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
import pytest
import torch

from didact.attribution.kernel_shap import KernelShap
from didact.models.load import load_model
from didact.models.text import TextModel
from didact.ops.coalitions import shapley_samples
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


def masked_game(model: TextModel, text: str, index: int, scale: str) -> Game:
    """The model's answer for every subset of words, the others replaced by the mask token."""
    units = model.units([Example(text)])[0]
    inputs = encoded(model, text)
    ids = inputs.pop("input_ids")[0]
    players = subsets(len(units))
    absent = [set(range(len(units))) - kept for kept in players]
    mask = torch.tensor(model.tokenizer.mask_token_id)
    rows = torch.stack([torch.where(without(units, gone, len(ids)), ids, mask) for gone in absent])
    with torch.no_grad():
        logits = model.hf(rows, **{name: given.expand(len(rows), -1) for name, given in inputs.items()}).logits
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
    (found,) = KernelShap(samples=254, scale=scale).explain(model, [text])
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
    (found,) = KernelShap(samples=2).explain(model, [text])
    game = masked_game(model, text, found.target.index, "logit")
    np.testing.assert_allclose(found.array, by_permutations(game, len(found.units)), atol=1e-5)
    assert found.details["base_value"] == pytest.approx(game[frozenset()], abs=1e-5)


def test_the_two_definitions_agree() -> None:
    game = text_game("not good but wonderful film", interacting)
    np.testing.assert_allclose(by_subsets(game, 5), by_permutations(game, 5), atol=1e-12)


def test_the_error_falls_as_samples_grow() -> None:
    model = load_model(interacting, labels=("negative", "positive"))
    n = len(INTERACTING.split())
    exact = by_subsets(text_game(INTERACTING, interacting), n)
    errors = []
    for samples in (40, 160, 640, (1 << n) - 2):
        runs = [KernelShap(samples=samples, seed=seed).explain(model, [INTERACTING], [1])[0].array for seed in range(6)]
        errors.append(float(np.mean([np.abs(run - exact).mean() for run in runs])))
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[2] < errors[0] / 3
    assert errors[3] < 1e-9


@pytest.mark.parametrize("samples", [2, 30, 300])
@pytest.mark.parametrize("absence", ["mask", "delete", "token:unk"])
def test_the_base_value_is_the_models_answer_without_any_word(absence: str, samples: int) -> None:
    model = text_model("bert")
    (found,) = KernelShap(samples=samples, absence=absence).explain(model, [TEXTS[1]])
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


def kernel(n: int, size: int) -> float:
    """Shapley kernel of one coalition (Lundberg and Lee 2017, theorem 2)."""
    return (n - 1) / (comb(n, size) * size * (n - size))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_with_room_for_all_every_coalition_has_its_kernel_weight(n: int) -> None:
    rows, weights = shapley_samples(n, 2**n - 2, np.random.default_rng(0))
    assert {tuple(row) for row in rows} == {
        tuple(i in kept for i in range(n)) for kept in subsets(n) if 0 < len(kept) < n
    }
    assert len(rows) == 2**n - 2
    np.testing.assert_allclose(weights, [kernel(n, int(row.sum())) for row in rows], rtol=1e-12)


@pytest.mark.parametrize(("n", "samples"), [(9, 100), (10, 60), (12, 24), (12, 200), (12, 1001), (30, 500)])
@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_coalitions(n: int, samples: int, seed: int) -> None:
    rows, weights = shapley_samples(n, samples, np.random.default_rng(seed))
    sizes = rows.sum(axis=1)
    held = {row.tobytes() for row in rows}
    assert len(held) == len(rows) <= samples
    assert all((~row).tobytes() in held for row in rows)  # every coalition with its complement
    assert sizes.min() > 0
    assert sizes.max() < n
    assert (weights > 0).all()
    left = samples
    for size in range(1, n // 2 + 1):
        both = sorted({size, n - size})
        needed = sum(comb(n, s) for s in both)
        if needed > left:
            break
        left -= needed
        for s in both:  # enumerated: all there, with exact weight
            assert (sizes == s).sum() == comb(n, s)
            np.testing.assert_allclose(weights[sizes == s], kernel(n, s), rtol=1e-12)
    else:
        pytest.fail("everything fits, nothing was drawn")
    drawn = (sizes >= size) & (sizes <= n - size)
    rest = sum(comb(n, s) * kernel(n, s) for s in range(size, n - size + 1))
    if left >= 2:
        assert weights[drawn].sum() == pytest.approx(rest, rel=1e-12)
    else:
        assert not drawn.any()


def test_drawn_sizes_follow_the_kernel() -> None:
    n, seeds = 12, 60
    mass = np.zeros(n + 1)
    for seed in range(seeds):  # sizes 1 and 11 are enumerated, the others drawn
        rows, weights = shapley_samples(n, 80, np.random.default_rng(seed))
        np.add.at(mass, rows.sum(axis=1), weights / seeds)
    expected = [comb(n, s) * kernel(n, s) for s in range(2, n - 1)]
    np.testing.assert_allclose(mass[2 : n - 1], expected, rtol=0.15)
