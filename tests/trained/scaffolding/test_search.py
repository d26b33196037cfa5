"""Search over mixes of heads, on a made-up school in which the worth of every head is known."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from didact.errors import ParameterError
from didact.trained.scaffolding.search import (
    ALL,
    FRESH,
    HeadCandidate,
    HeadSearchConfig,
    HeadSearchResult,
    search_heads,
)
from didact.types import Floats

LAYERS, HEADS, ITEMS = [0, 1, 2, 3], 6, 50


class School:
    """Students whose learning curves depend on the mix they are taught, on their texts, and on chance.

    Heads of layer 2 are worth most, head 4 of it most of all; mixing heads 4 and 1 of it is better than either.
    """

    def __init__(self, noise: float = 0.01, failing: str = "") -> None:
        self.worth = np.repeat([0.0, 0.02, 0.08, 0.04], HEADS)
        self.worth[2 * HEADS + 4] = 0.16
        self.worth[2 * HEADS + 1] = 0.15
        self.noise, self.failing = noise, failing
        self.calls: list[tuple[list[str], int, int]] = []

    def area(self, weights: Floats) -> float:
        pair = weights[[2 * HEADS + 4, 2 * HEADS + 1]]
        return float(0.6 + weights @ self.worth + 0.2 * pair.prod())

    def __call__(self, candidates: Sequence[HeadCandidate], students: int, seed: int) -> Floats:
        self.calls.append(([one.name for one in candidates], students, seed))
        return np.stack([self.curves(one, students, seed) for one in candidates])

    def curves(self, candidate: HeadCandidate, students: int, seed: int) -> Floats:
        """The same whenever it is called; a student's texts are worth the same to all candidates."""
        own = [int(1e6 * weight) for weight in candidate.weights]
        texts = [np.random.default_rng([seed, number]).normal(0, 0.1, ITEMS) for number in range(students)]
        luck = [np.random.default_rng([seed, number, *own]).normal(0, self.noise) for number in range(students)]
        made = self.area(candidate.weights) + np.stack(texts) + np.array(luck)[:, None]
        if candidate.name == self.failing:
            made[0] = np.nan
        return np.asarray(made)


def searched(school: School, **settings: object) -> HeadSearchResult:
    return search_heads(LAYERS, HEADS, school, HeadSearchConfig.configured(**settings))


@pytest.mark.parametrize("kind", ["racing", "halving", "evolution"])
def test_every_kind_gets_near_the_best_mix(kind: str) -> None:
    school = School()
    result = searched(school, kind=kind)
    best = np.zeros(24)
    best[[2 * HEADS + 4, 2 * HEADS + 1]] = 0.5
    assert school.area(result.best.weights) > school.area(best) - 0.03
    assert school.area(result.best.weights) > school.area(np.repeat([0, 0, 1, 0], HEADS) / HEADS) + 0.05
    assert result.best.low > 0  # the interval of its gain over the mean of all heads
    assert result.best.weights.sum() == pytest.approx(1)
    assert [one.area for one in result.ranked] == sorted((one.area for one in result.ranked), reverse=True)


def test_a_race_trains_fewer_students_than_all_rounds_for_all() -> None:
    school = School()
    result = searched(school, kind="racing", rounds=4)
    all_rounds = (1 + len(LAYERS)) * 8 + 3 * HEADS * 8
    assert result.students - 5 * 6 < all_rounds / 2
    tried = {name for names, _, _ in school.calls for name in names}
    assert result.tried == len(tried)
    assert "layer 0, head 0" not in tried  # the heads of the worst layer are not tried one by one


@pytest.mark.parametrize("kind", ["racing", "halving", "evolution"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_no_more_students_are_trained_than_it_says(kind: str, rounds: int) -> None:
    config = HeadSearchConfig.configured(kind=kind, rounds=rounds, level=0.999)
    result = search_heads(LAYERS, HEADS, School(noise=10.0), config)  # nobody can be left behind for sure
    most = config.most_students(len(LAYERS), HEADS)
    assert result.students <= most
    assert kind == "racing" or result.students >= 0.8 * most


def test_the_temperature_of_the_best_heads_is_searched_too() -> None:
    school = School()
    plain = school.curves

    def sharper(candidate: HeadCandidate, students: int, seed: int) -> Floats:
        return plain(candidate, students, seed) - 0.05 * np.log2(candidate.temperature)

    school.curves = sharper  # type: ignore[method-assign]
    result = searched(school, temperatures=(0.5, 2.0))
    assert result.best.temperature == 0.5
    assert result.best.name.endswith(", temperature 0.5")
    assert result.to_dict()["ranked"][0]["temperature"] == 0.5  # type: ignore[index]
    assert searched(School(), temperatures=()).best.temperature == 1.0


def test_finalists_are_compared_on_students_that_chose_nobody() -> None:
    school = School()
    result = searched(school, seed=5, finalists=3, final_students=7)
    *explored, final = school.calls
    assert {seed for _, _, seed in explored} == {5}
    assert final[1:] == (7, 5 + FRESH)
    assert ALL in final[0]
    assert {one.name for one in result.ranked} == set(final[0])
    assert {one.students for one in result.ranked} == {7}


def test_no_heads_are_better_than_the_mean_and_nothing_is_claimed() -> None:
    """All heads are alike: whoever leads was lucky, and fresh students show it."""
    gains = []
    for seed in range(8):
        school = School(noise=0.02)
        school.worth[:] = 0.05
        school.area = lambda weights: 0.65  # type: ignore[method-assign]
        gains.append(searched(school, seed=seed).ranked)
    significant = [one for ranked in gains for one in ranked if one.name != ALL and one.low > 0]
    assert len(significant) <= 4  # of 32, at 2.5 % one-sided


def test_a_candidate_whose_student_fails_is_no_finalist() -> None:
    school = School(failing="layer 2, head 4")
    result = searched(school)
    assert "layer 2, head 4" not in {one.name for one in result.ranked}
    assert result.best.area > 0.65


def test_a_search_in_which_every_student_fails_says_so() -> None:
    school = School()
    school.area = lambda weights: np.nan  # type: ignore[method-assign]
    with pytest.raises(ParameterError, match="every student of the search failed"):
        searched(school)


def test_one_layer_alone_can_be_searched() -> None:
    school = School()
    school.worth = np.array([0.0, 0.0, 0.1])
    school.area = lambda weights: 0.6 + float(weights @ school.worth)  # type: ignore[method-assign]
    result = search_heads([5], 3, school, HeadSearchConfig())
    assert result.best.name == "layer 5, head 2"


def test_the_result_is_plain_values() -> None:
    result = searched(School(), final_students=2)
    plain = json.loads(json.dumps(result.best.to_dict()))
    assert plain["low"] is None  # two students have no interval
    assert plain["weights"] == pytest.approx(result.best.weights, abs=1e-6)
    assert json.dumps(result.to_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "racig"}, "kind of search must be 'racing' or 'halving' or 'evolution', got 'racig'"),
        ({"studnts": 2}, "unknown setting of search 'studnts'.*students"),
        ({"students": 0}, "students of search must be at least 1, got 0"),
        ({"sets": [1]}, r"sets of search are sizes of at least 2 heads, got \[1\]"),
        ({"temperatures": [0.0]}, "temperatures of search must be above 0"),
        ({"spread": 0.0}, "spread of search must be above 0"),
        ({"rounds": 1.5}, "rounds of search must be an int, got 1.5"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        HeadSearchConfig.configured(**settings)
