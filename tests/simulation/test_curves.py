"""Learning curves: tests during training, their area, and the epoch that validation texts choose."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.simulation.curves import best_point, points
from didact.simulation.execution import simulate
from didact.simulation.gains import compute_gains, known_metrics
from didact.simulation.simulability import NONE, Execution, Plan, Setting, Simulation, WeightedChannel
from didact.stats.curves import area
from didact.students.base import CHANNELS, STUDENTS, CurvePoint, LabelledExample, StudentOutcome
from didact.types import Example
from tests.students.toys import Tally, Words, simulability_data

EPOCHS = (2, 4, 5)
LSTM = STUDENTS.get("bilstm_attention").configured(
    embedding=8, hidden=8, epochs=5, learning_rate=0.03, batch_size=8, min_count=1
)
ATTENTION = {"attention": WeightedChannel(CHANNELS.get("attention")())}
PLAN = Plan(sizes=(40,), subsets=3, curve=2)
SETTING = Setting("lstm", "attention", 40)
taught = partial(simulate, students={"lstm": LSTM}, channels=ATTENTION)


class Notebook(dict[str, StudentOutcome]):
    """A memory that lasts as long as the test."""

    def put(self, key: str, outcome: StudentOutcome) -> None:
        self[key] = outcome


@pytest.fixture(scope="module")
def memory() -> Notebook:
    return Notebook()


@pytest.fixture(scope="module")
def learned(memory: Notebook) -> Simulation:
    return taught(simulability_data(test=60), plan=PLAN, execution=Execution(memory=memory))


def test_a_curve_has_a_score_for_every_student_point_and_text(learned: Simulation) -> None:
    curves = learned.curves
    assert curves.epochs == {SETTING: EPOCHS}
    assert curves.steps == {SETTING: (10, 20, 25)}
    for method, matrix in curves.scores[SETTING].items():
        assert matrix.shape == (3, 3, 60)
        assert np.array_equal(matrix[:, -1], learned.scores[SETTING][method])
    assert curves.means(SETTING, "oracle").shape == (3, 3)


def test_a_curve_does_not_change_what_is_learned(learned: Simulation) -> None:
    plain = taught(simulability_data(test=60), plan=Plan(sizes=(40,), subsets=3))
    assert plain.curves.scores == {}
    for method, matrix in plain.scores[SETTING].items():
        assert np.array_equal(matrix, learned.scores[SETTING][method])


def test_the_area_is_the_mean_over_the_epochs(learned: Simulation) -> None:
    gains = {gain.method: gain for gain in compute_gains(learned, "area").gains}
    for method, matrix in learned.curves.scores[SETTING].items():
        first, second, third = matrix.mean((0, 2))
        by_hand = (2 * (first + second) / 2 + (second + third) / 2) / 3
        assert gains[method].score == pytest.approx(by_hand)
    assert gains["oracle"].gain == pytest.approx(gains["oracle"].score - gains[NONE].score)
    assert gains["oracle"].low < gains["oracle"].gain < gains["oracle"].high
    assert compute_gains(learned, "area").gains != compute_gains(learned).gains


def test_outcomes_with_curves_are_stored_and_read(learned: Simulation, memory: Notebook) -> None:
    stored = len(memory)
    again = taught(simulability_data(test=60), plan=PLAN, execution=Execution(memory=memory))
    assert len(memory) == stored == 9
    assert np.array_equal(again.curves.scores[SETTING]["oracle"], learned.curves.scores[SETTING]["oracle"])
    taught(
        simulability_data(test=60),
        plan=Plan(sizes=(40,), subsets=1, curve=1),
        execution=Execution(memory=memory, enough=lambda: len(memory) > stored),
    )
    assert len(memory) > stored, "a finer curve is another outcome"


def test_validation_texts_choose_the_end(learned: Simulation) -> None:
    data = simulability_data(test=60)
    plan = Plan(sizes=(40,), subsets=3, curve=2, choose="best")
    # Chosen by the test texts themselves, the end is the best point of every student.
    chosen = taught(simulability_data(test=60, validation=data.test), plan=plan)
    for method, matrix in chosen.scores[SETTING].items():
        assert np.array_equal(chosen.curves.scores[SETTING][method], learned.curves.scores[SETTING][method])
        assert matrix.mean(1) == pytest.approx(learned.curves.means(SETTING, method).max(1))
    with pytest.raises(InputError, match="chosen by validation texts, and none were given"):
        taught(data, plan=plan)


def test_the_best_point_is_the_earliest_of_equals_and_numbers_are_compared_by_correlation() -> None:
    classes = [LabelledExample(Example("a"), 1), LabelledExample(Example("b"), 0)]
    curve = [CurvePoint(epoch, epoch, np.array(own)) for epoch, own in ((1, [0, 0]), (2, [1, 0]), (3, [1, 0]))]
    assert best_point(curve, classes, "class", "accuracy") == 1
    numbers = [LabelledExample(Example(text), float(value)) for text, value in zip("abc", (1, 2, 4), strict=True)]
    answers = ([5.0, 5.0, 5.0], [1.0, 2.0, 2.1], [10.0, 20.0, 40.0])  # no correlation, near, exactly proportional
    line = [CurvePoint(epoch, epoch, np.array(own)) for epoch, own in enumerate(answers)]
    assert best_point(line, numbers, "number", "squared_error") == 2


def test_students_of_numbers_have_areas_of_correlation_and_error() -> None:
    data = simulability_data(test=60)
    pool, test = (
        [LabelledExample(item.example, float(len(item.example.text))) for item in items]
        for items in (data.pool, data.test)
    )
    found = taught(dataclasses.replace(data, pool=pool, test=test, kind="number", outputs=1, metric=""), plan=PLAN)
    truth = [item.answer for item in test]
    assert known_metrics(found) == ["squared_error", "pearson", "rmse", "area", "pearson_area", "rmse_area"]
    answers = found.curves.answers[SETTING]["oracle"]
    by_hand = area(
        np.array([[np.corrcoef(row, truth)[0, 1] for row in student] for student in answers])[..., None], EPOCHS
    )
    rows = {gain.method: gain for gain in compute_gains(found, "pearson_area").gains}
    assert rows["oracle"].score == pytest.approx(by_hand.mean())
    errors = {gain.method: gain for gain in compute_gains(found, "area").gains}
    assert errors["oracle"].gain == pytest.approx(errors[NONE].score - errors["oracle"].score), "less error is a gain"
    with pytest.raises(ParameterError, match="unknown metric of this simulation 'f1_area'"):
        compute_gains(found, "f1_area")


def test_a_student_without_epochs_has_one_point() -> None:
    found = simulate(
        simulability_data(), {"tally": Tally()}, {"words": WeightedChannel(Words())}, Plan((20,), 3, curve=2)
    )
    setting = Setting("tally", "words", 20)
    assert found.curves.epochs[setting] == (1,)
    assert compute_gains(found, "area").gains[1].score == compute_gains(found).gains[1].score
    outcome = StudentOutcome(np.zeros(3), None, {})
    assert points(outcome)[0].answers is outcome.answers


def test_curves_that_cannot_be_are_refused() -> None:
    with pytest.raises(ParameterError, match="curve must be a number of epochs, or 0 for no curve; got -1"):
        Plan(curve=-1)
    with pytest.raises(ParameterError, match="choose='best' compares several epochs: give curve"):
        Plan(choose="best")
    with pytest.raises(ParameterError, match="unknown choice of a student's end 'worst'"):
        Plan(curve=1, choose="worst")  # type: ignore[arg-type]
    plain = Simulation({SETTING: {NONE: np.zeros((1, 2)), "lime": np.ones((1, 2))}})
    with pytest.raises(ParameterError, match="give the plan curve=1"):
        compute_gains(plain, "area")
