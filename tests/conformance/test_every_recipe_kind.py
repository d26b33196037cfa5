"""Every registered kind of recipe passes every check, on the smallest recipe of its kind."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from didact.experiments.engine.kinds import RECIPES
from didact.testing.recipes import CHECKS, check

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
exam = { source = "corpus", limit = 10, seed = 1 }
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
