"""The rooms of didact and the direction of imports, as a table that every import statement is held against."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.imports import (
    Import,
    Plan,
    cycles,
    edges_outside_plan,
    libraries_outside_plan,
    read_imports,
    read_modules,
    unknown_rooms,
    used_libraries,
)

REPO = Path(__file__).resolve().parents[2]
DIDACT = REPO / "src" / "didact"

# The nouns: single modules that everything may import.
BASE = (
    "types examples predictions cards regions images errors validation disk checksums locks protocols registry "
    "settings provenance views code_identity meter progress"
)

# Room -> the rooms it may import, besides itself and the base. Only rooms further up, and of those only the ones it
# has a reason for: students and scale stay off metrics because trained, which must never see a metric, uses them.
ROOMS = {
    "base": "",
    "ops": "",
    "stats": "",
    "render": "",
    "models": "ops",
    "data": "",
    "embedded": "",
    "store": "data",
    "attribution": "ops stats models",
    "counterfactuals": "",
    "metrics": "ops stats models attribution",
    "decisions": "stats render counterfactuals metrics",
    "summary": "stats render",
    "students": "ops stats models data attribution",
    "simulation": "ops stats models data attribution students",
    "scale": "models data store attribution",
    "study": "stats data store",
    "trained": "ops stats render models data store attribution students simulation scale",
    "experiments": "ops stats render models data store attribution metrics students simulation scale study trained",
    "testing": "ops stats render models data store attribution metrics students simulation scale study trained "
    "experiments",
    "api": "stats render models data store attribution metrics trained",
    "service": "ops stats render models data store attribution counterfactuals decisions study trained api",
    "reporting": "models data counterfactuals decisions summary api",
    "client": "",
    "experimenting": "models data trained experiments api",
    "cli": "render models data store attribution counterfactuals metrics decisions summary students simulation scale "
    "study trained experiments api service reporting experimenting",
    "__main__": "cli",
    "__init__": "api reporting experimenting",
}

# Room -> the libraries it may use, besides the standard library.
LIBRARIES = {
    "base": "numpy PIL",
    "ops": "numpy torch regex scipy",
    "stats": "numpy scipy",
    "render": "numpy rich pandas",
    "models": "numpy torch transformers safetensors peft xxhash",
    "data": "numpy pyarrow datasets",
    "store": "numpy safetensors pyarrow",
    "attribution": "numpy torch",
    "metrics": "numpy",
    "decisions": "numpy",
    "summary": "numpy pandas",
    "students": "numpy torch transformers",
    "simulation": "numpy",
    "study": "numpy openskill pyarrow",
    "scale": "numpy",
    "trained": "numpy torch transformers safetensors accelerate huggingface_hub onnx onnxruntime onnxscript",
    "experiments": "numpy torch pyarrow rich optuna",
    "testing": "numpy torch transformers tokenizers pytest rich",
    "api": "numpy",
    "service": "numpy fastapi starlette pydantic uvicorn prometheus_client",
    "cli": "rich",
}

# The same for names that only type checkers see.
TYPING_LIBRARIES = {
    "base": "torch PIL",
    "models": "tokenizers",
    "api": "torch transformers",
    "render": "torch",
    "data": "torch",
}


def table(rows: dict[str, str]) -> dict[str, frozenset[str]]:
    return {room: frozenset(names.split()) for room, names in rows.items()}


PLAN = Plan("didact", frozenset(BASE.split()), table(ROOMS), table(LIBRARIES), table(TYPING_LIBRARIES))


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return read_imports(DIDACT)


def test_every_module_stands_in_a_room_of_the_plan() -> None:
    assert unknown_rooms(read_modules(DIDACT), PLAN) == []


def test_rooms_import_only_what_the_plan_gives_them(imports: list[Import]) -> None:
    assert edges_outside_plan(imports, PLAN) == []


def test_libraries_are_used_only_where_the_plan_has_them(imports: list[Import]) -> None:
    assert libraries_outside_plan(imports, PLAN) == []


def test_no_import_cycles(imports: list[Import]) -> None:
    assert cycles(imports, PLAN) == []


def test_the_plan_itself_has_no_cycles_and_names_only_known_rooms() -> None:
    edges = [Import(f"didact.{room}", f"didact.{other}", 0) for room in PLAN.rooms for other in PLAN.rooms[room]]
    assert cycles(edges, PLAN) == []
    assert {edge.target.split(".")[1] for edge in edges} | set(LIBRARIES) | set(TYPING_LIBRARIES) <= set(ROOMS)


def test_contributors_are_told_the_same_table() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text("utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \|[^|]*\| *(.*?) *\|$", text, flags=re.MULTILINE)) == ROOMS
    assert f"The modules `{BASE}`" in text


def test_every_library_is_declared_and_every_dependency_is_used(imports: list[Import]) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    needed = distributions(project["dependencies"])
    optional = distributions([line for extra in project["optional-dependencies"].values() for line in extra])
    used = {DISTRIBUTIONS.get(library, library) for library in used_libraries(imports, PLAN)}
    assert used - needed - optional == set(), "imported, but not in pyproject.toml"
    assert needed - used == set(), "a dependency in pyproject.toml that nothing imports"


DISTRIBUTIONS = {"PIL": "pillow"}  # library -> distribution, where the names differ


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", line, maxsplit=1)[0].replace("-", "_") for line in requirements}


# The checks themselves, on small packages with a planted fault.

SMALL = Plan(
    "didact",
    base=frozenset({"types"}),
    rooms=table({"base": "", "ops": "", "models": "ops", "api": "models", "__init__": "api"}),
    libraries=table({"base": "numpy", "ops": "numpy torch", "models": "numpy torch"}),
    typing_libraries=table({"base": "torch"}),
)

SOUND = {
    "__init__": "from didact.api import explain",
    "types": "import numpy as np\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import Tensor",
    "ops/__init__": "",
    "ops/masking": "import torch.nn.functional as F\nfrom didact import types\nfrom .paths import path",
    "ops/paths": "from ..types import Units",
    "models/__init__": "from . import text",
    "models/text": "def load():\n    from didact.ops import masking",
    "api": "from didact.models import text",
}

Build = Callable[[dict[str, str]], Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Writes the sound package with some files replaced, and gives its folder."""

    def write(changes: dict[str, str]) -> Path:
        for name, text in (SOUND | changes).items():
            path = tmp_path / "didact" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", "utf-8")
        return tmp_path / "didact"

    return write


