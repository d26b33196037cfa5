"""The engine: steps are done once, by one process or many, through kills and deadlines; kinds are found by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from didact.cli import main
from didact.errors import UnknownNameError
from didact.experiments.engine.executors import reason
from didact.experiments.engine.kinds import RECIPES, read_recipe
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.store import records
from tests.third_party.installed import SITE, installed

with installed():
    from toybox.toy_recipe import ToyJob, ToyRecipe

SRC = Path(__file__).resolve().parents[3] / "src"


def calls(out: Path) -> list[int]:
    path = out / "calls.txt"
    return sorted(map(int, path.read_text().split())) if path.is_file() else []


def squares(out: Path) -> dict[str, float]:
    return {row.example: row.value for row in records.from_table(records.read(out / "records.parquet"))}


def test_a_step_is_done_once(tmp_path: Path) -> None:
    options = RunOptions(tmp_path, overwrite=True)
    assert run_job(ToyJob(ToyRecipe(numbers=(1, 2)), options)).complete
    assert run_job(ToyJob(ToyRecipe(numbers=(1, 2, 3)), options)).complete
    assert calls(tmp_path) == [1, 2, 3]
    assert squares(tmp_path) == {"1": 1.0, "2": 4.0, "3": 9.0}
    logged = [json.loads(line)["step"] for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert logged == ["square/1", "square/2", "sum", "square/3", "sum"]  # the sum of three is another step


def test_runs_share_parts(tmp_path: Path) -> None:
    for name in ("first", "second"):
        run_job(ToyJob(ToyRecipe(), RunOptions(tmp_path / name, tmp_path / "parts")))
    assert calls(tmp_path / "first") == [1, 2, 3]
    assert calls(tmp_path / "second") == []
    assert squares(tmp_path / "second") == squares(tmp_path / "first")


def test_a_deadline_ends_the_run_with_what_there_is_and_a_later_one_completes_it(tmp_path: Path) -> None:
    recipe = ToyRecipe(numbers=tuple(range(50)), pause=0.05)
    result = run_job(ToyJob(recipe, RunOptions(tmp_path, deadline=time.time() + 0.4)))
    assert not result.complete
    assert 0 < result.left < 50
    assert len(squares(tmp_path)) == 50 - result.left
    assert run_job(ToyJob(recipe, RunOptions(tmp_path))).complete
    assert calls(tmp_path) == list(range(50))
    assert len(squares(tmp_path)) == 50


def test_an_unknown_kind_lists_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"grading", "simulability", "distillation"} <= set(RECIPES.names())
    path = tmp_path / "other.toml"
    path.write_text('kind = "gradin"\n', encoding="utf-8")
    with pytest.raises(UnknownNameError, match=r"did you mean grading.*known: distillation, grading, masking, sca"):
        read_recipe(path)
    assert main(["run", str(path)]) == 2
    assert "unknown kind 'gradin'" in capsys.readouterr().err


def test_entries_of_a_recipe_can_be_changed_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nsource = "corpus"\nlimit = 4\n', encoding="utf-8")
    _, recipe = read_recipe(path, {"data.limit": 2, "seeds": [1]})
    assert recipe.to_dict()["data"] == {"source": "corpus", "limit": 2}
    assert recipe.to_dict()["seeds"] == [1]


def didact_run(folder: Path, recipe: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``didact run`` as a user of the toy package gives it."""
    (folder / "mine.toml").write_text(recipe, encoding="utf-8")
    given = ["run", str(folder / "mine.toml"), "--out", str(folder / "out"), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(SITE)]), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "didact", *given], env=environment, capture_output=True, text=True, check=False
    )


def toy_recipe(entries: dict[str, object]) -> str:
    """A recipe file of the toybox's kind."""
    return "".join(f"{name} = {value}\n" for name, value in {"kind": '"toy_recipe"', **entries}.items())


def test_a_third_partys_kind_runs_from_the_command_line_and_survives_a_killed_worker(tmp_path: Path) -> None:
    recipe = toy_recipe({"numbers": [1, 2, 3, 4, 5], "killed": 3})
    first = didact_run(tmp_path, recipe, "--workers", "2")
    assert first.returncode == 2
    assert "square/3" in first.stderr
    assert "killed, or out of memory" in first.stderr
    assert calls(tmp_path / "out") == [1, 2, 4, 5]  # the others went on
    second = didact_run(tmp_path, recipe, "--workers", "2")
    assert second.returncode == 0, second.stderr
    assert calls(tmp_path / "out") == [1, 2, 3, 4, 5]
    assert squares(tmp_path / "out") == {str(n): float(n**2) for n in range(1, 6)}
    assert "square" in second.stdout  # the means of its records


def test_a_step_without_memory_is_repeated_with_fewer_processes(tmp_path: Path) -> None:
    found = didact_run(tmp_path, toy_recipe({"numbers": list(range(6)), "large": 2, "pause": 0.1}), "--workers", "2")
    assert found.returncode == 0, found.stderr
    assert "warning: square/2 ran out of memory and is repeated; 1 process remains" in found.stderr
    assert calls(tmp_path / "out") == list(range(6))
    first, second = (tmp_path / "out" / "tried.txt").read_text().split()
    assert first != second  # a process without memory is not used again
    logged = [json.loads(line) for line in (tmp_path / "out" / "steps.jsonl").read_text().splitlines()]
    rows = [row for row in logged if row["step"] == "square/2"]
    assert [row.get("failed") for row in rows] == ["MemoryError", None]


def test_a_step_that_has_no_memory_alone_fails_and_the_others_are_done(tmp_path: Path) -> None:
    recipe = toy_recipe({"numbers": list(range(6)), "large": 2, "times": 9, "pause": 0.1})
    found = didact_run(tmp_path, recipe, "--workers", "2")
    assert found.returncode == 2
    assert "square/2 failed: MemoryError" in found.stderr
    assert calls(tmp_path / "out") == [0, 1, 3, 4, 5]
    assert len((tmp_path / "out" / "tried.txt").read_text().split()) == 2


def test_a_long_reason_is_cut_at_its_end() -> None:
    problem = RuntimeError("the beginning says what it is" + " and more" * 100)
    assert reason(problem).startswith("RuntimeError: the beginning says what it is")
    assert len(reason(problem)) == 400


def test_a_deadline_holds_for_workers_too(tmp_path: Path) -> None:
    recipe = toy_recipe({"numbers": list(range(40)), "pause": 0.25})
    first = didact_run(tmp_path, recipe, "--workers", "2", "--seconds", "4")
    assert first.returncode == 0, first.stderr
    assert "the time limit is reached" in first.stderr
    assert len(calls(tmp_path / "out")) < 40
    second = didact_run(tmp_path, recipe.replace("pause = 0.25", "pause = 0.0"), "--workers", "2")
    assert second.returncode == 0, second.stderr
    done = calls(tmp_path / "out")
    assert sorted(set(done)) == list(range(40))
    assert len(done) <= 42  # what the two processes were doing at the end of the grace is done again
