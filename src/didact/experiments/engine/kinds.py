"""Kinds of recipes by name: how a recipe file is read, what carries it out, and how its results are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from didact.errors import FormatError, ParameterError
from didact.experiments.engine.folder import settled
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.steps import RecipeJob, RunOptions
from didact.experiments.engine.toml import GRADING, Options, Plain, TomlRecipe, named, read_toml
from didact.registry import Registry
from didact.types import Estimate

if TYPE_CHECKING:
    from rich.console import Console

R = TypeVar("R", bound=TomlRecipe)


@dataclass(frozen=True)
class RecipeCard:
    """What a kind of recipe is.

    Attributes:
        name: what a recipe file says as ``kind``; also the file of the kind.
        summary: one sentence.
        family: heading in lists.
    """

    name: str
    summary: str
    family: str = "experiment"


@dataclass(frozen=True)
class ReportOptions:
    """How a report is written; a kind takes what applies to it.

    Attributes:
        formats: endings of the files to write; all that the kind has when not given.
        metric: the metric that is set against cost.
        examples: how many examples are shown.
    """

    formats: tuple[str, ...] | None = None
    metric: str | None = None
    examples: int = 3


class Kind(Generic[R]):
    """A kind of experiment: reads its recipes, makes the job that carries one out, and reports on the results.

    To add one, subclass it in a file of its own and decorate it with ``@register(RecipeCard(...))``.
    """

    card: ClassVar[RecipeCard]
    recipe: type[R]
    """A frozen dataclass whose fields are the entries of a recipe file."""

    @abstractmethod
    def job(self, recipe: R, options: RunOptions) -> RecipeJob:
        """Load and check what the recipe names; work begins later."""

    def estimates(self, recipe: R, options: RunOptions) -> list[Estimate]:
        """What the parts of a run would take, for a dry run; a kind that cannot say so refuses."""
        raise ParameterError(f"a recipe of {self.card.name} has no dry run; leave out --dry-run")

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """Show the results of a run in the terminal, write the report into its folder, and return the files written.

        By default the means of the records are shown and nothing is written.
        """
        from didact.experiments.engine.overview import show_means

        show_means(folder / "records.parquet", console)
        return []


RECIPES: Registry[Kind[TomlRecipe], RecipeCard] = Registry(
    "kind", "didact.experiments.kinds", [str(Path(__file__).parents[1] / "kinds")], "didact.recipes"
)
register = RECIPES.register


def read_recipe(path: Path, changes: Options | None = None) -> tuple[Kind[TomlRecipe], TomlRecipe]:
    """A recipe file with its kind; ``changes`` replace entries, those inside of tables by dotted names."""
    data = read_toml(path)
    if not data:
        raise FormatError(f"{path} is empty: a recipe names at least its data; see the recipes/ folder for examples")
    kind = RECIPES.get(str(data.pop("kind", GRADING)))()
    for name, value in (changes or {}).items():
        _change(data, name, value)
    return kind, kind.recipe.from_dict(named(data, path), str(path))


def kind_of(folder: Path) -> Kind[TomlRecipe]:
    """The kind of a run, as its manifest says; grading where there is none."""
    settled(folder)
    path = folder / "manifest.json"
    manifest = read_object(path, "") if path.is_file() else {}
    return RECIPES.get(str(manifest.get("kind", GRADING)))()


def _change(data: Plain, name: str, value: object) -> None:
    """Set ``data["a"]["b"]`` for the name "a.b"."""
    *tables, last = name.split(".")
    for table in tables:
        inner = data.get(table, {})
        if not isinstance(inner, Mapping):
            raise FormatError(f"{name} cannot be set: {table} is {inner!r:.60} in the recipe, and no table")
        data[table] = dict(inner)
        data = data[table]
    data[last] = value
