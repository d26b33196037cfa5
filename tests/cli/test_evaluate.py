"""``didact evaluate`` and ``didact run``: one command from a model and data to a report."""

import json
import shlex
from pathlib import Path

import pytest

from didact.cli import main


def test_one_command_makes_a_report_and_a_recipe_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "first"
    asked = ["evaluate", "--limit", "4", "--methods", "occlusion,lime", "--set", "lime.samples=20"]
    asked += ["--metrics", "comprehensiveness,rationale_auc", "--out", str(folder), "--model", "default"]
    assert main(asked) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(folder / "report.html")
    command = json.loads((folder / "manifest.json").read_text())["command"]
    assert shlex.split(command) == ["didact", *asked]
    summary = json.loads((folder / "summary.json").read_text())
    found = {(row["explainer"], row["metric"]) for row in summary["rows"] if row["family"] != "efficiency"}
    explainers = ("occlusion", "lime", "random", "trivial")
    assert found == {(label, metric) for label in explainers for metric in ("comprehensiveness", "rationale_auc")}
    again = tmp_path / "again"
    assert main(["run", str(folder / "recipe.toml"), "--out", str(again), "--store", str(folder / "parts")]) == 0
    assert (again / "records.parquet").read_bytes() == (folder / "records.parquet").read_bytes()


def test_the_cost_is_told_without_doing_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "none"
    asked = ["evaluate", "--limit", "2", "--methods", "occlusion", "--dry-run", "--out", str(folder)]
    assert main(asked) == 0
    assert "occlusion" in capsys.readouterr().out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "lime,lyme"], "did you mean lime"),
        (["--metrics", "comprehensivness"], "did you mean comprehensiveness"),
        (["--methods", "lime", "--set", "samples=3"], "NAME.SETTING=VALUE"),
        (["--methods", "lime", "--set", "occlusion.span=2"], "do not list"),
        (["--seeds", "a"], "--seeds takes numbers"),
        (["--data", "no-such.jsonl"], "no-such.jsonl"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--limit", "2", "--out", str(tmp_path / "run"), *arguments]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert message in told
    assert not (tmp_path / "run").exists()
