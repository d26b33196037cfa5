"""Recipes: whatever TOML can hold is read as it was written, or refused by an error that names the file."""

import tomllib
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from didact.errors import DidactError
from didact.experiments.engine.kinds import RECIPES, read_recipe
from didact.experiments.engine.toml import toml_value
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.simulability.recipe import SimulabilityRecipe

PROPERTY = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
SHOWN = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=10)
LABEL = st.builds("{} {}".format, SHOWN, SHOWN) | SHOWN
PLAIN = st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | TEXT
VALUE = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
EXPLAINER = st.fixed_dictionaries({"method": st.just("lime"), "label": LABEL})
SOURCE = LABEL.filter(lambda text: "$" not in text)
GRADING = st.fixed_dictionaries(
    {
        "explainers": st.lists(EXPLAINER, min_size=1, max_size=3, unique_by=lambda one: one["label"]),
        "seeds": st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
        "chunk": st.integers(1, 99),
        "data": st.fixed_dictionaries({"source": SOURCE, "limit": st.integers(1, 9)}),
    }
)
FIELDS = sorted({name for kind in RECIPES.names() for name in RECIPES.get(kind).recipe.__dataclass_fields__})


@PROPERTY
@given(VALUE)
def test_toml_gives_back_every_value(value: object) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


@PROPERTY
@given(GRADING)
def test_a_recipe_survives_its_file(tmp_path: Path, plain: dict[str, object]) -> None:
    recipe = GradingRecipe.from_dict({"name": "study", **plain})
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8")
    assert read_recipe(path)[1] == recipe


@PROPERTY
@given(st.dictionaries(st.sampled_from(FIELDS) | TEXT, VALUE, max_size=4))
def test_a_recipe_is_read_or_refused(tmp_path: Path, plain: dict[str, object]) -> None:
    lines = [f"{name if name in FIELDS else toml_value(name)} = {toml_value(value)}" for name, value in plain.items()]
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        _, recipe = read_recipe(path)
    except DidactError:
        return
    assert read_recipe(path)[1] == recipe


@PROPERTY
@given(st.lists(st.integers(2, 500), min_size=1, max_size=3, unique=True), st.integers(2, 9), st.integers(0, 99))
def test_a_simulation_recipe_keeps_its_plan(sizes: list[int], subsets: int, seed: int) -> None:
    recipe = SimulabilityRecipe.from_dict({"sizes": sizes, "subsets": subsets, "seed": seed})
    assert tuple(SimulabilityRecipe.from_dict(recipe.to_dict()).plan().sizes) == tuple(recipe.plan().sizes)
    assert SimulabilityRecipe.from_dict(recipe.to_dict()) == recipe
