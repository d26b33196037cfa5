"""A file with a text that cannot be explained: named, or left out and reported."""

import json
from pathlib import Path

import pytest

from didact.cli import main
from didact.render.jsonio import load


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in ("A good film.", "\u200b", "A dull one.")))
    return path


@pytest.mark.parametrize(
    "command", [["explain", "--method", "occlusion"], ["compare", "--methods", "occlusion,random"]]
)
def test_the_bad_text_is_named_or_skipped(command: list[str], texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [command[0], str(texts), *command[1:], "--format", "json"]
    assert main(arguments) == 2
    failed = capsys.readouterr()
    assert failed.out == ""
    assert "text 2 of 3, '\\u200b': " in failed.err
    assert main([*arguments, "--on-error", "skip"]) in (0, None)
    skipped = capsys.readouterr()
    explained = {made.example.text for made in load(skipped.out)}
    assert explained == {"A good film.", "A dull one."}
    assert skipped.err.count("\n") == 1
    assert skipped.err.startswith("didact: text 2 ('\\u200b') was not explained by ")


def test_nothing_left_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"text": "\u200b"}))
    assert main(["explain", str(path), "--method", "occlusion", "--on-error", "skip"]) == 2
    assert "nothing could be explained" in capsys.readouterr().err
