"""A third party's package adds one thing of every family, each in one file, and they work with ours and together."""

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.cli import main
from didact.experiments.engine.kinds import RECIPES
from didact.metrics.base import METRICS
from didact.models.heads.base import HEADS
from didact.models.network import NetworkModel
from didact.models.readers.base import READERS
from didact.protocols import Evidence
from didact.registry import Registry
from didact.store import records
from didact.students.base import CHANNELS, STUDENTS
from didact.students.matching import reaches, reaching
from didact.testing import channels, conformance, learned, metrics, models, recipes, students
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SIGNALS
from tests.third_party.images import RedNetwork, planted
from tests.third_party.installed import SITE, installed

TOYS: dict[str, Registry] = {  # type: ignore[type-arg]
    "toy_method": ATTRIBUTIONS,
    "toy_metric": METRICS,
    "toy_reader": READERS,
    "toy_head": HEADS,
    "toy_student": STUDENTS,
    "toy_channel": CHANNELS,
    "toy_shape": SHAPES,
    "toy_signal": SIGNALS,
    "toy_recipe": RECIPES,
}
LISTS = {
    "methods": "toy_method",
    "metrics": "toy_metric",
    "students": "toy_student",
    "channels": "toy_channel",
    "shapes": "toy_shape",
    "signals": "toy_signal",
    "recipes": "toy_recipe",
}
SCORER = {"width": 16, "blocks": 1, "min_count": 1}
IMAGES = [planted(patch) for patch in (0, 4, 7)]


@pytest.fixture(scope="module", autouse=True)
def toybox() -> Iterator[None]:
    with installed():
        yield


def image_model() -> NetworkModel:
    network = RedNetwork()
    return NetworkModel(network, READERS.get("toy_reader")(network), HEADS.get("toy_head")())  # type: ignore[call-arg]


with installed():  # the rows of the tests below; the classes themselves are taken from the registries in the tests
    METHOD = [
        (case, n) for case in conformance.CASES for n in conformance.applicable(ATTRIBUTIONS.card("toy_method"), case)
    ]
    METRIC = [(case, n) for case in metrics.CASES for n in metrics.applicable(METRICS.card("toy_metric"), case)]
    MODEL = models.applicable(image_model())
    STUDENT = students.applicable(STUDENTS.card("toy_student"))
    CHANNEL = channels.applicable(CHANNELS.get("toy_channel")())
    REACHING = reaching(STUDENTS.card("toy_student"))
    REACHED = [name for name in STUDENTS.names() if reaches(CHANNELS.card("toy_channel"), STUDENTS.card(name))]
    LEARNED = [("toy_shape", "regression", "bert"), ("scorer", "toy_signal", "black_box")]
    FITTING = [n for n in SIGNALS.names() if learned.fits(SHAPES.card("toy_shape"), SIGNALS.card(n), "bert")]


# Every thing is found through its entry point.


@pytest.mark.parametrize("name", TOYS)
def test_it_is_found_by_its_registry(name: str) -> None:
    registry = TOYS[name]
    assert name in registry.names()
    assert registry.get(name).__module__ == f"toybox.{name}"
    assert registry.card(name).name == name
    assert name in [card.name for card in registry.cards()]


def test_each_is_one_file() -> None:
    entries = {(entry.group, entry.name, entry.value) for entry in distribution("toybox").entry_points}
    assert entries == {(registry.group, name, f"toybox.{name}") for name, registry in TOYS.items()}
    assert {path.stem for path in (SITE / "toybox").glob("*.py")} == {*TOYS, "__init__"}


@pytest.mark.parametrize(("what", "name"), LISTS.items())
def test_it_is_listed(what: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", what, "--format", "json"])
    assert name in [row["name"] for row in json.loads(capsys.readouterr().out)]


def test_the_list_of_students_has_its_channel(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "students", "--format", "json"])
    rows = {row["name"]: row["channels"] for row in json.loads(capsys.readouterr().out)}
    assert rows["toy_student"] == ["attention", "labelling", "toy_channel"]
    assert "toy_channel" in rows["transformer"]


# Every thing passes its whole suite.


@pytest.mark.parametrize(("case", "name"), METHOD)
def test_the_method_conforms(case: str, name: str) -> None:
    conformance.check(name, ATTRIBUTIONS.get("toy_method")(), case)


@pytest.mark.parametrize(("case", "name"), METRIC)
def test_the_metric_conforms(case: str, name: str) -> None:
    metrics.check(name, METRICS.get("toy_metric")(), case)


@pytest.mark.parametrize("name", MODEL)
def test_reader_and_head_conform(name: str) -> None:
    models.check(name, image_model(), IMAGES)


