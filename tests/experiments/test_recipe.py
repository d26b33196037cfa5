"""Recipes: what a file may say, and what is said when it is wrong."""

import re
import tomllib
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from didact.cli import main
from didact.data.load import load_data
from didact.data.questions import load_questions
from didact.errors import FormatError, InputError
from didact.experiments.distillation.recipe import DistillationRecipe, NetworkTable
from didact.experiments.engine.kinds import read_recipe
from didact.experiments.engine.tables import DataTable, ModelTable, QuestionTable
from didact.experiments.engine.toml import Entry, TomlRecipe, toml_value
from didact.experiments.grading import prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.simulability.recipe import SimulabilityRecipe
from didact.models.load import load_model
from didact.trained.shapes._scorer_config import ScorerConfig

FULL = """
seeds = [0, 1]
chunk = 8
nulls = ["shuffle"]
explainers = ["lime", { method = "lime", label = "lime, few", samples = 50 }]

[model]
source = "$PLACE/model"
max_length = 64

[data]
source = "sst2"
split = "validation"
fields = { text = "sentence" }

[[metrics]]
metric = "comprehensiveness"
shares = [0.1, 0.5]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLACE", "/somewhere")
    place = tmp_path / "mine.toml"
    place.write_text(FULL, encoding="utf-8")
    return place


def test_a_file_is_read_with_its_name_labels_and_variables(file: Path) -> None:
    recipe = GradingRecipe.from_toml(file)
    assert recipe.name == "mine"
    assert recipe.model == {"source": "/somewhere/model", "max_length": 64}
    assert recipe.explainers == (Entry("lime", "lime"), Entry("lime, few", "lime", {"samples": 50}))
    assert recipe.metrics == (Entry("comprehensiveness", "comprehensiveness", {"shares": [0.1, 0.5]}),)
    assert (recipe.seeds, recipe.chunk, recipe.nulls) == ((0, 1), 8, ("shuffle",))


def test_what_is_written_reads_as_the_same_recipe(file: Path, tmp_path: Path) -> None:
    recipe = GradingRecipe.from_toml(file)
    again = tmp_path / "again.toml"
    again.write_text(recipe.to_toml(), encoding="utf-8")
    assert GradingRecipe.from_toml(again) == recipe
    again.write_text(GradingRecipe().to_toml(), encoding="utf-8")
    assert GradingRecipe.from_toml(again) == GradingRecipe()


def test_a_variable_that_is_not_set_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACE")
    with pytest.raises(InputError, match=r"\[model\].*\$PLACE is not set"):
        GradingRecipe.from_toml(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"explainer": ["lime"]}, "unknown entry 'explainer'.*did you mean explainers"),
        ({"explainers": "some"}, "explainers must be a list or 'all'"),
        ({"explainers": []}, "explainers is empty"),
        ({"explainers": ["lime", "lime"]}, "two entries are called 'lime'"),
        ({"explainers": [{"label": "x"}]}, "a table with 'method'"),
        ({"explainers": 3}, "expected a list, got int"),
        ({"metrics": "every"}, "metrics must be a list or 'all' or 'default'"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [-1]}, r"seeds must be a list, each an int from 0 to .*, got \[-1\]"),
        ({"seeds": [0, 0]}, "seeds has 0 twice"),
        ({"seeds": "0"}, "seeds must be a list, got '0'"),
        ({"nulls": ["shufle"]}, "unknown null 'shufle'.*did you mean shuffle"),
        ({"chunk": 0}, "chunk must be an int from 1 to .*, got 0"),
        ({"chunk": 10**30}, "chunk must be an int from 1 to .*, got 1000"),
        ({"chunk": True}, "chunk must be an int from 1 to .*, got True"),
        ({"model": "default"}, r"\[model\]: expected a table with 'source'"),
        ({"model": {"sorce": "default"}}, r"\[model\]: unknown entry 'sorce' \(did you mean source"),
        ({"model": {"source": 3}}, r"\[model\]: source must be a str, got 3"),
        ({"model": {"max_truncated": float("nan")}}, r"\[model\]: max_truncated must be a float from 0 to 1, got nan"),
        ({"data": {"limit": 3}}, r"\[data\]: source must be given"),
        ({"data": {"source": "corpus", "limit": -2}}, r"\[data\]: limit must be an int from 1 .*, got -2"),
        ({"data": {"source": "corpus", "fields": ["text"]}}, r"\[data\]: fields must be a table"),
        ({"data": [{"source": "corpus"}]}, r"\[data\]: expected a table with 'source', got list"),
        ({"surrogate": {"settings": {"batch": 2}}}, r"\[surrogate\]: unknown entry 'settings'"),
        ({"explainers": [["lime"]]}, "a table with 'method' and settings; got \\['lime'\\]"),
        ({"explainers": [{"method": "lime", "label": 3}]}, "a label is a text .*, got 3"),
        ({"explainers": [{"method": "lime", "label": "a\nb"}]}, "printable characters"),
        ({"name": 3}, "name must be a str, got 3"),
    ],
)
def test_what_is_wrong_is_named(data: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        GradingRecipe.from_dict(data)


def test_files_that_are_missing_or_no_toml_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no recipe"):
        GradingRecipe.from_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = b", encoding="utf-8")
    with pytest.raises(FormatError, match="is not TOML"):
        GradingRecipe.from_toml(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "name", ["/abs", "../..", "..", ".", ".hidden", "a/b", "a\\b", "", "a\0b", "n" * 101, "日" * 90]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="recipe: name becomes the name of a folder"):
        GradingRecipe.from_dict({"name": name})


def test_a_recipe_cannot_choose_where_results_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "{tmp_path / "elsewhere"}"\n', encoding="utf-8")
    assert main(["run", str(path)]) == 2
    assert "name becomes the name of a folder" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_gives_its_recipe_a_name_that_can_be_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "my réviews (2).toml"
    path.write_text("", encoding="utf-8")
    assert GradingRecipe.from_toml(path).name == "my-réviews-2-"


REMOTE = [
    (GradingRecipe, {"model": {"source": "default", "trust_remote_code": True}}, "model.trust_remote_code"),
    (GradingRecipe, {"model": {"trust-remote-code": True}}, "model.trust-remote-code"),
    (GradingRecipe, {"explainers": [{"method": "lime", "trust_remote_code": True}]}, "explainers.trust_remote_code"),
    (GradingRecipe, {"data": {"fields": {"a": [{"trust_remote_code": 1}]}}}, "data.fields.a.trust_remote_code"),
    (SimulabilityRecipe, {"students": [{"student": "transformer", "trust_remote_code": True}]}, "students.trust_"),
    (SimulabilityRecipe, {"trust_remote_code": True}, "recipe: trust_remote_code"),
    (DistillationRecipe, {"model": {"source": "x", "trust_remote_code": False}}, "model.trust_remote_code"),
]


@pytest.mark.parametrize(("kind", "data", "place"), REMOTE)
def test_no_recipe_lets_a_model_run_its_own_code(kind: type[TomlRecipe], data: dict[str, Any], place: str) -> None:
    with pytest.raises(FormatError, match=f"{place}.* cannot be set by a recipe: .*--trust-remote-code"):
        kind.from_dict(data)


def test_only_the_command_line_lets_a_model_run_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def load(source: str, *, trust_remote_code: bool, **_: object) -> None:
        asked.append(trust_remote_code)
        raise InputError("no model today")

    monkeypatch.setattr(prepare, "load_model", load)
    path = tmp_path / "mine.toml"
    path.write_text('[model]\nsource = "x"\n', encoding="utf-8")
    given = ["run", str(path), "--out", str(tmp_path / "out")]
    assert main(given) == main([*given, "--trust-remote-code"]) == 2
    assert asked == [False, True]
    assert main([*given, "--set", "model.trust_remote_code=true"]) == 2
    assert "cannot be set by a recipe" in capsys.readouterr().err


STUDY: dict[str, Any] = {
    "name": "study",
    "model": {"source": "default"},
    "data": {split: {"source": "corpus", "limit": 4} for split in ("train", "validation", "test")},
    "references": ["lime"],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {}}, r"\[model\]: source must be given"),
        ({"data": ["corpus"]}, r"\[data\]: expected a table"),
        ({"data": {"train": {}}}, r"\[data\]: validation, test must be given"),
        ({"data": STUDY["data"] | {"train": 3}}, r"\[data\]: train must be"),
        ({"data": STUDY["data"] | {"train": []}}, r"\[data\] train is empty"),
        ({"data": STUDY["data"] | {"exam": {}}}, "unknown entry 'exam'"),
        ({"data": STUDY["data"] | {"train": {"source": "corpus", "words": -1}}}, r"train: words must be an int from 0"),
        ({"references": []}, "references is empty"),
        ({"references": {"lime": 1}}, "references: expected a list, got dict"),
        ({"signals": ["rank"]}, "unknown signal 'rank'"),
        ({"signals": []}, "signals is empty"),
        ({"embeddings": "new"}, "embeddings must be 'kept' or 'first' or 'own', got 'new'"),
        ({"initialisations": 0}, "initialisations must be an int from 1"),
        ({"network": {"widht": 3}}, r"\[network\]: unknown entry 'widht' \(did you mean width"),
        ({"network": {"width": -3}}, r"\[network\]: width must be an int from 1"),
        ({"training": {"epochs": "many"}}, r"\[training\]: epochs must be an int, got 'many'"),
        ({"training": {"epochs": 0}}, r"\[training\]: epochs of fit must be at least 1"),
        ({"training": {"clip": float("inf")}}, r"\[training\]: clip must be a float or None, got inf"),
        ({"changes": [{"texts": 0}]}, "change 1: texts must be an int from 1"),
        ({"changes": [{"training": {"epoch": 3}}]}, "change 1, training: unknown entry 'epoch'"),
        ({"changes": [3]}, "changes must be a list, each a table"),
        ({"texts": {"lmie": 3}}, "unknown reference 'lmie' .*did you mean lime"),
        ({"averages": {"both": ["lime"]}}, "give two or more different references, got"),
        ({"averages": {"both": ["lime", "lmie"]}}, r"\[averages\] both: unknown reference 'lmie'"),
        ({"averages": {"lime": ["lime", "lime"]}}, "that no reference has"),
        ({"labels": {"both": {}}, "averages": {"both": ["lime", "lime"]}}, "unknown reference 'both'"),
        ({"more": {"lime": [["words"]]}}, "give pairs of reading and signal"),
        ({"more": {"lime": [["letters", "ranking"]]}}, "unknown reading 'letters'"),
    ],
)
def test_what_is_wrong_in_a_study_is_named(change: dict[str, Any], message: str) -> None:
    DistillationRecipe.from_dict(STUDY)
    with pytest.raises(FormatError, match=message):
        DistillationRecipe.from_dict(STUDY | change)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = = b", "is not TOML"),
        (b'name = "\xff"', "is not TOML.*utf-8"),
        (b"chunk = " + b"9" * 5000, "is not TOML"),
        (b"a = " + b"[" * 5000, "is not TOML"),
        (b"a" + b".a" * 5000 + b" = 1", "unknown entry 'a'"),
        (b"seeds = 2024-01-01", "seeds must be a list, got datetime.date"),
        (b"[model]\nsource = { a = 1 }", "source must be a str, got {'a': 1}"),
    ],
)
def test_files_that_are_no_recipe_end_in_one_line(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    assert main(["run", str(path)]) == 2
    told = capsys.readouterr().err
    assert re.search(message, told)
    assert told.count("\n") == 1
    assert main(["run", str(tmp_path)]) == 2
    assert "cannot read the recipe" in capsys.readouterr().err


def test_a_table_that_is_no_table_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("data = 3", encoding="utf-8")
    with pytest.raises(FormatError, match=r"data\.limit cannot be set: data is 3 in the recipe"):
        read_recipe(path, {"data.limit": 2})


def test_tables_of_recipes_have_the_options_of_what_they_are_for() -> None:
    """All but the switch for remote code, names of functions, and columns, which a recipe names in ``fields``."""
    wanted = {
        ModelTable: (load_model, {"trust_remote_code", "name", "version"}),
        DataTable: (load_data, {"text_column", "label_column"}),
        QuestionTable: (load_questions, set()),
    }
    for table, (function, without) in wanted.items():
        assert {item.name for item in fields(table)} == set(signature(function).parameters) - without
    settings = {item.name for item in fields(ScorerConfig)} - {"labels", "outputs", "reading", "references", "seed"}
    assert {item.name for item in fields(NetworkTable)} == settings | {"min_count"}


@given(text=strategies.text(strategies.characters(exclude_categories=["Cs"])), number=strategies.floats())
def test_any_text_and_number_survives_toml(text: str, number: float) -> None:
    written = f"a = {toml_value({text: [text, number, True]})}"
    assert repr(tomllib.loads(written)["a"]) == repr({text: [text, number, True]})


def test_an_empty_table_is_none() -> None:
    recipe = GradingRecipe.from_dict({"model": {}, "data": {"source": "corpus"}})
    assert recipe.model == {"source": "default"}
    assert GradingRecipe.from_dict(tomllib.loads(recipe.to_toml().partition("\n")[2])) == recipe


@pytest.mark.parametrize("content", ["", "\n# nothing but a remark\n"])
def test_an_empty_file_is_no_recipe(content: str, tmp_path: Path) -> None:
    path = tmp_path / "blank.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=r"blank\.toml is empty"):
        read_recipe(path)
