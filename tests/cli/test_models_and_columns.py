"""Options for the user's own model and table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from didact.cli import main
from didact.render.jsonio import load
from didact.testing.tiny import tiny_model

QUICK = ("--method", "occlusion", "--format", "json")


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nli")
    network, tokenizer = tiny_model("bert", ["contradiction", "neutral", "entailment"])
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_candidate_labels(nli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["explain", "a warm film", "--model", str(nli), "--inputs", "zero_shot"]
    assert main([*given, "--label-names", "films, food", *QUICK]) == 0
    assert load(capsys.readouterr().out)[0].prediction.labels == ("films", "food")
    assert "name at least two" in refused(given, capsys)


def test_names_and_types_of_a_model(nli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["explain", "a warm film", "--model", str(nli), "--inputs", "text"]
    assert main([*given, "--label-names", "no,perhaps,yes", "--dtype", "bfloat16", *QUICK]) == 0
    assert load(capsys.readouterr().out)[0].prediction.labels == ("no", "perhaps", "yes")
    assert "2 labels were given, but the model has 3 outputs" in refused([*given, "--label-names", "no,yes"], capsys)
    assert "dtype must be one of float32" in refused([*given, "--dtype", "int8"], capsys)


def test_columns_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("body,stars\nA warm film.,good\nA dull plot.,bad\n")
    named = ["--text-column", "body", "--label-column", "stars"]
    assert main(["explain", str(table), *named, *QUICK]) == 0
    explanations = load(capsys.readouterr().out)
    assert [(one.example.text, one.example.label) for one in explanations] == [
        ("A warm film.", "good"),
        ("A dull plot.", "bad"),
    ]
    assert "column 'bodi' (field 'text') is missing; found body, stars" in refused(
        ["explain", str(table), "--text-column", "bodi"], capsys
    )
    twice = ["explain", str(table), *named, "--column", "text=body"]
    assert "named by both --text-column and --column text=" in refused(twice, capsys)
    assert "none was given" in refused(["explain", "A warm film.", "--text-column", "body"], capsys)


def test_columns_of_what_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("body,stars\nA warm film.,positive\nA dull plot.,negative\n")
    settings = ["--methods", "occlusion,random", "--metrics", "comprehensiveness", "--no-nulls"]
    out = tmp_path / "run"
    given = ["evaluate", "--data", str(table), "--text-column", "body", "--label-column", "stars", *settings]
    assert main([*given, "--out", str(out)]) == 0
    assert "body" in json.dumps(json.loads((out / "manifest.json").read_text()))
    capsys.readouterr()
    assert "is missing" in refused(["evaluate", "--data", str(table), *settings, "--out", str(out / "b")], capsys)
