"""Simulations as experiments: recipes, resuming, people as teachers, reports, and the paper's tables."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import numpy as np
import pytest

import didact
from didact.checksums import sealed
from didact.cli import main
from didact.data.corpus import generate
from didact.data.dataset import Dataset
from didact.errors import DidactError, FormatError, InputError, ParameterError
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.papers import simulability
from didact.experiments.papers.agreement import averages
from didact.experiments.simulability import prepare
from didact.experiments.simulability.findings import find
from didact.experiments.simulability.job import SimulabilityJob
from didact.experiments.simulability.recipe import SimulabilityRecipe
from didact.experiments.simulability.records import from_records, to_records
from didact.experiments.simulability.report import markdown, notes, page, picture, plain, write
from didact.simulation.simulability import NONE, Failure, LearningCurves, Setting, Simulation
from didact.store import records as record_store
from didact.store.outcomes import OutcomeStore
from didact.store.parts import Parts
from didact.students.base import CHANNELS, STUDENTS, CurvePoint, StudentOutcome
from didact.testing.tiny import tiny_model
from didact.types import Example, Span
from tests.students.toys import Tally, Words

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "simulability"
SMALL: Mapping[str, Any] = {
    "name": "small",
    "students": ["tally"],
    "channels": ["words", {"channel": "words", "label": "loud", "weight": 3.0}],
    "explainers": ["gradient_x_input", "human"],
    "sizes": [8, 16],
    "subsets": 3,
    "data": {"source": "corpus", "limit": 40},
    "test": {"source": "corpus", "limit": 30, "seed": 1},
    "metrics": ["comprehensiveness"],
    "tables": [5, 6, 10],
}


SETTING = Setting("tally", "words", 8)


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    """The small student and its channel are known by name, as a third party's would be."""
    with pytest.MonkeyPatch.context() as patch:
        for registry, made in ((STUDENTS, Tally), (CHANNELS, Words)):
            patch.setitem(registry._classes, made.card.name, made)  # type: ignore[attr-defined]
            patch.setitem(registry._cards, made.card.name, made.card)  # type: ignore[attr-defined]
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return carried_out(SMALL, tmp_path_factory.mktemp("simulation") / "small")


def carried_out(recipe: Mapping[str, Any], folder: Path, *, overwrite: bool = False) -> Path:
    options = RunOptions(folder, device="cpu", command="a test", overwrite=overwrite)
    return run(prepare.prepare(SimulabilityRecipe.from_dict(recipe)), options)


def run(experiment: prepare.SimulabilityExperiment, options: RunOptions) -> Path:
    return run_job(SimulabilityJob(experiment, options)).folder


def test_every_recipe_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", "/nowhere")
    recipes = {path.stem: SimulabilityRecipe.from_toml(path) for path in sorted(RECIPES.glob("*.toml"))}
    measured = {number for recipe in recipes.values() for number in recipe.tables}
    assert measured == set(simulability.TABLES) - {7}
    assert all(table.recipe in recipes for table in simulability.TABLES.values() if table.recipe)
    for recipe in recipes.values():
        for one in recipe.students:
            assert STUDENTS.get(one.name).configured(**one.settings)
        for one in recipe.channels:
            settings = {name: value for name, value in one.settings.items() if name != "weight"}
            assert CHANNELS.get(one.name).configured(**settings)