def complaints(package: Path) -> list[str]:
    found = read_imports(package)
    return [
        *unknown_rooms(read_modules(package), SMALL),
        *edges_outside_plan(found, SMALL),
        *libraries_outside_plan(found, SMALL),
        *cycles(found, SMALL),
    ]


def test_a_sound_package_has_no_complaints(build: Build) -> None:
    assert complaints(build({})) == []


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("ops/paths", "from didact.models import text", "'ops' may import base alone, not 'models'"),
        ("ops/paths", "import didact.models.text as t", "'ops' may import base alone, not 'models'"),
        ("ops/paths", "from ..models.text import load", "'ops' may import base alone, not 'models'"),
        ("ops/paths", "from .. import models", "'ops' may import base alone, not 'models'"),
        ("ops/__init__", "from ..models import text", "'ops' may import base alone, not 'models'"),
        ("ops/paths", "def f():\n    import didact.models", "'ops' may import base alone, not 'models'"),
        ("ops/paths", "try:\n    import didact.models\nexcept ImportError:\n    pass", "not 'models'"),
        ("types", "import typing\nif typing.TYPE_CHECKING:\n    import didact.ops", "'base' may import base alone"),
        ("__init__", "from didact.models import text", "'__init__' may import api, not 'models'"),
        ("models/text", "from didact import explain", "the root is for users"),
        ("models/text", "import didact", "the root is for users"),
        ("models/text", "from .. import __version__", "the root is for users"),
        ("models/text", "from didact.metrics import auc", "no room 'metrics' in the plan"),
        ("metrics/auc", "", "no room 'metrics' in the plan"),
        ("types", "import torch", "room 'base' may use numpy here"),
        ("types", "if TYPE_CHECKING:\n    pass\nelse:\n    import torch", "room 'base' may use numpy here"),
        ("types", "if not TYPE_CHECKING:\n    import torch", "room 'base' may use numpy here"),
        ("ops/paths", "def f():\n    from pandas import DataFrame", "room 'ops' may use numpy, torch here"),
        ("api", "import torch", "room 'api' may use no library here"),
        ("ops/paths", "def f():\n    from .masking import g", "import cycle: didact.ops.masking <- didact.ops.paths"),
        ("ops/paths", "if TYPE_CHECKING:\n    from didact.ops.masking import M", "import cycle"),
        ("models/text", "from didact.models import load", "import cycle"),
    ],
)
def test_a_planted_fault_is_found(build: Build, module: str, text: str, complaint: str) -> None:
    assert complaint in "\n".join(complaints(build({module: text})))
