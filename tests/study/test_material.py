"""What a study shows: any kind of item, blind, and refused where it would mislead."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didact.errors import FormatError, InputError, ParameterError
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.pages import blind, shown
from didact.study.plan import planned
from didact.study.results import study_results
from didact.study.session import Study
from didact.study.simulated import PlantedRaters, go_through, made_up_explanations
from didact.types import Box, Example, Explanation, Image, Prediction, Span, Target, Units
from tests.study.conftest import Make, codes_of


def rank(**settings: Any) -> StudyDesign:
    return StudyDesign(**({"protocol": "rank", "explainers": ("lime", "random"), "items": 4, "repeats": 1} | settings))


def explanation(scores: tuple[float, ...] = (1.0, -2.0, 0.5, 0.25), **changes: Any) -> Explanation:
    example = Example("a b c d", label="gold", rationale=[Span(0, 1)], id="secret")
    units = Units(example, "word", tuple(Span(at, at + 1) for at in (0, 2, 4, 6)), ((1,), (2,), (3,), (4,)))
    prediction = Prediction(("no", "yes"), (0.0, 1.0), (0.27, 0.73))
    made = Explanation("lime", units, scores, Target(1, "yes"), prediction, {"samples": 9}, model={"name": "m"})
    return dataclasses.replace(made, **changes)


@pytest.mark.parametrize(
    ("show", "expected", "signed"),
    [
        ("support", (1.0, 0.0, 0.5, 0.25), False),
        ("signed", (0.5, -1.0, 0.25, 0.125), True),
        ("top", (1, 0, 0, 0), False),
    ],
)
def test_a_blind_explanation_has_scores_and_nothing_else(show: Any, expected: tuple[float, ...], signed: bool) -> None:
    made = blind(explanation(), "B", show)
    assert made.scores == expected
    assert (made.method, made.signed) == ("B", signed)
    assert not made.parameters
    assert not made.model
    assert made.units.positions == ()
    assert (made.example.label, made.example.rationale, made.example.id) == (None, None, None)


def test_scores_that_are_all_zero_or_against_the_prediction_show_nothing() -> None:
    assert blind(explanation((0.0, 0.0, 0.0, 0.0)), "A", "signed").scores == (0.0, 0.0, 0.0, 0.0)
    assert blind(explanation((-1.0, -2.0, -3.0, -4.0)), "A", "support").scores == (0.0, 0.0, 0.0, 0.0)


def test_items_of_images_go_through_a_whole_study(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    examples = [Example(Image.of(rng.integers(0, 255, size=(8, 8, 3), dtype=np.uint8)), label="cat") for _ in range(4)]
    boxes = tuple(Box(x, y, x + 4, y + 4) for x in (0, 4) for y in (0, 4))
    prediction = Prediction(("cat", "dog"), (1.0, 0.0), (0.73, 0.27))
    made = [
        Explanation("occlusion", Units(each, "patch", boxes), (0.1, 0.4, -0.2, 0.0), Target(0, "cat"), prediction)
        for each in examples
    ]
    design = rank(explainers=("occlusion", "random"))
    study = Study.create(tmp_path / "s", design, StudyMaterial.chosen({"occlusion": made}, design))
    assert list(go_through(study, codes_of(study)[0], PlantedRaters(), 0))
    again = Study(study.folder)
    page = next(page for page in planned(design, again.material, 0, "") if page.phase == "main")
    view = shown(page, design, again.material)
    assert view.example is not None
    assert isinstance(view.example.fields[0], Image)
    assert view.prediction == "cat"


def test_answers_that_are_spans_and_numbers_are_shown_in_words() -> None:
    design = rank(items=2, explainers=("lime", "random"))
    number = Prediction(("score",), (0.12345,))
    for prediction, expected in ((number, "0.123"), (Prediction(("answer",), (-0.1,), (), Span(4, 7)), "c d")):
        rows = [
            dataclasses.replace(explanation(), prediction=prediction, target=Target(0, prediction.labels[0])),
            _renamed(dataclasses.replace(explanation(), prediction=prediction, target=Target(0, prediction.labels[0]))),
        ]
        material = StudyMaterial.chosen({"lime": rows}, design)
        page = next(page for page in planned(design, material, 0, "") if page.phase == "main")
        assert shown(page, design, material).prediction == expected


def _renamed(made: Explanation) -> Explanation:
    example = Example("x b c d")
    return dataclasses.replace(made, units=dataclasses.replace(made.units, example=example))


@pytest.mark.parametrize(
    ("changes", "protocol", "message"),
    [
        ({"target": Target(0, "no")}, "rank", "raters are shown explanations of the prediction"),
        ({"prediction": Prediction(("n",), (1.0,)), "target": Target(0, "n")}, "simulate", "raters predict classes"),
    ],
)
def test_explanations_that_would_mislead_are_refused(changes: dict[str, Any], protocol: Any, message: str) -> None:
    design = StudyDesign(protocol=protocol, explainers=("lime", "random"), items=2, repeats=0, learning=1)
    with pytest.raises(InputError, match=message):
        StudyMaterial.chosen({"lime": [explanation(**changes)]}, design)


def test_explanations_of_different_models_are_refused() -> None:
    other = explanation(prediction=Prediction(("no", "yes"), (1.0, 0.0), (0.73, 0.27)), target=Target(0, "no"))
    with pytest.raises(InputError, match="models that predict differently"):
        StudyMaterial.chosen({"lime": [explanation()], "shap": [other]}, rank(explainers=("lime", "shap")))


def test_classes_are_drawn_evenly_and_the_same_for_the_same_seed() -> None:
    explained = made_up_explanations(("lime",), 40)
    material = StudyMaterial.chosen(explained, rank(items=10))
    predicted = [material.predicted(item) for item in material.items]
    assert predicted.count("positive") == predicted.count("negative") == 5
    assert list(material.items) == list(StudyMaterial.chosen(explained, rank(items=10)).items)
    assert list(material.items) != list(StudyMaterial.chosen(explained, rank(items=10, seed=1)).items)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"explainers": ("lime", "lime")}, "different explainers"),
        ({"explainers": ("lime", "none")}, "'none' names the raters"),
        ({"items": 2.5}, "items must be a whole number"),
        ({"items": True}, "items must be a whole number"),
        ({"failed": 2.0}, "failed must be a share"),
        ({"consent": "x" * 20_001}, "consent may have 20,000 characters"),
    ],
)
def test_designs_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        rank(**settings)


def test_a_design_survives_the_round_trip_and_a_damaged_one_does_not() -> None:
    design = rank(title="<i>", seed=7)
    assert StudyDesign.from_dict(design.to_dict()) == design
    for name, value in (("items", "6"), ("explainers", "lime"), ("protocol", "other"), ("failed", None)):
        with pytest.raises(FormatError):
            StudyDesign.from_dict({**design.to_dict(), name: value})


def test_results_lack_a_column_where_openskill_is_missing(make_study: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study()
    for number, code in enumerate(codes_of(study)[:3]):
        list(go_through(study, code, PlantedRaters(), number))
    monkeypatch.setitem(__import__("sys").modules, "openskill.models", None)
    results = study_results(study, resamples=20)
    assert results.rank is not None
    assert not results.skill
