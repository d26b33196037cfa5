"""Explainers that are trained and then teach fresh students, from the recipe to the report and the paper's tables."""

import dataclasses
import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from didact.attribution.base import ATTRIBUTIONS
from didact.cli import main
from didact.errors import FormatError, InputError, ParameterError
from didact.experiments.engine.run import run_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.papers import smat
from didact.experiments.papers.smat_published import PLAUSIBILITY, SIMULABILITY
from didact.experiments.scaffolding.curves import drawn_curves, value_matrices
from didact.experiments.scaffolding.findings import ScaffoldingFindings, TaughtGroup, used_heads
from didact.experiments.scaffolding.recipe import ScaffoldingRecipe
from didact.experiments.scaffolding.report import heads_maps, markdown, page, report, tables
from didact.simulation.simulability import LearningCurves, Setting, Simulation
from didact.students.base import CHANNELS, STUDENTS

RECIPES = Path(__file__).resolve().parents[3] / "recipes" / "smat"
SMALL = """
name = "small"
tables = [1, 2]
explainers = ["gradient_norm", { method = "attention", label = "attention_all_layers", level = "token" }]
trained = [{ preset = "smat", label = "smat", search = "none", start = "layer:1", students = 0, level = "token" }]
students = ["ridge", { student = "bilstm_attention", embedding = 8, hidden = 8, epochs = 4 }]
curve = 2
choose = "best"
channels = [
  "attention",
  { channel = "prior", label = "strong", weight = 5.0 },
  { channel = "prior", label = "weak", weight = 0.2 },
]
reach = { gradient_norm = ["weak", "attention"], smat = ["strong", "attention"] }
formats = { gradient_norm = ["softmax / 0.1"] }
hints = [{ kind = "softmax" }, { kind = "softmax", temperature = 0.1 }]
sizes = [8]
subsets = 4
model = { source = "default" }
data = { source = "corpus", limit = 20 }
test = { source = "corpus", limit = 24, seed = 1 }
train = { limit = 8, seed = 2 }
validation = { limit = 4, seed = 3 }
plausibility = [{ label = "movies", source = "corpus", limit = 8, seed = 4 }]
"""
GROUP = TaughtGroup("ridge", 8)
NETWORKS = TaughtGroup("bilstm_attention", 8)


def recipe(**changes: object) -> ScaffoldingRecipe:
    return ScaffoldingRecipe.from_dict({**tomllib.loads(SMALL), **changes})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaffolding") / "small"
    assert run_recipe(recipe().on_device("cpu"), RunOptions(folder, device="cpu")).complete
    return folder


@pytest.fixture(scope="module")
def findings(run: Path) -> ScaffoldingFindings:
    return ScaffoldingFindings.read(run)


def test_every_explainer_has_students_beside_none_and_the_control(findings: ScaffoldingFindings) -> None:
    roles = {row.method: row.role for row in findings.rows[GROUP]}
    assert roles == {
        "none": "none",
        "gradient_norm": "static",
        "attention_all_layers": "static",
        "smat": "trained",
        "random": "control",
    }


def test_hints_reach_students_through_the_channels_of_their_explainer(findings: ScaffoldingFindings) -> None:
    channels = {(row.method, row.channel) for row in findings.every_row if row.group == GROUP}
    assert {("smat", "strong"), ("gradient_norm", "weak")} <= channels
    assert not {("smat", "weak"), ("gradient_norm", "strong")} & channels
    assert {channel for method, channel in channels if method == "attention_all_layers"} == {"strong", "weak"}


def test_the_channel_with_the_best_mean_counts(findings: ScaffoldingFindings) -> None:
    every = [row for row in findings.every_row if (row.group, row.method) == (GROUP, "attention_all_layers")]
    counted = findings.row(GROUP, "attention_all_layers")
    assert counted is not None
    assert len(every) == 2
    assert counted.mean("area") == max(row.mean("area") for row in every)


def test_claims_are_paired_differences_from_none_and_the_best_static_explainer(findings: ScaffoldingFindings) -> None:
    claims = [claim for claim in findings.claims if (claim.group, claim.measure) == (NETWORKS, "area")]
    rows = {row.method: row for row in findings.rows[NETWORKS]}
    static = max((row for row in rows.values() if row.role == "static"), key=lambda row: row.mean("area"))
    assert [claim.rival for claim in claims] == ["none", static.method]
    for claim in claims:
        assert claim.gain.mean == pytest.approx(rows["smat"].mean("area") - rows[claim.rival].mean("area"))
        assert claim.gain.subsets == 4


def test_the_area_is_the_mean_of_the_learning_curve(findings: ScaffoldingFindings) -> None:
    curve = next(one for one in findings.curves if (one.setting.student, one.method) == (NETWORKS.student, "smat"))
    row = findings.row(NETWORKS, "smat")
    assert row is not None
    assert curve.epochs == (2, 4)
    assert row.mean("area") == pytest.approx(np.mean(curve.means))
    assert all(low <= mean <= high for low, mean, high in zip(curve.low, curve.means, curve.high, strict=True))


