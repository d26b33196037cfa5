"""The table "to add a … touch …" of CONTRIBUTING cannot rot: it is held against the registries and the modules."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.third_party.installed import REGISTRIES

REPO = Path(__file__).resolve().parents[2]
CELLS = (
    r"(\w+)(?: of recipe)?",
    *(f"`({cell})`" for cell in (r"src/\S+", r"didact[\w.]+", r"didact\.\w+", r"didact\S+")),
)
ROW = re.compile(r"^\| " + r" \| ".join(CELLS) + r" \|$", re.MULTILINE)
ROWS = ROW.findall((REPO / "CONTRIBUTING.md").read_text("utf-8"))


def test_every_registry_has_a_row() -> None:
    assert sorted((kind, group) for kind, _, _, group, _ in ROWS) == sorted(
        (registry.kind, registry.group) for registry in REGISTRIES
    )


def test_no_registry_is_missing_from_the_list() -> None:
    modules = [path for path in (REPO / "src").rglob("*.py") if path.name != "registry.py"]
    made = sum(_registries(path) for path in modules)
    assert made == len(REGISTRIES)


def _registries(path: Path) -> int:
    """How many registries a module makes."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return sum(isinstance(function, ast.Name) and function.id == "Registry" for function in calls)


@pytest.mark.parametrize(("kind", "file", "base", "group", "suite"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_is_true(kind: str, file: str, base: str, group: str, suite: str) -> None:
    (registry,) = [registry for registry in REGISTRIES if registry.group == group]
    assert registry.kind == kind
    folder, _, name = file.rpartition("/")
    assert name == "<name>.py"
    module, _, cls = base.rpartition(".")
    base_class = getattr(importlib.import_module(module), cls)
    own = [registry.get(name) for name in registry.names()]
    assert own
    for registered in own:
        assert issubclass(registered, base_class)
        parts = registered.__module__.split(".")
        card = registered.card  # type: ignore[attr-defined]
        assert "/".join(["src", *parts[:-1]]) == folder.replace("<family>", card.family)
        assert parts[-1] == card.name
    checks = importlib.import_module(suite)
    assert checks.CHECKS
    assert callable(checks.check)
