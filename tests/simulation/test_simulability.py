"""The protocol: crossed subsets, shared controls, memory, early stopping, and what is made of it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.models.load import load_model
from didact.simulation.execution import simulate
from didact.simulation.gains import compute_gains
from didact.simulation.simulability import (
    NONE,
    Execution,
    Plan,
    Setting,
    Simulation,
    WeightedChannel,
    teacher_answers,
)
from didact.students.base import LabelledExample, StudentOutcome
from didact.testing.tiny import tiny_model
from didact.types import Example
from tests.students.toys import Tally, Words, simulability_data

PLAN = Plan(sizes=(20, 40), subsets=4)
WAYS = {"words": WeightedChannel(Words())}
FEW, MANY = Setting("tally", "words", 20), Setting("tally", "words", 40)


class Notebook(dict[str, StudentOutcome]):
    """A memory that lasts as long as the test."""

    def put(self, key: str, outcome: StudentOutcome) -> None:
        self[key] = outcome


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Tally.calls.clear()


@pytest.fixture(scope="module")
def found() -> Simulation:
    return simulate(simulability_data(), {"tally": Tally()}, WAYS, PLAN)


def test_good_hints_gain_and_random_ones_do_not(found: Simulation) -> None:
    verdict = compute_gains(found)
    rows = {(one.size, one.method): one for one in verdict.gains}
    assert rows[20, "oracle"].helps
    assert rows[20, "oracle"].low > 0.05
    assert not rows[20, "random"].helps
    assert rows[20, "random"].control
    assert math.isnan(rows[20, NONE].gain)
    none = rows[20, NONE].score
    assert rows[20, "oracle"].gain == pytest.approx(rows[20, "oracle"].score - none)
    assert rows[20, "oracle"].normalised == pytest.approx(rows[20, "oracle"].gain / (1 - none))
    assert rows[20, "oracle"].adjusted >= rows[20, "oracle"].p
    assert verdict.ranks == {NONE: 2.0, "oracle": 1.0}  # controls are not ranked


def test_every_cell_is_one_student_on_one_text(found: Simulation) -> None:
    assert found.settings == [FEW, MANY]
    assert found.methods == ["oracle", "random"]
    for table in found.scores.values():
        assert {matrix.shape for matrix in table.values()} == {(4, 150)}
        assert set(np.unique(table["oracle"])) <= {0.0, 1.0}


def test_subsets_are_nested_crossed_and_drawn_by_their_number_alone() -> None:
    plan = Plan(sizes=(5, 9), subsets=3)
    for subset in range(3):
        assert plan.drawn(30, 5, subset).tolist() == plan.drawn(30, 9, subset).tolist()[:5]
        assert len(set(plan.drawn(30, 9, subset).tolist())) == 9
    assert plan.drawn(30, 9, 0).tolist() != plan.drawn(30, 9, 1).tolist()
    union = set().union(*(plan.drawn(30, 9, subset).tolist() for subset in range(3)))
    assert plan.used(30).tolist() == sorted(union)


def test_the_student_without_hints_is_taught_once_for_all_channels() -> None:
    ways = {
        "words": WeightedChannel(Words(strength=0.5)),
        "loud words": WeightedChannel(Words(strength=40.0), weight=2.0),
    }
    found = simulate(simulability_data(), {"tally": Tally()}, ways, Plan(sizes=(20,), subsets=3))
    assert sum(count for count, _ in Tally.calls) == 3 * (1 + 2 * 2)
    first, second = found.scores.values()
    assert np.array_equal(first[NONE], second[NONE])
    assert not np.array_equal(first["oracle"], second["oracle"])


def test_what_is_remembered_is_not_taught_again() -> None:
    memory = Notebook()
    execution = Execution(memory=memory)
    first = simulate(simulability_data(), {"tally": Tally()}, WAYS, PLAN, execution)
    taught = sum(count for count, _ in Tally.calls)
    Tally.calls.clear()
    again = simulate(simulability_data(), {"tally": Tally()}, WAYS, PLAN, execution)
    assert Tally.calls == []
    for setting in first.settings:
        for name, matrix in first.scores[setting].items():
            assert np.array_equal(matrix, again.scores[setting][name])
    simulate(simulability_data(), {"tally": Tally()}, WAYS, dataclasses.replace(PLAN, subsets=5), execution)
    assert sum(count for count, _ in Tally.calls) == taught // 4  # the fifth subset only


@pytest.mark.parametrize("what", ["student", "channel", "weight", "hint", "answer", "test", "seed"])
def test_whatever_decides_an_outcome_is_part_of_its_key(what: str) -> None:
    memory = Notebook()
    given, student, way, plan = simulability_data(), Tally(), WeightedChannel(Words()), Plan(sizes=(20,), subsets=2)
    simulate(given, {"tally": student}, {"words": way}, plan, Execution(memory=memory))
    before = set(memory)
    place = int(plan.drawn(len(given.pool), 20, 0)[0])
    if what == "student":
        student = Tally(smoothing=2.0)
    elif what == "channel":
        way = WeightedChannel(Words(strength=11.0))
    elif what == "weight":
        way = WeightedChannel(Words(), weight=1.5)
    elif what == "seed":
        plan = dataclasses.replace(plan, seed=7)
    elif what == "hint":
        hints = {name: list(told) for name, told in given.hints.items()}
        one = hints["oracle"][place]
        assert one is not None
        hints["oracle"][place] = dataclasses.replace(one, weights=one.weights[::-1].copy())
        given = dataclasses.replace(given, hints=hints)
    elif what == "answer":
        pool = list(given.pool)
        pool[place] = LabelledExample(pool[place].example, 1 - int(pool[place].answer))  # type: ignore[arg-type]
        given = dataclasses.replace(given, pool=pool)
    else:
        given = dataclasses.replace(given, test=[LabelledExample(Example("w1 dull"), 0), *given.test])
    simulate(given, {"tally": student}, {"words": way}, plan, Execution(memory=memory))
    changed = {"hint": 1, "channel": 4, "weight": 4}.get(what, 6)  # subset 0's oracle; all with hints; all
    assert len(set(memory) - before) == changed


def test_a_student_that_diverges_is_listed_and_left_out() -> None:
    found = simulate(simulability_data(), {"tally": Tally(fails_at=1)}, WAYS, Plan(sizes=(20,), subsets=4))
    assert [(one.setting, one.method, one.subset) for one in found.failures] == [
        (FEW, "oracle", 1),
        (FEW, "random", 1),
    ]
    assert np.isnan(found.scores[FEW]["oracle"][1]).all()
    verdict = compute_gains(found)
    row = next(one for one in verdict.gains if one.method == "oracle")
    assert (row.subsets, row.dropped) == (3, 1)
    assert verdict.diverged == 2
    kept = [0, 2, 3]
    difference = found.scores[FEW]["oracle"][kept].mean() - found.scores[FEW][NONE][kept].mean()
    assert row.gain == pytest.approx(difference)


def test_teaching_stops_when_intervals_are_narrow_enough() -> None:
    wide = simulate(simulability_data(), {"tally": Tally()}, WAYS, Plan(sizes=(40,), subsets=3, precision=0.5, most=9))
    assert len(wide.scores[MANY][NONE]) == 3
    narrow = simulate(
        simulability_data(), {"tally": Tally()}, WAYS, Plan(sizes=(40,), subsets=3, precision=1e-4, most=7)
    )
    assert len(narrow.scores[MANY][NONE]) == 7
    assert np.array_equal(narrow.scores[MANY]["oracle"][:3], wide.scores[MANY]["oracle"])


def test_teaching_can_be_ended_with_what_there_is() -> None:
    turns = iter([False, True])
    plan = Plan(sizes=(20, 40), subsets=3, group=3)
    found = simulate(simulability_data(), {"tally": Tally()}, WAYS, plan, Execution(enough=lambda: next(turns, True)))
    assert [count for count, _ in Tally.calls] == [3]
    assert np.isfinite(found.scores[FEW][NONE]).all()
    assert np.isnan(found.scores[FEW]["oracle"]).all()
    assert found.scores[MANY][NONE].shape[0] == 0
    assert math.isnan(compute_gains(found).gains[1].gain)


def test_groups_change_nothing_but_who_sits_together(found: Simulation) -> None:
    plan = dataclasses.replace(PLAN, group=1)
    alone = simulate(simulability_data(), {"tally": Tally()}, WAYS, plan)
    for setting in found.settings:
        for name, matrix in found.scores[setting].items():
            assert np.array_equal(matrix, alone.scores[setting][name])


def test_numbers_are_judged_by_error_and_by_correlation() -> None:
    given = simulability_data()
    numbers = [
        [LabelledExample(one.example, 2.0 * int(one.answer) - 1) for one in part] for part in (given.pool, given.test)
    ]  # type: ignore[arg-type]
    given = dataclasses.replace(given, pool=numbers[0], test=numbers[1], kind="number", outputs=1, metric="")
    found = simulate(given, {"tally": Tally()}, WAYS, Plan(sizes=(40,), subsets=4))
    assert found.metric == "squared_error"
    errors, pearson, rmse = (compute_gains(found, metric) for metric in ("", "pearson", "rmse"))
    row = {
        name: next(one for one in said.gains if one.method == "oracle")
        for name, said in (("errors", errors), ("pearson", pearson), ("rmse", rmse))
    }
    assert row["pearson"].gain > 0
    assert row["rmse"].gain == pytest.approx(
        next(one for one in rmse.gains if one.method == NONE).score - row["rmse"].score
    )  # above zero is better, also for errors
    assert math.isnan(row["errors"].normalised)
    truth = np.array([float(one.answer) for one in given.test])  # type: ignore[arg-type]
    answers = found.answers[MANY]["oracle"]
    assert row["pearson"].score == pytest.approx(np.mean([np.corrcoef(one, truth)[0, 1] for one in answers]))
    with pytest.raises(ParameterError, match="metric of this simulation"):
        compute_gains(found, "accuracy")


def test_settings_that_agree_have_a_tau_of_one(found: Simulation) -> None:
    three = dataclasses.replace(
        found,
        scores={
            setting: {
                NONE: np.zeros((3, 40)),
                "a": np.ones((3, 40)),
                "b": np.zeros((3, 40)),
                "c": np.full((3, 40), 0.5),
            }
            for setting in found.settings
        },
        controls=frozenset(),
    )
    (agreement,) = compute_gains(three).agreements
    assert (agreement.tau, agreement.low, agreement.methods) == (1.0, 1.0, 3)


def test_students_imitate_what_the_model_predicts_whatever_the_label() -> None:
    model = load_model(tiny_model())
    examples = [Example("a dull film", label="positive"), Example("a warm film", label="negative")]
    taught = teacher_answers(model, examples)
    assert [one.answer for one in taught] == [one.index for one in model.predict(examples)]
    number = load_model(tiny_model(labels=("score",)))
    assert [one.answer for one in teacher_answers(number, examples)] == [
        one.outputs[0] for one in number.predict(examples)
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hints": {NONE: []}}, "students without hints"),
        ({"hints": {"lime": []}}, "lime has 0 hints for 120 training examples"),
        ({"test": []}, "0 test examples"),
    ],
)
def test_material_that_does_not_fit_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        dataclasses.replace(simulability_data(), **changes)  # type: ignore[arg-type]


def test_plans_and_students_that_cannot_be_are_refused() -> None:
    with pytest.raises(ParameterError, match="the pool has 120"):
        simulate(simulability_data(), {"tally": Tally()}, WAYS, Plan(sizes=(500,)))
    with pytest.raises(ParameterError, match="no given channel reaches the student tally"):
        simulate(simulability_data(), {"tally": Tally()}, {}, PLAN)
    with pytest.raises(ParameterError, match="cannot imitate"):
        simulate(dataclasses.replace(simulability_data(), kind="span", metric="f1"), {"tally": Tally()}, WAYS, PLAN)
    with pytest.raises(ParameterError, match="above 0"):
        WeightedChannel(Words(), weight=0.0)
    with pytest.raises(ParameterError, match="at least 2"):
        Plan(sizes=())
    hints = {"oracle": [None] * 120}
    with pytest.raises(InputError, match="has no hint for example"):
        simulate(dataclasses.replace(simulability_data(), hints=hints), {"tally": Tally()}, WAYS, PLAN)


def test_a_verdict_is_plain_json(found: Simulation, tmp_path: Path) -> None:
    import json

    plain = json.loads(json.dumps(compute_gains(found).to_dict(), allow_nan=False))
    assert {row["method"] for row in plain["gains"]} == {NONE, "oracle", "random"}
    assert plain["metric"] == "accuracy"
