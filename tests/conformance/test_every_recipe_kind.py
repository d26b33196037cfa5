"""Every registered kind of recipe passes every check, on the smallest recipe of its kind."""

import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest
from rich.console import Console

from didact.experiments.engine.kinds import RECIPES, ReportOptions
from didact.experiments.engine.steps import KeyedStep, RecipeJob, RunOptions
from didact.experiments.engine.toml import Options, Plain
from didact.provenance import content_hash
from didact.store import records
from didact.testing.recipes import CHECKS, check
from tests.third_party.installed import installed

with installed():
    from toybox.toy_recipe import Toy, ToyJob, ToyRecipe

SMALLEST = {
    "grading": """
explainers = ["gradient_norm"]
metrics = ["comprehensiveness", "rationale_auc", "forwards"]
chunk = 2
data = { source = "corpus", limit = 3 }
""",
    "simulability": """
explainers = ["gradient_norm"]
students = ["ridge"]
controls = ["random"]
metrics = []
sizes = [8]
subsets = 2
group = 4
chunk = 8
data = { source = "corpus", limit = 20 }
test = { source = "corpus", limit = 10, seed = 1 }
""",
    "scaffolding": """
explainers = ["gradient_norm"]
trained = [{ preset = "smat", search = "none", students = 0 }]
students = ["ridge"]
sizes = [8]
subsets = 2
chunk = 8
hints = [{ kind = "dense" }]
model = { source = "default" }
data = { source = "corpus", limit = 20 }
test = { source = "corpus", limit = 10, seed = 1 }
train = { limit = 4, seed = 2 }
plausibility = [{ source = "corpus", limit = 4, seed = 3 }]
""",
    "distillation": """
initialisations = 1
chunk = 4
references = [{ method = "gradient_norm", label = "gradient" }]
model = { source = "default" }
network = { width = 8, heads = 2, blocks = 1 }
training = { epochs = 1 }
[data]
train = { source = "corpus", limit = 8, seed = 1 }
validation = { source = "corpus", limit = 4, seed = 2 }
test = { source = "corpus", limit = 4, seed = 3 }
""",
    "masking": """
chunk = 2
timed = 2
rivals = ["gradient_norm"]
optimise = ["comp"]
model = { source = "default" }
explainer = { epochs = 1 }
refinement = { steps = 1 }
[data]
train = { source = "corpus", limit = 4, seed = 1 }
validation = { source = "corpus", limit = 2, seed = 2 }
test = { source = "corpus", limit = 2, seed = 3 }
""",
}
"""A recipe per kind."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", RECIPES.names())
def test_conforms(kind: str, name: str, folder: Path) -> None:
    check(name, RECIPES.get(kind)(), entries(kind), folder / kind)


def entries(kind: str) -> Mapping[str, object]:
    return tomllib.loads(SMALLEST[kind])


@pytest.mark.parametrize("kind", RECIPES.names())
def test_a_kind_is_a_file_of_its_name(kind: str) -> None:
    assert RECIPES.get(kind).__module__ == f"didact.experiments.kinds.{kind}"


# The checks themselves, on planted faults in the toybox's kind.


class Anonymous(ToyJob):
    """Records without the hash of their settings."""

    def finish(self, *, complete: bool) -> None:
        super().finish(complete=complete)
        path = self.results / "records.parquet"
        rows = records.from_table(records.read(path))
        records.write(path, records.to_table([type(row)(**vars(row) | {"settings": ""}) for row in rows]))


class Anew(ToyJob):
    """Keys that are never the same again."""

    def squaring(self, number: int) -> KeyedStep:
        return KeyedStep(f"square/{number}", content_hash([id(self), time.time_ns()]), "square", (number,))

    def add(self) -> pa.Table:
        return pa.table({"value": [0.0]})

    def finish(self, *, complete: bool) -> None:
        (self.results / "manifest.json").write_text('{"kind": "toy_recipe"}')
        records.write(self.results / "records.parquet", records.to_table([]))


class Drifting(ToyJob):
    """Results that depend on the hour."""

    def square(self, number: int) -> pa.Table:
        return pa.table({"value": [time.time()]})


class Unending(ToyJob):
    """Takes no step for done."""

    def is_done(self, step: KeyedStep) -> bool:
        return False


class Impatient(ToyJob):
    """Computes while it plans, deadline or not."""

    def begin(self) -> None:
        for number in self.recipe.numbers:
            self.do(self.squaring(number))


class Losing(ToyRecipe):
    """Writes nothing but its name."""

    def to_dict(self) -> Plain:
        return {"name": self.name}


class Lenient(ToyRecipe):
    """Leaves out what it does not know."""

    @classmethod
    def from_dict(cls, data: Options, where: str = "recipe") -> Self:
        return super().from_dict({name: value for name, value in data.items() if name in ("name", "numbers")}, where)


class Silent(Toy):
    """Shows nothing."""

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        return []


class Wordless(Toy):
    """Another kind's recipes."""

    recipe = type("Other", (ToyRecipe,), {"kind": "other"})


def kind_with(part: type) -> type[Toy]:
    """The toybox's kind with a job or a recipe in place of its own."""
    if issubclass(part, Toy):
        return part
    if issubclass(part, ToyRecipe):
        return type("Faulty", (Toy,), {"recipe": part})

    class Faulty(Toy):
        def job(self, recipe: ToyRecipe, options: RunOptions) -> RecipeJob:
            made: RecipeJob = part(recipe, options)
            return made

    return Faulty


@pytest.fixture
def registered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    kind = kind_with(request.param)
    monkeypatch.setitem(RECIPES._classes, "toy_recipe", kind)
    monkeypatch.setitem(RECIPES._cards, "toy_recipe", Toy.card)
    return kind


FAULTS = [
    (Wordless, "card_is_complete"),
    (Losing, "toml_round_trip"),
    (Lenient, "unknown_entries_are_refused"),
    (Anonymous, "records_say_where_they_come_from"),
    (Anew, "records_say_where_they_come_from"),
    (Silent, "results_are_reported"),
    (Anew, "the_same_again_computes_nothing"),
    (Unending, "the_same_again_computes_nothing"),
    (Impatient, "a_deadline_stops_and_a_later_run_continues"),
    (Drifting, "a_deadline_stops_and_a_later_run_continues"),
    (Drifting, "a_failure_loses_one_step"),
    (Anew, "a_failure_loses_one_step"),
]


@pytest.mark.parametrize(
    ("registered", "name"),
    FAULTS,
    indirect=["registered"],
    ids=[f"{fault.__name__}-{name}" for fault, name in FAULTS],
)
def test_planted_faults_are_found(registered: type[Toy], name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check(name, registered(), {"numbers": [2, 5, 7]}, tmp_path)