def test_a_recipe_reads_as_it_was_written(tmp_path: Path) -> None:
    recipe = SimulabilityRecipe.from_dict(
        SMALL | {"hints": [{"share": 0.2}, {"kind": "dense", "bits": 2}], "noise": [0.0, 0.5]}
    )
    path = tmp_path / "again.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8")
    assert SimulabilityRecipe.from_toml(path) == recipe
    assert [one.label for one in recipe.hints] == ["20 %", "2 bits"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"student": ["ridge"]}, "did you mean students"),
        ({"teacher": "gold"}, "teacher must be 'model' or 'human', got 'gold'"),
        ({"task": "answers"}, "task must be .*'span'.*, got 'answers'"),
        ({"task": "span"}, "teacher = 'human'"),
        ({"students": []}, "students is empty"),
        ({"controls": ["randum"]}, "did you mean random"),
        ({"noise": [2.0]}, "noise must be a list, each a float from 0 to 1, got"),
        ({"noise": [float("nan")]}, "noise must be a list, each a float from 0 to 1, got"),
        ({"hints": [3]}, "a format is a table"),
        ({"hints": 3}, "hints must be a list"),
        ({"hints": [{"share": "x"}]}, "share must be a float, got 'x'"),
        ({"subsets": 10**12}, "subsets must be an int from 1 to 100,000"),
        ({"precision": "x"}, "precision must be a float or None, got 'x'"),
        ({"metric": "f2"}, "unknown metric 'f2'"),
        ({"students": "ridge"}, "students must be a list"),
        ({"test": {"sourse": "corpus"}}, "unknown entry 'sourse'"),
        ({"data": {"limit": 3}}, "source must be given"),
        ({"hints": [{"share": 2.0}]}, "at most 1"),
        ({"hints": [{"shares": 0.1}]}, "did you mean share"),
        ({"hints": [{"share": 0.1}, {"share": 0.1}]}, "two entries are called '10 %'"),
        ({"sizes": [1]}, "at least 2"),
        ({"students": [{"student": "transformer", "model": "$NO_SUCH_VARIABLE/x"}]}, "not set"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=told.replace("$", r"\$")):
        SimulabilityRecipe.from_dict(SMALL | change)


def test_kinds_of_recipes_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.toml"
    path.write_text('kind = "cooking"\n', encoding="utf-8")
    assert main(["run", str(path)]) == 2
    assert "unknown kind 'cooking'" in capsys.readouterr().err
    with pytest.raises(FormatError, match="kind = 'simulability'"):
        SimulabilityRecipe.from_toml(path)
    with pytest.raises(FormatError, match="no recipe of grading"):
        GradingRecipe.from_toml(path)


def test_a_run_writes_all_that_a_report_needs(finished: Path) -> None:
    found = find(finished)
    settings = [Setting("tally", channel, size) for channel in ("words", "loud") for size in (8, 16)]
    assert found.verdict.settings == settings
    arms = {"gradient_x_input", "human", "random", "trivial", "label_leak", "shuffled_positions"}
    assert set(found.simulation.methods) == arms == set(found.arms)
    assert found.simulation.controls == arms - {"gradient_x_input", "human"}
    assert found.manifest["test"]["examples"] == 30
    assert found.manifest["channels"]["loud"]["weight"] == 3.0
    assert len(found.extras["overlap"]["names"]) == 6
    assert np.allclose(np.diag(np.array(found.extras["overlap"]["matrix"], dtype=float)), 1)
    assert {one.metric for one in found.metrics} == {"comprehensiveness"}
    graded = found.extras["metrics"]["comprehensiveness"]["values"]
    assert set(graded) == arms  # controls too, though they are not ranked
    assert {one.methods for one in found.metrics} == {2}
    assert max(graded["random"], graded["shuffled_positions"]) < graded["gradient_x_input"]
    assert found.arms["human"].bits > 0


def test_lessons_are_the_models_answers_and_no_text_of_the_test_set_is_taught() -> None:
    texts = generate(20, seed=3)
    wrong = tuple(
        Example(one.text, label="positive" if one.label == "negative" else "negative") for one in texts
    )  # gold labels turned round change nothing
    data, test = Dataset("list", "all", wrong, ("negative", "positive")), Dataset("list", "test", wrong[:5])
    given = prepare.prepare(SimulabilityRecipe.from_dict(SMALL | {"explainers": ["occlusion"]}), data=data, test=test)
    asked = {one.example.fingerprint for one in given.test}
    assert not asked & {one.example.fingerprint for one in given.pool}
    assert given.model is not None
    said = given.model.predict([one.example for one in given.pool])
    assert [one.answer for one in given.pool] == [one.index for one in said]


def test_a_test_set_that_is_not_given_is_cut_from_the_data() -> None:
    data = Dataset("list", "all", tuple({one.text: one for one in generate(60)}.values()), ("negative", "positive"))
    given = prepare.prepare(
        SimulabilityRecipe.from_dict({k: v for k, v in SMALL.items() if k not in ("data", "test")}), data=data
    )
    assert len(given.test) == len(data) // 3
    assert len(given.pool) + len(given.test) == len(data)