def test_the_end_of_a_student_is_its_best_epoch_on_the_validation_texts(findings: ScaffoldingFindings) -> None:
    setting = next(one for one in findings.simulation.settings if one.student == NETWORKS.student)
    for method, ends in findings.simulation.scores[setting].items():
        points = findings.simulation.curves.scores[setting][method]
        assert all((end == own).all(axis=1).any() for end, own in zip(ends, points, strict=True))


def test_explainers_are_shown_in_their_own_format(findings: ScaffoldingFindings) -> None:
    formats = {arm.explainer: arm.format for arm in findings.taught.arms.values()}
    assert formats["gradient_norm"] == "softmax / 0.1"
    assert formats["smat"] == "softmax"
    assert set(findings.simulation.methods) == {"gradient_norm", "attention_all_layers", "smat", "random"}


def test_medians_and_quartiles_are_over_students(findings: ScaffoldingFindings) -> None:
    row = findings.row(GROUP, "smat")
    assert row is not None
    students = row.values["end"].mean(axis=1)
    own = row.quartiles("end")
    assert (own.low, own.median, own.high) == tuple(np.percentile(students, [25, 50, 75]))


def test_the_explainer_saw_neither_test_texts_nor_more_than_it_was_given(run: Path) -> None:
    facts = json.loads((run / "explainers.json").read_text(encoding="utf-8"))
    assert facts["training"]["texts"] == 8
    assert facts["explainers"]["smat"]["preset"] == "smat"


def test_the_weights_of_heads_are_reported_and_drawn(run: Path, findings: ScaffoldingFindings) -> None:
    ((label, layers, weights),) = heads_maps(findings)
    assert label == "smat"
    assert list(layers) == list(range(len(weights)))
    assert weights[1].sum() == pytest.approx(1)
    assert len(used_heads(findings.trainings["explainers"]["smat"])) == weights.shape[1]
    assert 'class="didact-heads"' in page(findings)
    assert "### small: smat" in smat.figure(5, smat.read(run))


def test_agreement_with_people_has_oracles_above_every_head(findings: ScaffoldingFindings) -> None:
    assert findings.rated_sides == [("movies", "all")]
    grid = np.array(findings.rated["movies"]["heads"]["all"]["heads"])
    best = findings.agreement("movies", "all", "best head")
    layer = findings.agreement("movies", "all", "best layer")
    assert best is not None
    assert layer is not None
    assert best.mean == pytest.approx(grid.max())
    assert layer.mean == pytest.approx(max(findings.rated["movies"]["heads"]["all"]["layers"]))


def test_nothing_agrees_best_with_people_without_a_significant_difference(findings: ScaffoldingFindings) -> None:
    rng = np.random.default_rng(0)
    high, low = rng.uniform(0.8, 0.9, 40), rng.uniform(0.5, 0.6, 40)
    for values, sentence in (
        ({"a": high, "b": low}, "movies, all: a agrees best with people"),
        ({"a": high, "b": low, "c": high[::-1]}, "not significantly different from c"),
    ):
        sides = {label: {"all": own.tolist()} for label, own in values.items()}
        made = dataclasses.replace(findings, rated={"movies": {"explainers": sides}})
        assert any(sentence in line for line in made.sentences), made.sentences


