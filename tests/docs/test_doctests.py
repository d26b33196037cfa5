"""The examples at a prompt run: those in docstrings and those on pages."""

import doctest
import importlib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SOURCES = REPO / "src"


def _modules() -> list[str]:
    written = [path for path in SOURCES.rglob("*.py") if ">>>" in path.read_text(encoding="utf-8")]
    named = (".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in written)
    return sorted(name.removesuffix(".__init__") for name in named)


def _pages() -> list[str]:
    pages = (path for path in (REPO / "docs").rglob("*.md") if ">>>" in path.read_text(encoding="utf-8"))
    return sorted(str(path.relative_to(REPO)) for path in pages)


@pytest.mark.parametrize("name", _modules())
def test_examples_of_docstrings_run(name: str) -> None:
    assert not doctest.testmod(importlib.import_module(name)).failed


@pytest.mark.parametrize("page", _pages())
def test_examples_of_pages_run(page: str) -> None:
    tried = doctest.testfile(str(REPO / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried.attempted
    assert not tried.failed
