"""Docs that cannot drift: the table of methods is the cards', and the README's code runs."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.simulation.controls import CONTROLS
from didact.students.base import CHANNELS, STUDENTS
from didact.students.matching import reaching

REPO = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPO / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_methods_is_up_to_date() -> None:
    written = (REPO / "docs" / "methods.md").read_text(encoding="utf-8")
    assert written == script("make_docs").methods_page(), "run: python scripts/make_docs.py --table"


def test_the_table_of_metrics_is_up_to_date() -> None:
    written = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert written == script("make_docs").metrics_page(), "run: python scripts/make_docs.py --table"


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("README.md", 5),
        ("docs/aml.md", 1),
        ("docs/decisions.md", 3),
        ("docs/five_minutes.md", 5),
        ("docs/grading.md", 2),
        ("docs/index.md", 1),
        ("docs/kinds/images.md", 1),
        ("docs/kinds/patches.md", 2),
        ("docs/kinds/questions.md", 2),
        ("docs/learned.md", 1),
        ("docs/models.md", 3),
        ("docs/reading_reports.md", 1),
        ("docs/simulability.md", 1),
        ("docs/smat.md", 1),
        ("docs/study.md", 1),
    ],
)
def test_the_python_of_the_docs_runs(page: str, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", (REPO / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == blocks
    for block in found:
        exec(compile(block, page, "exec"), {})


def test_every_student_channel_and_control_is_described() -> None:
    page = (REPO / "docs" / "simulability.md").read_text(encoding="utf-8")
    for card in STUDENTS.cards():
        reach = ", ".join(f"`{name}`" for name in reaching(card))
        assert f"| `{card.name}` | {card.summary} | {reach} |" in page
    for card in CHANNELS.cards():
        summary = card.summary.replace("|", "\\|")  # a bar would end the cell
        assert f"| `{card.name}` | {summary} |" in page
    assert all(f"| `{name}` |" in page for name in CONTROLS)


def test_every_method_that_is_recommended_exists() -> None:
    rows = re.findall(
        r"^\|[^|]*\|([^|]*)\|", (REPO / "docs" / "which_method.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) > 10
    assert named <= set(ATTRIBUTIONS.names())


def test_every_link_in_the_docs_leads_somewhere() -> None:
    for page in (*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