def test_the_report_says_what_was_measured(run: Path, findings: ScaffoldingFindings) -> None:
    titles = [title for title, _ in tables(findings)]
    assert titles == [
        "ridge, 8 training texts",
        "bilstm_attention, 8 training texts",
        "Trained explainers against the others",
        "Agreement with people",
        "Heads that are used",
    ]
    text = markdown(findings)
    assert "smat against the best static explainer" in text
    assert "best head (chosen with the labels)" in text
    assert "Learning curves" in page(findings)
    assert all(path.is_file() for path in report(run, None, Console(quiet=True)))
    drawn = (run / "curves.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert drawn.count("<polyline") >= 4


def test_the_paper_tables_show_what_was_measured_beside_the_printed_numbers(
    run: Path, findings: ScaffoldingFindings, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = smat.read(run.parent)
    row = findings.row(GROUP, "smat")
    assert row is not None
    line = next(line for line in smat.table(1, measured).splitlines() if line.startswith("| Attention (SMaT)"))
    assert "91.48 [91.40:91.56]" in line
    heads = next(line for line in smat.table(1, measured).splitlines() if line.startswith("| explainer"))
    assert heads.index("| 8: end here") < heads.index("| 500: paper") < heads.index("| 1000: paper")
    assert f"**{findings.spread(row.quartiles('end'))}**" in line
    assert main(["reproduce", "smat", "--table", "2", "--results", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "| Attention (SMaT) | 0.73 | **" in shown
    assert "| Attention (best head)\\* | 0.75 | **" in shown
    assert "Nothing was measured" in smat.table(3, measured)


def test_every_table_and_figure_can_be_shown_without_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    assert main(["reproduce", "smat"]) == 0
    shown = capsys.readouterr().out
    assert all(f"## Table {number}:" in shown for number in (*SIMULABILITY, *PLAUSIBILITY))
    assert "## Figure 5:" in shown
    with pytest.raises(ParameterError, match="table 4 cannot be reproduced"):
        smat.table(4, smat.ScaffoldingRuns(None))
    with pytest.raises(ParameterError, match="figure 3 cannot be reproduced"):
        smat.figure(3, smat.ScaffoldingRuns(None))


def test_every_recipe_can_be_read_and_every_table_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", "/nowhere")
    recipes = {path.stem: ScaffoldingRecipe.from_toml(path) for path in sorted(RECIPES.glob("*.toml"))}
    assert {number for one in recipes.values() for number in one.tables} == {*SIMULABILITY, *PLAUSIBILITY}
    assert all(number in recipes[name].tables for number, name in smat.RECIPES.items())
    for own in recipes.values():
        for registry, entries in ((STUDENTS, own.students), (CHANNELS, own.channels), (ATTRIBUTIONS, own.explainers)):
            for one in entries:
                settings = {name: value for name, value in one.settings.items() if name != "weight"}
                assert registry.get(one.name).configured(**settings)


def test_recipes_that_share_an_explainer_train_it_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", "/nowhere")
    names = ("imdb", "imdb-few", "imdb-meta", "transfer", "plausibility")
    alike = [ScaffoldingRecipe.from_toml(RECIPES / f"{name}.toml") for name in names]
    assert len({repr(one.trained[0]) for one in alike}) == 1
    for own in ("train", "validation", "model"):
        assert len({repr(getattr(one, own)) for one in alike}) == 1
    for own in ("students", "data", "test", "curve", "seed"):  # so that a student has the same curve in all of them
        assert len({repr(getattr(one, own)) for one in alike[:3]}) == 1


def test_numbers_are_compared_by_their_correlation_with_the_teacher() -> None:
    truth, rng = np.arange(10.0), np.random.default_rng(0)
    setting = Setting("s", "c", 8)
    points = {name: truth + rng.normal(0, noise, (3, 2, 10)) for name, noise in (("none", 9.0), ("smat", 1.0))}
    curves = LearningCurves({setting: (1, 3)}, {setting: (2, 6)}, {setting: points}, {setting: points})
    ends = {setting: {name: values[:, -1] for name, values in points.items()}}
    simulation = Simulation(ends, metric="squared_error", answers=ends, truth=truth, curves=curves)
    values = value_matrices(simulation, ["area", "end"])[setting]["smat"]
    wanted = np.array([[np.corrcoef(truth, point)[0, 1] for point in student] for student in points["smat"]])
    np.testing.assert_allclose(values["end"].mean(axis=1), wanted[:, -1])
    np.testing.assert_allclose(values["area"].mean(axis=1), wanted.mean(axis=1))
    drawn = {one.method: one for one in drawn_curves(simulation)}
    np.testing.assert_allclose(drawn["smat"].means, wanted.mean(axis=0))
    assert drawn["smat"].means[-1] > drawn["none"].means[-1]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no finished run of kind scaffolding"):
        smat.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trained": []}, "trained is empty"),
        ({"trained": ["smaat"]}, "smaat"),
        ({"trained": [{"preset": "aml", "epoch": 1}]}, "unknown setting of aml: 'epoch'"),
        ({"trained": [{"preset": "aml", "label": "gradient_norm"}]}, "two entries are called 'gradient_norm'"),
        ({"teacher": "human"}, "explainers are trained for a model"),
        ({"reach": {"lime": ["weak"]}}, "lime"),
        ({"reach": {"smat": ["loud"]}}, "loud"),
        ({"reach": {"smat": []}}, "has an empty list"),
        ({"formats": {"smat": ["sparse"]}}, "sparse"),
        ({"choose": "best", "curve": 1, "validation": {}}, "give \\[validation\\]"),
        ({"curve": -1}, "curve must be"),
        ({"plausibility": [{"limit": 3}]}, "source must be given"),
        ({"plausibility": [{"source": "corpus"}, {"source": "corpus"}]}, "two entries are called 'corpus'"),
        ({"train": {"splitt": "train"}}, "splitt"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        recipe(**change)


def test_texts_of_the_explainer_must_not_all_be_test_texts(tmp_path: Path) -> None:
    same = recipe(train={"limit": 24, "seed": 1})
    with pytest.raises(InputError, match=r"every text of \[train\] is a test or training text"):
        run_recipe(same.on_device("cpu"), RunOptions(tmp_path / "run", device="cpu"))
