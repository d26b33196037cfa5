"""What every registered kind of recipe must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check and ``check`` runs one, with AssertionError for what went wrong. Checks that are given
the same folder share one undisturbed run in it. A third party's test file::

    import pytest
    from didact.testing.recipes import CHECKS, check

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_kind(name, tmp_path_factory):
        check(name, MyKind(), {"entry": 1}, tmp_path_factory.getbasetemp() / "mine")

The recipe should be as small as it can be with at least two steps: it is run about four times. The kind must be
registered, as worker processes look it up by its name.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from didact.errors import FormatError
from didact.experiments.engine.kinds import RECIPES, Kind, ReportOptions, kind_of, read_recipe
from didact.experiments.engine.run import LOG, RunResult, run_job, run_recipe
from didact.experiments.engine.steps import KeyedStep, RunOptions
from didact.experiments.engine.toml import TomlRecipe
from didact.metrics.base import METRICS
from didact.store import records
from didact.types import Record

NOTHING = "no_such_entry"
RECORDS = "records.parquet"


@dataclass(frozen=True)
class Trial:
    """A kind with a recipe and a folder for its runs.

    Attributes:
        kind: the kind.
        entries: of the recipe, as a file has them.
        folder: where runs go.
    """

    kind: Kind[TomlRecipe]
    entries: Mapping[str, object]
    folder: Path

    @property
    def recipe(self) -> TomlRecipe:
        """The recipe as the kind reads it; a file without a name has that of the file."""
        return self.kind.recipe.from_dict({"name": "trial", **self.entries})

    def run(self, name: str, *, workers: int = 1, deadline: float | None = None) -> RunResult:
        """Carry out the recipe in a folder of this name."""
        options = RunOptions(self.folder / name, device="cpu", workers=workers, deadline=deadline)
        return run_recipe(self.recipe.on_device("cpu"), options)

    def whole(self) -> Path:
        """The folder of an undisturbed run, which is carried out once."""
        out = self.folder / "whole"
        if not (self.folder / "whole.done").is_file():
            assert self.run("whole").complete, "a run without a deadline is not complete"
            (self.folder / "whole.done").touch()
        return out

    def fresh(self, name: str) -> Path:
        """An empty folder for another run."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name


Check = Callable[[Trial], None]


def check(name: str, kind: Kind[TomlRecipe], recipe: Mapping[str, object], folder: Path) -> None:
    """Run one check on the smallest recipe that makes sense; runs are kept in ``folder``."""
    CHECKS[name](Trial(kind, recipe, folder))


def card_is_complete(trial: Trial) -> None:
    """The card has a name and a sentence, and the kind is registered under that name, as is its recipe."""
    card = trial.kind.card
    assert re.fullmatch(r"[a-z][a-z0-9_]*", card.name), card.name
    assert card.summary.endswith("."), card.summary
    assert RECIPES.get(card.name) is type(trial.kind)
    assert trial.kind.recipe.kind == card.name, f"its recipes say kind = {trial.kind.recipe.kind!r}"


def toml_round_trip(trial: Trial) -> None:
    """A recipe survives its own file, and its plain values."""
    trial.folder.mkdir(parents=True, exist_ok=True)
    path = trial.folder / "recipe of mine.toml"
    path.write_text(trial.recipe.to_toml(), encoding="utf-8")
    kind, recipe = read_recipe(path)
    assert type(kind) is type(trial.kind)
    assert recipe == trial.recipe
    assert trial.kind.recipe.from_dict(json.loads(json.dumps(trial.recipe.to_dict()))) == trial.recipe
    assert trial.kind.recipe.from_toml(path) == trial.recipe


def unknown_entries_are_refused(trial: Trial) -> None:
    """An entry that the kind does not have is refused by name, with the known ones; so is a file of another kind."""
    known = [str(name) for name in trial.entries]
    _refused(lambda: trial.kind.recipe.from_dict({**trial.entries, NOTHING: 1}, "here"), ["here", NOTHING, *known])
    trial.folder.mkdir(parents=True, exist_ok=True)
    path = trial.folder / "other.toml"
    path.write_text(f'kind = "{NOTHING}"\n', encoding="utf-8")
    _refused(lambda: trial.kind.recipe.from_toml(path), [path.name, trial.kind.card.name])


