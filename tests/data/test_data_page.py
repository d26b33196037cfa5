"""docs/data.md says what the presets are, and its examples load."""

import re
from pathlib import Path

import pytest

from didact.data.load import load_data
from didact.data.presets import PRESETS
from didact.types import Example, Span

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def presets_table() -> list[str]:
    return [
        row(
            f"`{preset.name}`",
            preset.task,
            ", ".join(preset.labels) or "–",
            ", ".join(preset.splits),
            preset.rationales or "–",
            f"`{preset.hub}`" if preset.hub else "–",
            preset.reference,
        )
        for preset in PRESETS.values()
    ]


def parts_table() -> list[str]:
    return [
        row(f"`{preset.name}`", f"`{name}`", part.of, part.source)
        for preset in PRESETS.values()
        for name, part in preset.parts.items()
    ]


def notes() -> list[str]:
    return [f"- `{preset.name}`: {preset.notes}." for preset in PRESETS.values() if preset.notes]


@pytest.mark.parametrize("lines", [presets_table(), parts_table(), notes()], ids=["presets", "parts", "notes"])
def test_the_page_lists_the_presets(lines: list[str]) -> None:
    assert "\n" + "\n".join(lines) + "\n" in PAGE


@pytest.mark.parametrize("kind", ["jsonl", "csv", "txt"])
def test_the_examples_of_formats_load(kind: str, tmp_path: Path) -> None:
    (block,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / f"x.{kind}"
    path.write_text(block, encoding="utf-8")
    texts = {example.text: example for example in load_data(path)}
    assert "Warm and witty." in texts
    if kind != "txt":
        assert texts["Warm and witty."].rationale == (Span(0, 4), Span(9, 15))


def test_the_python_of_the_page_runs() -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/data.md", "exec"), names)
    assert all(isinstance(example, Example) for example in names["data"])  # type: ignore[attr-defined]