def test_no_check_of_models_is_left_out_but_that_of_heads_which_its_network_has_not() -> None:
    assert set(MODEL) == set(models.CHECKS) - {"heads_score_every_unit"}


@pytest.mark.parametrize("name", STUDENT)
def test_the_student_conforms(name: str) -> None:
    students.check(name, STUDENTS.get("toy_student")())


@pytest.mark.parametrize("name", CHANNEL)
def test_the_channel_conforms(name: str) -> None:
    channels.check(name, CHANNELS.get("toy_channel")())


@pytest.mark.parametrize("name", learned.CHECKS)
@pytest.mark.parametrize(("shape", "signal", "case"), LEARNED)
def test_shape_and_signal_conform(shape: str, signal: str, case: str, name: str) -> None:
    settings = SCORER if shape == "scorer" else None
    learned.check(name, SHAPES.get(shape), SIGNALS.get(signal), case, settings=settings)


@pytest.mark.parametrize("name", recipes.CHECKS)
def test_the_kind_of_recipe_conforms(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "toy_recipe"
    recipes.check(name, RECIPES.get("toy_recipe")(), {"numbers": [1, 2, 3]}, folder)


# They work with ours, and together.


def test_the_method_explains_the_image_model_and_the_metric_grades_it() -> None:
    model = image_model()
    explanations = ATTRIBUTIONS.get("toy_method")().explain(model, IMAGES)
    assert [int(np.argmax(explanation.scores)) for explanation in explanations] == [0, 4, 7]
    metric = METRICS.get("toy_metric")()
    grades = metric.measure(Evidence(explanations, model))
    chance = metric.measure(Evidence(ATTRIBUTIONS.get("random")(seed=3).explain(model, IMAGES), model))
    assert np.mean([grade.value for grade in grades]) > np.mean([grade.value for grade in chance]) + 0.1


def test_the_channel_reaches_our_students_and_ours_the_student() -> None:
    assert REACHED == ["bilstm_attention", "toy_student", "transformer", "vision_transformer"]
    assert REACHING == ["attention", "labelling", "toy_channel"]


@pytest.mark.parametrize("name", students.WITH_HINTS)
@pytest.mark.parametrize(
    ("student", "channel"),
    [*((student, "toy_channel") for student in REACHED), *(("toy_student", name) for name in REACHING[:-1])],
)
def test_channels_train_students(student: str, channel: str, name: str) -> None:
    students.check(name, students.small(STUDENTS.get(student)), CHANNELS.get(channel)())


QUICK: Mapping[str, Mapping[str, object]] = {
    "scaffold": {"students": 2, "examples": 8, "batch": 8, "outer_batch": 8, "resets": 40, "inner_rate": 0.02}
}
"""Settings that make a signal quick."""


@pytest.mark.parametrize("signal", FITTING)
def test_the_shape_learns_from_every_signal_that_fits(signal: str) -> None:
    made = SHAPES.get("toy_shape"), SIGNALS.get(signal)
    learned.check("learns", *made, "bert", signal_settings=QUICK.get(signal))


def test_both_signals_fit() -> None:
    assert {"regression", "toy_signal"} <= set(FITTING)


def test_the_recipe_runs_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "squares.toml"
    path.write_text('kind = "toy_recipe"\nnumbers = [2, 3]\n', encoding="utf-8")
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "square" in capsys.readouterr().out
    rows = records.from_table(records.read(tmp_path / "out" / "records.parquet"))
    assert {row.example: row.value for row in rows} == {"2": 4.0, "3": 9.0}


GRADING = """
explainers = ["toy_method"]
metrics = ["toy_metric"]
data = { source = "corpus", limit = 2 }
"""
SIMULABILITY = """
kind = "simulability"
explainers = ["toy_method"]
students = ["toy_student"]
channels = ["toy_channel"]
controls = []
metrics = ["toy_metric"]
sizes = [8]
subsets = 2
data = { source = "corpus", limit = 20 }
test = { source = "corpus", limit = 10, seed = 1 }
"""


@pytest.mark.parametrize("recipe", [GRADING, SIMULABILITY], ids=["grading", "simulability"])
def test_our_recipes_take_them_by_name(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(recipe, encoding="utf-8")
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    capsys.readouterr()
    rows = records.from_table(records.read(tmp_path / "out" / "records.parquet"))
    assert "toy_method" in {row.method for row in rows}
    named = {row.metric for row in rows} if recipe == GRADING else {row.student for row in rows}
    assert named & {"toy_metric", "toy_student"}