def records_say_where_they_come_from(trial: Trial) -> None:
    """A run writes records with metric, example and settings hash, and a manifest that names the kind."""
    out = trial.whole()
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8"))["kind"] == trial.kind.card.name
    assert type(kind_of(out)) is type(trial.kind)
    rows = _records(out)
    assert rows, "no records"
    for row in rows:
        assert row.metric, row
        assert row.example, f"a record without an example: {row}"
        assert row.settings, f"a record without a hash of settings: {row}"


def results_are_reported(trial: Trial) -> None:
    """The results can be shown in a terminal, and the files that are said to be written are there."""
    shown = io.StringIO()
    written = trial.kind.report(trial.whole(), ReportOptions(), Console(file=shown, width=120))
    assert shown.getvalue().strip(), "nothing is shown"
    assert all(path.is_file() for path in written), f"not all of {written} are there"


def the_same_again_computes_nothing(trial: Trial) -> None:
    """A second run leaves the parts and the log of steps as they are, and writes the same records."""
    out = trial.whole()
    before = _parts(out), _steps(out), (out / RECORDS).read_bytes()
    assert before[0], "no step has left a part"
    assert trial.run("whole").complete
    assert (_parts(out), _steps(out), (out / RECORDS).read_bytes()) == before


def a_deadline_stops_and_a_later_run_continues(trial: Trial) -> None:
    """With no time nothing is computed and the run is not complete; without a limit it is, with equal records."""
    out = trial.fresh("stopped")
    stopped = trial.run("stopped", deadline=time.time() - 1)
    assert not stopped.complete
    assert stopped.left, "no step is left, but none was done"
    assert not _steps(out) + list(_parts(out)), f"computed after the deadline: {_steps(out) or _parts(out)}"
    assert trial.run("stopped").complete
    _assert_same(out, trial.whole())


def a_failure_loses_one_step(trial: Trial) -> None:
    """After a failure half way, the same run goes on where it stopped: no step twice, equal records."""
    out, half = trial.fresh("failed"), max(1, len(_steps(trial.whole())) // 2)
    job = trial.kind.job(trial.recipe.on_device("cpu"), RunOptions(out, device="cpu"))
    do, calls = job.do, [0]

    def fail_half_way(step: KeyedStep) -> None:
        calls[0] += 1
        if calls[0] > half:
            raise KeyError("planted failure")
        do(step)

    job.do = fail_half_way  # type: ignore[method-assign]
    failed = False
    try:
        run_job(job)
    except KeyError:
        failed = True
    assert failed, "a step that fails does not end the run"
    assert trial.run("failed").complete
    steps = _steps(out)
    assert len(set(steps)) == len(steps), f"done twice: {sorted({step for step in steps if steps.count(step) > 1})}"
    assert set(steps) == set(_steps(trial.whole()))
    _assert_same(out, trial.whole())


def two_workers_give_the_same(trial: Trial) -> None:
    """Two processes that share the steps write the records that one does."""
    out = trial.fresh("workers")
    assert trial.run("workers", workers=2).complete
    _assert_same(out, trial.whole())


CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        card_is_complete,
        toml_round_trip,
        unknown_entries_are_refused,
        records_say_where_they_come_from,
        results_are_reported,
        the_same_again_computes_nothing,
        a_deadline_stops_and_a_later_run_continues,
        a_failure_loses_one_step,
        two_workers_give_the_same,
    )
}


def _records(out: Path) -> list[Record]:
    return records.from_table(records.read(out / RECORDS))


def _parts(out: Path) -> dict[str, tuple[int, bytes]]:
    """When each part was written, and what it is."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (out / "parts").rglob("*.parquet")}


def _steps(out: Path) -> list[str]:
    """Keys of the steps that were done, in order."""
    path = out / LOG
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line)["key"] for line in lines]


def _assert_same(out: Path, other: Path) -> None:
    """The same bytes; where a metric measures time, the same records but for its values."""
    timed = {name for name in METRICS.names() if METRICS.card(name).timed}
    rows, others = _records(out), _records(other)
    if any(row.metric in timed for row in rows):
        rows, others = ([row for row in some if row.metric not in timed] for some in (rows, others))
        assert list(map(repr, rows)) == list(map(repr, others)), "other records"  # NaN is not equal to itself
    else:
        assert (out / RECORDS).read_bytes() == (other / RECORDS).read_bytes(), "other records"


def _refused(call: Callable[[], object], named: list[str]) -> None:
    message = None
    try:
        call()
    except FormatError as problem:
        message = str(problem)
    assert message is not None, "nothing was refused"
    assert all(name in message for name in named), f"{message!r} does not name {', '.join(named)}"
