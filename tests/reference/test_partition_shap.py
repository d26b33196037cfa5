"""PartitionSHAP against Owen values: the mean over all orders in which groups arrive together."""

from itertools import product

import numpy as np
import pytest

from didact.attribution.partition_shap import PartitionShap
from didact.meter import metered
from didact.models.load import load_model
from didact.testing.tiny import TEXTS
from tests.reference.plain import text_model
from tests.reference.test_kernel_shap import (
    INTERACTING,
    Game,
    by_permutations,
    interacting,
    masked_game,
    text_game,
)

Tree = int | tuple["Tree", "Tree"]


def halved(units: list[int]) -> Tree:
    """Cut in two, the first part the larger one, down to single units."""
    if len(units) == 1:
        return units[0]
    middle = (len(units) + 1) // 2
    return halved(units[:middle]), halved(units[middle:])


def arrivals(tree: Tree) -> list[list[int]]:
    """All orders in which the units of every group stay together."""
    if isinstance(tree, int):
        return [[tree]]
    first, second = arrivals(tree[0]), arrivals(tree[1])
    pairs = list(product(first, second))
    return [a + b for a, b in pairs] + [b + a for a, b in pairs]


def owen(game: Game, tree: Tree, n: int) -> np.ndarray:
    """Average contribution over those orders."""
    found, orders = np.zeros(n), arrivals(tree)
    for order in orders:
        for place, player in enumerate(order):
            found[player] += game[frozenset(order[: place + 1])] - game[frozenset(order[:place])]
    return found / len(orders)


def black_box() -> object:
    return load_model(interacting, labels=("negative", "positive"))


@pytest.mark.parametrize("text", ["good", "not good", "not good warm", "dull but not worse", INTERACTING])
def test_with_room_for_all_games_the_values_are_owens(text: str) -> None:
    (found,) = PartitionShap().explain(black_box(), [text], ["positive"])
    n = len(text.split())
    game = text_game(text, interacting)
    np.testing.assert_allclose(found.array, owen(game, halved(list(range(n))), n), atol=1e-9)
    assert found.details["unshared"] == 0
    if n < 3:
        np.testing.assert_allclose(found.array, by_permutations(game, n), atol=1e-9)


def test_owen_values_of_a_transformer() -> None:
    model = text_model("bert")
    (found,) = PartitionShap(scale="probability").explain(model, [TEXTS[0]])
    n = len(found.units)
    game = masked_game(model, TEXTS[0], found.target.index, "probability")
    np.testing.assert_allclose(found.array, owen(game, halved(list(range(n))), n), atol=1e-5)


@pytest.mark.parametrize("evaluations", [2, 6, 20, 60])
def test_with_fewer_the_scores_still_add_up_and_groups_share(evaluations: int) -> None:
    method = PartitionShap(evaluations=evaluations)
    with metered() as meter:
        (found,) = method.explain(black_box(), [INTERACTING], [1])
    game = text_game(INTERACTING, interacting)
    everything = max(game, key=len)
    assert sum(found.scores) == pytest.approx(game[everything] - game[frozenset()], abs=1e-9)
    assert meter.forwards == meter.evaluated == method.cost(found.units).forwards == evaluations + 3
    n = len(found.units)
    left = owen(game, halved(list(range(n))), n)[: (n + 1) // 2].sum()
    assert found.array[: (n + 1) // 2].sum() == pytest.approx(left, abs=1e-9)  # the first game decides the halves
    if evaluations == 2:
        assert len(set(np.round(found.array, 12))) == 2


def test_the_error_falls_as_evaluations_grow() -> None:
    game = text_game(INTERACTING, interacting)
    n = len(INTERACTING.split())
    truth = owen(game, halved(list(range(n))), n)
    found = [PartitionShap(evaluations=s).explain(black_box(), [INTERACTING], [1])[0] for s in (4, 16, 40, 500)]
    errors = [float(np.abs(one.array - truth).sum()) for one in found]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 1e-9
    assert all(one.details["unshared"] > 0 for one in found[:3])


def test_the_texts_of_a_pair_are_the_first_groups() -> None:
    model = text_model("bert", inputs="pair")
    pair = ("good food", "the bill was too high")
    (found,) = PartitionShap(evaluations=2).explain(model, [pair])
    fields = np.array([span.field for span in found.units.spans])
    for field in (0, 1):
        assert len(set(np.round(found.array[fields == field], 12))) == 1
