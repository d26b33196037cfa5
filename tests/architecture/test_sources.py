"""Facts about single files: one registered method each, rooms that say what they are for, no paths of one machine."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import machine_paths, newest_version, package_docstrings, registration

REPO = Path(__file__).resolve().parents[2]
DIDACT = REPO / "src" / "didact"
FOLDERS = ("attribution", "trained/shapes", "trained/signals", "trained/presets")
METHODS = [
    path
    for folder in FOLDERS
    for path in sorted((DIDACT / folder).glob("*.py"))
    if path.stem != "base" and not path.stem.startswith("_")
]


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_registered_thing_is_one_file_with_one_class_of_its_name(path: Path) -> None:
    assert registration(path) == []


def test_every_package_says_what_it_is_for() -> None:
    assert package_docstrings(DIDACT, without_code=["embedded"]) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [complaint for path in texts() for complaint in machine_paths(path, REPO)] == []


def texts() -> Iterator[Path]:
    """Text files a person wrote, as far as they can be told without git."""
    folders = [REPO / name for name in ("src", "tests", "benchmarks", "scripts", "recipes", "docs", ".ci")]
    written = {".py", ".md", ".toml", ".html", ".css", ".js", ".sh", ""}
    for path in [*REPO.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.is_file() and path.suffix in written and not path.name.startswith("."):
            yield path


def test_the_newest_version_in_the_changelog_is_the_projects() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    assert newest_version((REPO / "CHANGELOG.md").read_text("utf-8")) == project["version"]


# The checks themselves, on planted faults.

METHOD = '@register(Card(name="occlusion", family="perturbation"))\nclass Occlusion:\n    pass\n'


@pytest.mark.parametrize("text", [METHOD, METHOD.replace("@register(", "@base.register(types.", 1)])
def test_registration_accepts_one_class_of_the_files_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "occlusion.py"
    path.write_text(text, "utf-8")
    assert registration(path) == []


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("class Occlusion:\n    pass\n", "none"),
        (METHOD.replace("occlusion", "lime"), "['lime']"),
        (METHOD + METHOD, "['occlusion', 'occlusion']"),
        (METHOD.replace('Card(name="occlusion", family="perturbation")', "CARD"), "[None]"),
        ('@dataclass(frozen=True)\nclass Card:\n    name = "occlusion"\n', "none"),
    ],
)
def test_registration_finds_planted_faults(tmp_path: Path, text: str, registers: str) -> None:
    path = tmp_path / "occlusion.py"
    path.write_text(text, "utf-8")
    assert registration(path) == [
        f"occlusion.py: must register exactly one class, as 'occlusion'; it registers {registers}"
    ]


def test_package_docstrings_finds_planted_faults(tmp_path: Path) -> None:
    package = tmp_path / "didact"
    for name, text in {
        "__init__": '"""Explains."""',
        "ops/__init__": "",
        "models/text": "",
        "embedded/__init__": '"""Files."""\nimport json',
    }.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert package_docstrings(package, without_code=["embedded"]) == [
        "didact/models: has no __init__.py",
        "didact/ops/__init__.py: has no docstring",
        "didact/embedded/__init__.py: this room holds files only",
    ]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('OUT = "/' + 'home/ann/out"', True),
        ("cd /" + "tmp/x", True),
        ("cd {above}/elsewhere", True),
        ("see https://example.org/home/page", False),
        ("~/tmp/x and $(PREFIX)/root/x", False),
        ("runs/demo and ../shared", False),
    ],
)
def test_machine_paths_are_told_from_plain_ones(tmp_path: Path, line: str, named: bool) -> None:
    checkout = tmp_path / "didact"
    checkout.mkdir()
    path = checkout / "notes.md"
    path.write_text(line.format(above=tmp_path) if "{above}" in line else line, "utf-8")
    assert bool(machine_paths(path, checkout)) is named


@pytest.mark.parametrize(
    ("changelog", "version"),
    [
        ("# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n## 0.1.0\n", "0.2.0"),
        ("## [1.0.0] - 2026-01-31\n", "1.0.0"),
        ("# Changelog\n\n### 0.1.0\n", None),
    ],
)
def test_newest_version_reads_the_first_version_heading(changelog: str, version: str | None) -> None:
    assert newest_version(changelog) == version
