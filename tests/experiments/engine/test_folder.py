"""The folder of a run: one recipe, one writer, and old results until all new ones are there."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path

import pytest

from didact import disk
from didact.errors import DidactError, FormatError, InputError
from didact.experiments.engine import folder as folders
from didact.experiments.engine.objects import read_object, write_object
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.locks import locked
from didact.store import files, records
from tests.third_party.installed import installed

with installed():
    from toybox.toy_recipe import ToyJob, ToyRecipe


def run(out: Path, *numbers: int, overwrite: bool = False, job: type[ToyJob] = ToyJob) -> None:
    run_job(job(ToyRecipe(numbers=numbers), RunOptions(out, overwrite=overwrite)))


def squares(out: Path) -> list[float]:
    return [row.value for row in records.from_table(records.read(out / "records.parquet"))]


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


class Failing(ToyJob):
    """Fails in its last step."""

    def add(self) -> None:  # type: ignore[override]
        raise KeyError("planted failure")


class Torn(ToyJob):
    """The disk is full when the second file of the results is written."""

    def finish(self, *, complete: bool) -> None:
        (self.results / "manifest.json").write_text('{"kind": "of the new run"}')
        raise disk.refused(self.results / "records.parquet", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def test_another_recipe_is_refused_with_what_differs_and_what_to_do(tmp_path: Path) -> None:
    run(tmp_path, 1, 2)
    with pytest.raises(InputError, match=r"another recipe, with other numbers; give another folder .*--overwrite"):
        run(tmp_path, 1, 2, 3)
    assert squares(tmp_path) == [1.0, 4.0]
    run(tmp_path, 1, 2)
    run(tmp_path, 1, 2, 3, overwrite=True)
    assert squares(tmp_path) == [1.0, 4.0, 9.0]
    run(tmp_path, 1, 2, 3)  # it belongs to the new recipe now


def test_nothing_of_an_overwritten_run_is_left_beside_the_new_one(tmp_path: Path) -> None:
    run(tmp_path, 1)
    for name in ("report.html", "summary.json"):
        (tmp_path / name).write_text("of the old run")
    (tmp_path / "mine.txt").write_text("no result of a run")
    run(tmp_path, 2, overwrite=True)
    assert {"report.html", "summary.json"} & names(tmp_path) == set()
    assert {"mine.txt", "records.parquet", "manifest.json"} <= names(tmp_path)


@pytest.mark.parametrize("job", [Failing, Torn])
def test_results_stay_until_all_new_ones_are_written(job: type[ToyJob], tmp_path: Path) -> None:
    run(tmp_path, 1)
    before = {name: (tmp_path / name).read_bytes() for name in ("records.parquet", "manifest.json")}
    with pytest.raises((KeyError, InputError)):
        run(tmp_path, 1, 2, overwrite=True, job=job)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    run(tmp_path, 1, 2)
    assert squares(tmp_path) == [1.0, 4.0]


@pytest.mark.parametrize("moment", range(4))
def test_a_kill_while_results_change_places_leaves_no_mixture(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, 1)
    (tmp_path / "manifest.json").write_text('{"kind": "of the old run"}')
    moves = [0]

    class KilledError(BaseException):
        pass

    def counted(move: object) -> object:
        def moved(*given: object, **options: object) -> object:
            if moves[0] == moment:
                raise KilledError
            moves[0] += 1
            return move(*given, **options)  # type: ignore[operator]

        return moved

    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_object", counted(folders.write_object))
        patch.setattr(disk, "move_files", counted(disk.move_files))
        with pytest.raises(KilledError):
            run(tmp_path, 1, 2, overwrite=True)
    folders.settled(tmp_path)  # as whoever reads does
    found = squares(tmp_path), read_object(tmp_path / "manifest.json", "")["kind"]
    assert found == (([1.0], "of the old run") if moment == 0 else ([1.0, 4.0], "toy_recipe"))
    run(tmp_path, 1, 2, overwrite=True)
    assert squares(tmp_path) == [1.0, 4.0]


def test_a_folder_that_is_being_written_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path, ""), pytest.raises(InputError, match=f"being written by process {os.getpid()}"):
        run(tmp_path, 1)


@pytest.mark.parametrize("place", ["out", "store"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = {"out": tmp_path / "run", "store": tmp_path / "parts"} | {place: tmp_path / "file" / "x"}
    with pytest.raises(InputError, match=r"cannot write .*file"):
        run_job(ToyJob(ToyRecipe(), RunOptions(**options)))
    assert not list(tmp_path.rglob("calls.txt"))


def refusal(out: Path) -> str | None:
    """Why results cannot be read or computed again; None where they are as they should be."""
    try:
        found = squares(out), read_object(out / "manifest.json", "")["seconds"]
        run(out, 1, 2)
    except DidactError as problem:
        return str(problem)
    assert found == ([1.0, 4.0], 1.25)
    assert squares(out) == [1.0, 4.0]
    return None


def test_every_flipped_bit_is_refused_by_name_or_changes_nothing(tmp_path: Path) -> None:
    """In parts, records and the objects beside them: 60 random bits, then read as a report does, and run again."""
    run(tmp_path, 1, 2)
    write_object(tmp_path / "manifest.json", {"kind": "toy_recipe", "seconds": 1.25})
    rng, refused = random.Random(17), 0
    stored = [path for path in sorted(tmp_path.rglob("*")) if path.suffix in (".parquet", ".json")]
    for _ in range(60):
        path = rng.choice(stored)
        data = path.read_bytes()
        harmed, bit = bytearray(data), rng.randrange(8 * len(data))
        harmed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(harmed)
        message = refusal(tmp_path)
        if message is not None:
            assert path.name in message
            refused += 1
        path.write_bytes(data)
        write_object(tmp_path / "manifest.json", {"kind": "toy_recipe", "seconds": 1.25})
    assert refused > 50


def test_a_part_of_another_result_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 1, 2)
    job = ToyJob(ToyRecipe(numbers=(1, 2)), RunOptions(tmp_path))
    first, second = (job.squaring(number).key for number in (1, 2))
    place = tmp_path / "parts" / second[:2] / f"{second}.parquet"
    place.write_bytes((tmp_path / "parts" / first[:2] / f"{first}.parquet").read_bytes())
    with pytest.raises(FormatError, match=f"{second}.parquet holds the result {first} instead of {second}; delete it"):
        run(tmp_path, 1, 2)
    files.write(place, files.read(place).replace_schema_metadata(None))
    with pytest.raises(FormatError, match="holds no key, as an older version wrote it"):
        run(tmp_path, 1, 2)
    place.unlink()
    run(tmp_path, 1, 2)


def test_the_folder_says_what_it_belongs_to(tmp_path: Path) -> None:
    run(tmp_path, 1)
    held = json.loads((tmp_path / "run.json").read_text())
    assert set(held["entries"]) == {"kind", "numbers"}
    assert held["files"] == ["manifest.json", "records.parquet"]
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(FormatError, match=r"run\.json is not JSON .*delete it"):
        run(tmp_path, 1)
