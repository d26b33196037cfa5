"""What can be wrong with single files. Checks return complaints; none is fine."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def registration(path: Path) -> list[str]:
    """The file of a registered thing has exactly one class with ``@register(...Card(name=...))``, of its name."""
    names = list(_registered_names(ast.parse(path.read_text("utf-8"))))
    if names == [path.stem]:
        return []
    return [f"{path.name}: must register exactly one class, as {path.stem!r}; it registers {names or 'none'}"]


def _registered_names(tree: ast.Module) -> Iterator[str | None]:
    for node in ast.walk(tree):
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else []:
            if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "register":
                yield _card_name(decorator)


def _card_name(decorator: ast.Call) -> str | None:
    match decorator.args:
        case [ast.Call(func=card, keywords=keywords)] if (_last_name(card) or "").endswith("Card"):
            for keyword in keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    return None


def _last_name(func: ast.expr) -> str:
    return ast.unparse(func).rpartition(".")[2]


def package_docstrings(package: Path, without_code: Iterable[str] = ()) -> list[str]:
    """Each folder with code has an ``__init__.py`` that says what it is for; rooms of files only have no code."""
    complaints = []
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        init = folder / "__init__.py"
        if not init.exists():
            complaints.append(f"{folder.relative_to(package.parent)}: has no __init__.py")
        elif not ast.get_docstring(ast.parse(init.read_text("utf-8"))):
            complaints.append(f"{init.relative_to(package.parent)}: has no docstring")
    for room in without_code:
        code = [p for p in (package / room).rglob("*.py") if len(ast.parse(p.read_text("utf-8")).body) > 1]
        complaints += [f"{path.relative_to(package.parent)}: this room holds files only" for path in code]
    return complaints


HOMES = re.compile(r"(?<![\w.~:/)}-])/(?:home|root|tmp|Users)/")


def machine_paths(path: Path, checkout: Path) -> list[str]:
    """Lines that name a home or temporary folder, or the folder in which this checkout happens to lie."""
    above = re.compile(rf"(?<![\w.~:/)}}-]){re.escape(checkout.parent.as_posix())}/")
    return [
        f"{path.relative_to(checkout)}:{number} names a path of one machine: {line.strip()[:80]}"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if HOMES.search(line) or (len(checkout.parts) > 2 and above.search(line))
    ]


def newest_version(changelog: str) -> str | None:
    """The version of the first ``## x.y.z`` heading."""
    found = re.search(r"^## \[?(\d+\.\d+\.\d+\S*?)\]?(?:\s|$)", changelog, flags=re.MULTILINE)
    return found and found[1]
