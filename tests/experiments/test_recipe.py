"""Recipes: what a file may say, and what is said when it is wrong."""

from pathlib import Path
from typing import Any

import pytest

from didact.errors import FormatError, InputError
from didact.experiments.engine.toml import Entry
from didact.experiments.grading.recipe import GradingRecipe

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
        ({"seeds": []}, "seeds must be one or more numbers"),
        ({"seeds": [-1]}, "seeds must be one or more numbers"),
        ({"nulls": ["shufle"]}, "unknown null 'shufle'.*did you mean shuffle"),
        ({"chunk": 0}, "chunk must be a number of at least 1"),
        ({"model": "default"}, r"\[model\]: expected a table with 'source'"),
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
