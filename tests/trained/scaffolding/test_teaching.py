"""Fresh students on frozen explanations: paired, stored, and better off with good explanations than with bad ones."""

import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from didact.progress import listening
from didact.simulation.simulability import NONE, WeightedChannel
from didact.store.parts import Parts
from didact.students.base import Hint
from didact.testing.learned import case_model, case_texts
from didact.trained.held_out_teaching import HeldOutTeaching
from didact.trained.scaffolding.search import ALL, HeadCandidate, HeadSearchConfig, HeadSearchResult, search_heads
from didact.trained.scaffolding.teaching import (
    FreshStudents,
    HeadTeacher,
    Taught,
    TeachingTexts,
    compared,
    on_disk,
    teach,
)
from tests.students.toys import Tally, Words, simulability_data
from tests.trained.scaffolding.schools import fresh, pointing, texts
from tests.trained.test_presets import Stop

SMALL = HeadSearchConfig(students=1, rounds=2, layers=1, sets=(2,), finalists=1, final_students=2)


def test_students_learn_more_from_hints_at_the_words_that_decide() -> None:
    data = simulability_data()
    known = TeachingTexts(data.pool, [], data.test, "class", 2)
    hints = {name: partial(chosen, data.hints[name]) for name in ("oracle", "random")}
    counting = FreshStudents(student=Tally(), channel=WeightedChannel(Words()), examples=30)
    taught = teach(known, counting, hints, students=6, seed=0)
    oracle, random, none = (taught.areas[name].mean() for name in ("oracle", "random", NONE))
    assert oracle > max(none, random) + 0.03
    assert compared(taught, "oracle", "random").verdict == "leads"
    assert compared(taught, "random", "oracle").verdict != "leads"


def chosen(hints: Sequence[Hint | None], places: Sequence[int]) -> list[Hint]:
    return [hint for place in places if (hint := hints[place]) is not None]


def test_a_student_is_the_same_whoever_is_taught_beside_it() -> None:
    known, units = texts("black_box"), texts("black_box").units
    right = {"right": pointing(units, right=True)}
    alone = teach(known, fresh(), right, students=2, seed=3)
    both = teach(known, fresh(), {"wrong": pointing(units, right=False), **right}, students=2, seed=3)
    more = teach(known, fresh(), right, students=3, seed=3)
    np.testing.assert_array_equal(alone.areas["right"], both.areas["right"])
    np.testing.assert_array_equal(alone.areas["right"], more.areas["right"][:2])
    assert alone.areas["right"].shape == (2, 20)


def test_students_learn_from_half_of_the_pool_at_most() -> None:
    """Otherwise all of them would learn from the same texts."""
    known = texts("black_box")
    assert teach(known, fresh(examples=500), {}, students=1, seed=0).examples == 20
    assert teach(known, fresh(examples=7), {}, students=1, seed=0).examples == 7


def test_hints_of_a_mix_are_what_its_explainer_gives() -> None:
    """The softmax over units of the weighted head scores, at the temperature."""
    known, model = texts(), case_model("bert")
    weights = np.random.default_rng(0).dirichlet(np.ones(8))
    teacher = HeadTeacher(model, known, fresh(), temperature=2.0)
    (scores,) = model.head_scores([known.units[5]])  # type: ignore[attr-defined]
    (hint,) = teacher.hints(weights)([5])
    expected = (torch.from_numpy(weights) @ scores.double() / 2.0).softmax(0).numpy()
    np.testing.assert_allclose(hint.weights, expected, rtol=1e-6)
    assert hint.spans == known.units[5].spans


def searched(students: FreshStudents) -> HeadSearchResult:
    teacher = HeadTeacher(case_model("bert"), texts(), students)
    return search_heads([0, 1], 4, teacher, SMALL)


def test_a_killed_search_goes_on_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole = searched(fresh())
    with listening(Stop("training students", 5)), pytest.raises(KeyboardInterrupt):
        searched(fresh(memory=on_disk(Parts(tmp_path))))
    stored = len(list(Parts(tmp_path).keys()))
    assert stored
    resumed = searched(fresh(memory=on_disk(Parts(tmp_path))))
    assert resumed.to_dict() == whole.to_dict()
    titles = Titles()
    with listening(titles):
        assert searched(fresh(memory=on_disk(Parts(tmp_path)))).to_dict() == whole.to_dict()
    assert not [title for title in titles.started if re.fullmatch(r"training \d+ students", title)]


class Titles:
    """A listener that notes what begins."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, what: str, total: int) -> None:
        self.started.append(what)

    def advance(self, steps: int) -> None: ...

    def stop(self) -> None: ...


def test_texts_without_units_teach_nothing() -> None:
    model, (examples, _) = case_model("bert"), case_texts("black_box")
    units = model.units(examples[:3])
    empty = dataclasses.replace(units[1], regions=(), positions=())
    known = TeachingTexts.of(model, [units[0], empty, units[2]], examples[3:5])
    assert [own.example for own in known.units] == [examples[0], examples[2]] == [one.example for one in known.pool]
    assert (known.kind, known.outputs) == ("class", 2)


# What the comparison says.


def made(own: float, mean: float, none: float, students: int = 6) -> HeldOutTeaching:
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 0.05, (students, 40))
    areas = {
        name: level + shared + rng.normal(0, 0.01, (students, 40))
        for name, level in {"own": own, ALL: mean, NONE: none}.items()
    }
    return compared(Taught(areas, areas, 100), "own", ALL)


@pytest.mark.parametrize(
    ("levels", "verdict", "begins"),
    [
        ((0.9, 0.8, 0.7), "leads", "Students learn faster with this explainer than without, and faster than with the"),
        (
            (0.8, 0.8, 0.7),
            "teaches",
            "Students learn faster with this explainer than without, but not significantly faster",
        ),
        ((0.7, 0.8, 0.7), "chance", "Students learn no faster with this explainer than without"),
    ],
)
def test_the_verdict_follows_the_intervals(levels: tuple[float, float, float], verdict: str, begins: str) -> None:
    result = made(*levels)
    assert result.verdict == verdict
    assert result.sentence.startswith(begins)
    assert bool(result.caution) == (verdict == "chance")
    assert result.gain == pytest.approx(levels[0] - levels[1], abs=0.01)
    assert HeldOutTeaching.from_dict(result.to_dict()) == result


def test_two_students_are_too_few_and_none_is_no_verdict() -> None:
    assert made(0.9, 0.8, 0.7, students=2).verdict == "unknown"
    assert "too few students" in made(0.9, 0.8, 0.7, students=2).caution
    assert HeldOutTeaching.unknown().sentence.startswith("No students on held-out texts")


def test_candidates_with_equal_weights_have_equal_areas() -> None:
    """Names decide nothing, and a candidate of a later round is taught to the same students."""
    teacher = HeadTeacher(case_model("bert"), texts(), fresh())
    weights = np.eye(8)[2]
    areas = teacher([HeadCandidate("a", weights), HeadCandidate("b", weights.copy())], 2, 0)
    np.testing.assert_array_equal(areas[0], areas[1])