def test_a_run_that_is_given_again_teaches_nobody(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    Tally.calls.clear()
    carried_out(SMALL, folder)
    assert Tally.calls == []
    assert (folder / "records.parquet").read_bytes() == (finished / "records.parquet").read_bytes()
    more = SMALL | {"explainers": ["gradient_x_input", "human", "gradient_norm"]}
    with pytest.raises(InputError, match="a run of another recipe, with other explainers"):
        carried_out(more, folder)
    carried_out(more, folder, overwrite=True)
    assert sum(count for count, _ in Tally.calls) == 2 * 2 * 3  # sizes, channels and subsets of the new explainer


def test_formats_and_noise_make_arms_and_curves(tmp_path: Path) -> None:
    change = {
        "explainers": ["human"],
        "channels": ["words"],
        "hints": [{"kind": "dense", "bits": 1}, {"kind": "dense"}, {"share": 0.1, "label": "set"}],
        "noise": [0.0, 0.5, 1.0],
        "controls": [],
        "metrics": [],
        "sizes": [16],
    }
    found = find(carried_out(SMALL | change, tmp_path / "arms"))
    assert "human, set, noise 0.5" in found.arms
    assert len(found.arms) == 9
    silent = [label for label, arm in found.arms.items() if arm.noise == 1.0]
    table = found.simulation.scores[Setting("tally", "words", 16)]
    for label in silent:
        assert np.array_equal(table[label], table[NONE])  # all is lost, so nothing was told
        assert found.arms[label].bits == 0
    curves = {curve.explainer: curve for curve in found.noise}
    assert [level.at for level in curves["human, set"].levels] == [0.0, 0.5, 1.0]
    assert "correlation of noise" in " ".join(found.sentences)
    assert "there are no controls" in " ".join(found.sentences)
    for drawn in (page(found), markdown(found)):
        assert "noise" in drawn


def test_a_run_that_is_out_of_time_reports_what_there_is(tmp_path: Path) -> None:
    turns = iter([False, False])

    class Late(RunOptions):
        """Options whose time is up after two groups of students."""

        def is_late(self) -> bool:
            return next(turns, True)

    change = {"noise": [0.0, 0.5], "metrics": [], "group": 4, "explainers": ["human"]}
    given = prepare.prepare(SimulabilityRecipe.from_dict(SMALL | change))
    found = find(run(given, Late(tmp_path / "late", device="cpu")))
    assert sum(np.isfinite(matrix).all(axis=1).sum() for matrix in found.simulation.scores[SETTING].values()) == 8
    for text in (page(found), markdown(found), json.dumps(plain(found), allow_nan=False)):
        assert "human, noise 0" in text
    again = find(carried_out(SMALL | change, tmp_path / "late"))
    assert all(np.isfinite(matrix).all() for table in again.simulation.scores.values() for matrix in table.values())


def test_people_teach_labels_and_tell_rationales(tmp_path: Path) -> None:
    recipe = {key: value for key, value in SMALL.items() if key not in ("explainers", "metrics")} | {"teacher": "human"}
    experiment = prepare.prepare(SimulabilityRecipe.from_dict(recipe))
    assert experiment.model is None
    for lesson, hint in zip(experiment.pool, experiment.marked, strict=True):
        assert experiment.labels[int(lesson.answer)] == lesson.example.label  # type: ignore[arg-type]
        told = [span for span, weight in zip(hint.spans, hint.weights, strict=True) if weight > 0]
        assert lesson.example.rationale is not None
        assert all(any(a.start < b.end and b.start < a.end for b in lesson.example.rationale) for a in told)
    found = find(run(experiment, RunOptions(tmp_path / "people", device="cpu")))
    assert "human" in found.simulation.methods
    assert found.manifest["teacher"]["name"] == "human"
    with pytest.raises(InputError, match="no human rationale"):
        prepare.marked(Example("A text."))
    hint = prepare.marked(Example("A dull plot.", rationale=(Span(2, 6),)))
    assert [round(float(weight), 2) for weight in hint.weights] == [0, 1, 0, 0]


def test_questions_are_taught_with_links(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        play, passage = f"play {number}", f"play {number} of the year was written by Ann {number} ."
        answer = {"text": f"Ann {number}", "start": passage.index("Ann")}
        link = [[10, 10 + len(play)], [0, len(play)]]
        rows.append({"question": f"who wrote {play}", "passage": passage, "answers": [answer], "alignments": [link]})
    for name, some in (("train", rows[:14]), ("dev", rows[12:])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    recipe = SimulabilityRecipe.from_dict(
        {
            "teacher": "human",
            "task": "span",
            "students": [{"student": "transformer", "epochs": 1, "max_length": 40}],
            "channels": ["alignment"],
            "controls": ["random"],
            "sizes": [6],
            "subsets": 2,
            "data": {"source": str(tmp_path), "split": "train"},
            "test": {"split": "dev"},
        }
    )
    experiment = prepare.prepare(recipe)
    assert len(experiment.pool) == 12  # two passages are in the test
    found = find(run(experiment, RunOptions(tmp_path / "run", device="cpu")))
    assert found.verdict.metric == "f1"
    assert {one.method for one in found.verdict.gains} == {NONE, "human", "random"}


def test_nothing_in_a_report_acts(finished: Path, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> [a](https://example.org) | \x1b[31m \ufffe"
    folder = tmp_path / "report"
    shutil.copytree(finished, folder)
    told = json.loads((folder / "manifest.json").read_text())
    told |= {"command": hostile, "versions": {hostile: hostile}, "name": hostile}
    for place in ("teacher", "data", "test"):
        told[place]["name"] = told[place]["split"] = hostile
    (folder / "manifest.json").write_text(json.dumps(sealed(told)))
    found = find(folder)
    text = markdown(found)
    assert "script" in text
    assert "<script" not in text.replace("\\<script", "")
    assert "](https" not in text.replace("\\](https", "")
    assert not set("\x1b\ufffe") & set(text)
    Tree.fromstring(picture(found))


def test_the_report_has_every_form(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    shutil.copytree(finished, folder)
    found = find(folder)
    assert [path.name for path in write(found)] == ["report.md", "report.json", "gains.svg", "report.html"]
    told = json.loads((folder / "report.json").read_text())
    assert {row["method"] for row in told["gains"]} == {NONE, *found.simulation.methods}
    assert len(told["gains"]) == 4 * 7
    tree = Tree.fromstring(picture(found))
    assert tree.tag.endswith("svg")
    text = page(found)
    assert "http" not in text.replace("http://www.w3.org", "")
    assert text.count('class="dot') == 4 * 6
    for method in found.simulation.methods:
        assert method in text
        assert method in markdown(found)
    with pytest.raises(ParameterError, match="cannot be written as 'pdf'"):
        write(found, ["pdf"])


def test_what_students_answered_survives_the_disk(tmp_path: Path) -> None:
    memory = OutcomeStore(Parts(tmp_path / "parts"), StudentOutcome.stored)
    assert memory.get("ab" * 8) is None
    spans = StudentOutcome(np.array([[1, 4], [-1, -1]]), None, {"loss": 0.5})
    memory.put("ab" * 8, spans)
    again = memory.get("ab" * 8)
    assert again is not None
    assert again.answers.tolist() == spans.answers.tolist()
    assert (again.failure, dict(again.details)) == (None, {"loss": 0.5})
    memory.put("cd" * 8, StudentOutcome(np.array([0.5, 2.5]), "diverged", {}))
    failed = memory.get("cd" * 8)
    assert failed is not None
    assert (failed.answers.tolist(), failed.failure) == ([0.5, 2.5], "diverged")
    curve = (CurvePoint(2, 8, np.array([[0, 1], [2, 3]])), CurvePoint(3, 12, spans.answers))
    memory.put("ef" * 8, dataclasses.replace(spans, curve=curve))
    learned = memory.get("ef" * 8)
    assert learned is not None
    assert [(point.epoch, point.steps, point.answers.tolist()) for point in learned.curve] == [
        (2, 8, [[0, 1], [2, 3]]),
        (3, 12, [[1, 4], [-1, -1]]),
    ]
    assert learned.answers.tolist() == [[1, 4], [-1, -1]]


def test_simulations_survive_the_disk(tmp_path: Path) -> None:
    first, second = Setting("a", "b", 5), Setting("a", "c", 5)
    lost = np.array([[0.5, 1.0], [np.nan, np.nan]])
    scores = {setting: {NONE: np.array([[0.0, 1.0], [0.5, 0.5]]), "lime": lost} for setting in (first, second)}
    points = {
        setting: {name: np.stack([matrix + at for at in (2, 1, 0)], 1) for name, matrix in table.items()}
        for setting, table in scores.items()
    }
    at = dict.fromkeys(scores, (1, 2, 4))
    given = Simulation(
        scores,
        (Failure(first, "lime", 1, "diverged"),),
        frozenset({"lime"}),
        "squared_error",
        scores,
        np.array([1.0, 2.0]),
        LearningCurves(at, dict.fromkeys(scores, (3, 6, 12)), points, points),
    )
    record_store.write(tmp_path / "records.parquet", to_records(given, {}, ["x", "y"]))
    table = record_store.read(tmp_path / "records.parquet")
    rows = record_store.from_table(table)
    assert {(row.explainer, row.channel) for row in rows} == {
        ("teacher", ""),
        ("none", ""),
        ("lime", "b"),
        ("lime", "c"),
    }
    assert {row.example for row in rows} == {"x", "y"}
    assert all(row.settings for row in rows)
    again = from_records(table)
    assert (again.failures, again.controls, again.metric) == (given.failures, given.controls, given.metric)
    assert again.truth is not None
    assert again.truth.tolist() == [1.0, 2.0]
    for setting in scores:
        for name, matrix in scores[setting].items():
            assert np.array_equal(again.scores[setting][name], matrix, equal_nan=True)
            assert np.array_equal(again.answers[setting][name], matrix, equal_nan=True)
            assert np.array_equal(again.curves.scores[setting][name], points[setting][name], equal_nan=True)
            assert np.array_equal(again.curves.answers[setting][name], points[setting][name], equal_nan=True)
    assert again.curves.epochs == at
    assert set(again.curves.steps.values()) == {(3, 6, 12)}


def test_folders_that_are_no_simulations_are_named(tmp_path: Path, finished: Path) -> None:
    with pytest.raises(InputError, match="no run of didact simulate"):
        find(tmp_path)
    folder = tmp_path / "half"
    shutil.copytree(finished, folder)
    (folder / "records.parquet").unlink()
    with pytest.raises(InputError, match="not finished"):
        find(folder)


def test_the_papers_tables_are_whole() -> None:
    for table in simulability.TABLES.values():
        for row in (table.rows or {}).values():
            assert len(row) == len(table.columns), table.number
    assert simulability.TABLES[3].rows is not None
    assert simulability.TABLES[3].rows["attention"][0] == (81.5, None)


def test_tables_put_measured_beside_published(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = simulability.read(finished.parent)
    assert [one.name for one in results] == ["small"]
    assert "τ here" in simulability.table(10, results)
    assert "| here |" not in simulability.table(6, results)  # it has students of neither kind
    measured = simulability.read(Path(__file__).parents[2] / "docs" / "results" / "simulability")
    five, six = simulability.table(5, measured), simulability.table(6, measured)
    assert "| gradient_x_input |" in six
    assert "random (control)" in six
    assert "up to 7 points" in six
    assert "minilm, attention, 500 training texts" in five
    assert "bilstm_attention, attention, 500 training texts" in six
    assert "minilm, attention" not in six
    assert "ridge" not in five + six
    assert "| attention | **90.5** (+3.2 [2.3, 4.1] *) |" in five
    assert "| 1.25 |" in five  # over the four settings of this table
    nine = simulability.table(9, measured)
    assert "| label_leak | – | **0.31** | – | **0.03** |" in nine
    assert "| here: overlap |" in simulability.table(1, measured)


def test_agreements_are_averaged_over_the_pairs_that_the_paper_averages() -> None:
    measured = simulability.read(Path(__file__).parents[2] / "docs" / "results" / "simulability")
    run = next(one for one in measured if one.name == "imdb")
    found = {one.title: one for one in averages(run)}
    taus = {
        (pair.first.student, pair.first.channel, pair.second.student, pair.second.channel, pair.first.size): pair.tau
        for pair in run.verdict.agreements
        if pair.first.size == pair.second.size
    }
    students = ("minilm", "bilstm_attention")
    own = [taus[one, "attention", one, "labelling", size] for one in students for size in (500, 2000)]
    between = [taus["minilm", "labelling", "bilstm_attention", "labelling", size] for size in (500, 2000)]
    assert found["attention against labelling, one student"].mean == pytest.approx(np.mean(own))
    assert found["between students, labelling"].mean == pytest.approx(np.mean(between))
    assert found["between all students and channels"].pairs == 2 * 6
    assert found["with sufficiency and comprehensiveness"].pairs == 2 * 8
    assert "(planted truth; chance 0.50): sufficiency " in " ".join(notes(run))


def test_tables_of_the_paper_stand_alone_where_nothing_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Not measured yet: didact run recipes/simulability/movies.toml" in simulability.table(3, [])
    assert main(["reproduce", "simulability", "--table", "4"]) == 0
    assert "| alignment | 37.3 |" in capsys.readouterr().out
    assert main(["reproduce", "simulability", "--table", "2"]) == 2
    assert "there are 1, 3" in capsys.readouterr().err
    assert main(["reproduce", "simulability", "--figure", "3"]) == 2
    with pytest.raises(DidactError, match="no finished run"):
        simulability.read(RECIPES)


def test_one_call_from_python(tmp_path: Path) -> None:
    found = didact.simulate(
        [one.text for one in generate(60)],
        explainers=["gradient_x_input"],
        students=["tally"],
        channels=["words"],
        sizes=[10],
        subsets=2,
        out=tmp_path / "run",
        progress=False,
    )
    assert found.answers
    assert {row["method"] for row in found.table} >= {NONE, "gradient_x_input", "random"}
    assert found.to_dict() == plain(found.findings)
    assert (tmp_path / "run" / "report.html").is_file()
    assert str(found).startswith("# run: which explanation teaches best")
    assert "iframe" in found._repr_html_()


def test_a_teacher_of_numbers_is_imitated_by_error_and_correlation(tmp_path: Path) -> None:
    found = didact.simulate(
        [one.text for one in generate(60)],
        tiny_model(labels=("score",)),
        explainers=["gradient_norm"],
        students=["tally", "ridge"],
        channels=["words", "prior"],
        sizes=[12],
        subsets=2,
        out=tmp_path / "numbers",
        progress=False,
    )
    assert found.verdict.metric == "squared_error"
    assert [verdict.metric for verdict in found.findings.further] == ["pearson", "rmse"]
    assert "## By pearson" in str(found)
    assert {row["channel"] for row in found.table} == {"words", "prior"}  # each student by the channel that fits


def test_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    asked = ["simulate", "--limit", "40", "--test-limit", "30", "--explainers", "gradient_x_input,gradient_norm"]
    asked += ["--students", "tally", "--channels", "words", "--sizes", "8,16", "--subsets", "2", "--out", str(folder)]
    asked += ["--set", "tally.smoothing=2.0", "--weight", "words=2.0"]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == str(folder / "report.html")
    assert "gradient_norm" in printed
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["channels"]["words"]["weight"] == 2.0
    assert manifest["command"] == shlex.join(["didact", *asked])
    assert manifest["students"]["tally"]["parameters"]["smoothing"] == 2.0
    Tally.calls.clear()
    again = tmp_path / "again"
    assert main(["run", str(folder / "recipe.toml"), "--out", str(again), "--store", str(folder / "parts")]) == 0
    assert Tally.calls == []
    assert (again / "records.parquet").read_bytes() == (folder / "records.parquet").read_bytes()
    capsys.readouterr()
    assert main(["report", str(again), "--format", "md"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(again / "report.md")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--students", "talli"], "did you mean tally"),
        (["--explainers", "lyme"], "did you mean lime"),
        (["--set", "ridge.x=1"], "do not list"),
        (["--set", "x=1"], "NAME.SETTING=VALUE"),
        (["--sizes", "many"], "--sizes takes numbers"),
        (["--sizes", "900"], "the pool has"),
        (["--channels", "words", "--weight", "words=0"], "above 0"),
        (["--channels", "attention"], "no given channel reaches the student tally"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["simulate", "--limit", "40", "--test-limit", "10", "--explainers", "gradient_norm", "--students", "tally"]
    base += ["--sizes", "8", "--subsets", "2", "--out", str(tmp_path / "run")]
    assert main([*base, *arguments]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert message in told


@pytest.mark.parametrize("what", ["students", "channels"])
def test_students_and_channels_are_listed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what, "--format", "json"]) == 0
    names = {row["name"] for row in json.loads(capsys.readouterr().out)}
    assert {"students": "transformer", "channels": "attention"}[what] in names
