"""Every import statement of a package, and what may be wrong with them. Checks return complaints; none is fine."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = "__init__"  # the room of the package's own __init__.py


@dataclass(frozen=True)
class Import:
    """One imported module. ``typing_only``: the statement stands under ``if TYPE_CHECKING``."""

    importer: str
    target: str
    line: int
    typing_only: bool = False

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def read_modules(package: Path) -> dict[str, Path]:
    """Dotted name -> file of every module below ``package``."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def read_imports(package: Path) -> list[Import]:
    """All imports below ``package``: absolute and relative, at any depth, also under TYPE_CHECKING."""
    modules = read_modules(package)
    found = []
    for importer, path in modules.items():
        for node, typing_only in _statements(ast.parse(path.read_text("utf-8"))):
            parent = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
            found += [Import(importer, t, node.lineno, typing_only) for t in sorted(_targets(node, parent, modules))]
    return found


def _statements(node: ast.AST, typing_only: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, typing_only
    guarded = node.body if isinstance(node, ast.If) and _is_type_checking(node.test) else []
    for child in ast.iter_child_nodes(node):
        yield from _statements(child, typing_only or child in guarded)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _targets(node: ast.Import | ast.ImportFrom, parent: str, modules: Collection[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    source = node.module or ""
    if node.level:
        here = parent.split(".")
        source = ".".join(here[: len(here) - node.level + 1] + ([source] if source else []))
    # `from a import b` is an import of a.b where that is a module, else of a.
    return {name if (name := f"{source}.{alias.name}") in modules else source for alias in node.names}


@dataclass(frozen=True)
class Plan:
    """The rooms of a package and what each may import, beyond itself and the base modules."""

    package: str
    base: frozenset[str]
    rooms: Mapping[str, frozenset[str]]
    libraries: Mapping[str, frozenset[str]]
    typing_libraries: Mapping[str, frozenset[str]]

    def room(self, module: str) -> str:
        name = [*module.split("."), ROOT][1]
        return "base" if name in self.base else name

    def owns(self, module: str) -> bool:
        return module.split(".")[0] == self.package


def unknown_rooms(modules: Collection[str], plan: Plan) -> list[str]:
    """Modules that stand in no room of the plan."""
    return [
        f"{module}: no room '{room}' in the plan; add it to ROOMS with what it may import, or move the module"
        for module in modules
        if (room := plan.room(module)) not in plan.rooms
    ]


def edges_outside_plan(imports: Collection[Import], plan: Plan) -> list[str]:
    """Imports from room to room that the plan does not have, and imports of the bare root."""
    complaints = []
    for edge in imports:
        if not plan.owns(edge.target):
            continue
        here, there = plan.room(edge.importer), plan.room(edge.target)
        if there == ROOT:
            complaints.append(f"{edge}: the root is for users; import from the module that has the thing")
        elif there not in plan.rooms:
            complaints.append(f"{edge}: there is no room '{there}' in the plan")
        elif there not in {here, "base"} | plan.rooms.get(here, frozenset()):
            allowed = ", ".join(sorted(plan.rooms.get(here, ()))) or "base alone"
            complaints.append(f"{edge}: room '{here}' may import {allowed}, not '{there}'")
    return complaints


def libraries_outside_plan(imports: Collection[Import], plan: Plan) -> list[str]:
    """Imports of third-party libraries that the plan does not give to the room."""
    complaints = []
    for edge in _third_party(imports, plan):
        room, library = plan.room(edge.importer), edge.target.split(".")[0]
        allowed = plan.libraries.get(room, frozenset())
        if edge.typing_only:
            allowed |= plan.typing_libraries.get(room, frozenset())
        if library not in allowed:
            complaints.append(f"{edge}: room '{room}' may use {', '.join(sorted(allowed)) or 'no library'} here")
    return complaints


def used_libraries(imports: Collection[Import], plan: Plan) -> set[str]:
    """Top-level names of all third-party libraries that are imported."""
    return {edge.target.split(".")[0] for edge in _third_party(imports, plan)}


def _third_party(imports: Collection[Import], plan: Plan) -> list[Import]:
    return [e for e in imports if not plan.owns(e.target) and e.target.split(".")[0] not in sys.stdlib_module_names]


def cycles(imports: Collection[Import], plan: Plan) -> list[str]:
    """One cycle between modules, if there is any, over all imports."""
    graph: dict[str, set[str]] = {}
    for edge in imports:
        if plan.owns(edge.target):
            graph.setdefault(edge.importer, set()).add(edge.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []
