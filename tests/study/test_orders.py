"""Orders are balanced, blind and the same for the same seed."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.orders import balanced_orders, williams_square
from didact.study.plan import planned
from didact.study.simulated import made_up_explanations


@pytest.mark.parametrize("size", range(2, 9))
def test_everything_stands_everywhere_and_after_everything_equally_often(size: int) -> None:
    square = williams_square(size)
    places = Counter((place, thing) for row in square for place, thing in enumerate(row))
    follow = Counter(pair for row in square for pair in pairwise(row))
    assert len(places) == size * size
    assert len(follow) == size * (size - 1)
    assert len(set(places.values())) == len(set(follow.values())) == 1


@pytest.mark.parametrize("size", [3, 4, 5])
def test_any_number_of_orders_is_balanced_up_to_one_square(size: int) -> None:
    orders = balanced_orders("ABCDE"[:size], 10 * size, np.random.default_rng(0))
    places = Counter((place, thing) for order in orders for place, thing in enumerate(order))
    assert set(places.values()) == {10}


def rank_design(**settings: object) -> tuple[StudyDesign, StudyMaterial]:
    design = StudyDesign(protocol="rank", explainers=("lime", "attention", "random"), **settings)  # type: ignore[arg-type]
    return design, StudyMaterial.chosen(made_up_explanations(("lime", "attention"), 40), design)


def test_a_rater_ranks_every_item_once_and_repeats_come_later() -> None:
    design, material = rank_design(items=24, repeats=5, check_every=6)
    for number in range(4):
        pages = planned(design, material, number, "")
        main = [page.item for page in pages if page.phase == "main"]
        assert sorted(main) == sorted(material.items)
        first = {page.item: at for at, page in enumerate(pages) if page.phase == "main"}
        again = [(page, at) for at, page in enumerate(pages) if page.phase == "repeat"]
        assert len(again) == 5
        assert all(at > first[page.item] + 1 for page, at in again)
        assert sum(page.phase == "attention" for page in pages) == 29 // 6
    orders = [
        [page.item for page in planned(design, material, number, "") if page.phase == "main"] for number in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert planned(design, material, 3, "") == planned(design, material, 3, "")


def test_tests_before_and_after_have_the_same_items_and_learning_has_others() -> None:
    design = StudyDesign(protocol="simulate", explainers=("lime", "random"), items=8, learning=5, practice=2)
    material = StudyMaterial.chosen(made_up_explanations(("lime",), 40), design)
    pages = planned(design, material, 0, "lime")
    by_phase = {
        phase: {page.item for page in pages if page.phase == phase} for phase in ("practice", "pre", "learn", "post")
    }
    assert by_phase["pre"] == by_phase["post"]
    assert [len(by_phase[phase]) for phase in ("practice", "pre", "learn")] == [2, 8, 5]
    assert len(by_phase["pre"] | by_phase["learn"] | by_phase["practice"]) == 15
    assert {page.order for page in pages if page.phase == "learn"} == {("lime",)}
    assert {page.order for page in planned(design, material, 1, "none") if page.phase == "learn"} == {()}
    predicted = Counter(material.predicted(item) for item in by_phase["pre"])
    assert set(predicted.values()) == {4}
