"""The search for settings: better than chance, the same after a kill, and not stopped by a metric without a value."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from didact.errors import DidactError, InputError, ParameterError
from didact.experiments.masking.search import JOURNAL, SearchConfig, SearchResult, search
from didact.locks import locked
from tests.experiments.masking.objectives import SPACE, bowl, partly_undefined, slow_bowl

pytest.importorskip("optuna")

CONFIG = SearchConfig(space=SPACE, lower_is_better=True, trials=30)


def tried(result: SearchResult) -> list[Mapping[str, float]]:
    return [trial.settings for trial in result.trials]


def test_it_comes_near_the_best_settings(tmp_path: Path) -> None:
    result = search(bowl, CONFIG, tmp_path)
    assert len(result.trials) == 30
    values = [trial.value for trial in result.trials if trial.value is not None]
    assert result.best.value == min(values) < 0.02
    assert sum(values[15:]) < sum(values[:15]), "later trials are no better than the first ones"


def test_the_direction_decides_which_value_is_best(tmp_path: Path) -> None:
    result = search(bowl, replace(CONFIG, lower_is_better=False), tmp_path)
    values = [trial.value for trial in result.trials if trial.value is not None]
    assert result.best.value == max(values) > 0.8
    assert result.best.value != values[-1], "the best value is kept, not the last"


def test_the_seed_decides_the_settings(tmp_path: Path) -> None:
    few = replace(CONFIG, trials=12)
    first, second = (tried(search(bowl, few, tmp_path / name)) for name in "ab")
    assert first == second
    assert tried(search(bowl, replace(few, seed=1), tmp_path / "c")) != first


def test_a_worker_of_a_study_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are daemons, which may start none; this objective could not even be sent to one."""
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    result = search(lambda settings: bowl(settings), replace(CONFIG, trials=6, together=3), tmp_path)
    assert [trial.value for trial in result.trials] == [bowl(settings) for settings in tried(result)]


@pytest.mark.parametrize("together", [1, 2])
def test_a_killed_search_goes_on_and_ends_as_one_that_was_not(together: int, tmp_path: Path) -> None:
    config = SearchConfig(space=SPACE, lower_is_better=True, trials=12, together=together)
    command = [sys.executable, "-m", "tests.experiments.masking.objectives", str(tmp_path / "killed"), str(together)]
    process = subprocess.Popen(command, start_new_session=True)
    journal = tmp_path / "killed" / JOURNAL
    deadline = time.monotonic() + 60
    while _told(journal) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = _told(journal)
    assert 3 <= done < 12
    with journal.open("ab") as file:
        file.write(b'{"op_code": 6, "torn')  # the line that a kill cut in two
    calls: list[Mapping[str, float]] = []

    def counted(settings: Mapping[str, float]) -> float:
        calls.append(settings)
        return bowl(settings)

    resumed = search(counted if together == 1 else slow_bowl, config, tmp_path / "killed")
    whole = search(bowl, config, tmp_path / "whole")
    assert tried(resumed) == tried(whole)
    assert [trial.value for trial in resumed.trials] == [trial.value for trial in whole.trials]
    if together == 1:
        assert len(calls) == 12 - done, "trials that had ended were evaluated again"


def _told(journal: Path) -> int:
    """Trials whose value is in the journal; the code of that entry is Optuna's."""
    lines = journal.read_text().splitlines() if journal.is_file() else []
    return sum('"op_code":6' in line and '"state":1' in line for line in lines)


def test_a_value_that_is_no_number_fails_its_trial_with_the_reason_and_not_the_search(tmp_path: Path) -> None:
    result = search(partly_undefined, CONFIG, tmp_path)
    assert len(result.trials) == 30
    reasons = {trial.failure for trial in result.failed}
    assert reasons == {
        "ParameterError: the monitor gave nan after epoch 1",
        "the metric is nan, which is no finite number",
    }
    assert all(trial.settings["preserve"] < 0.5 for trial in result.failed)
    assert result.best.value is not None
    assert result.best.settings["preserve"] >= 0.5


def test_a_search_without_any_value_says_why(tmp_path: Path) -> None:
    with pytest.raises(DidactError, match=r"all 3 trials of the search failed, the first of them with: .* nan"):
        search(lambda settings: float("nan"), replace(CONFIG, trials=3), tmp_path)


def test_too_little_memory_is_no_failed_trial(tmp_path: Path) -> None:
    calls = 0

    def crowded(settings: Mapping[str, float]) -> float:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("CUDA out of memory")
        return bowl(settings)

    config = replace(CONFIG, trials=6)
    with pytest.raises(DidactError, match="memory ran out in a trial of the search; the same call resumes"):
        search(crowded, config, tmp_path / "crowded")
    result = search(crowded, config, tmp_path / "crowded")
    assert calls == 7
    assert not result.failed
    assert tried(result) == tried(search(bowl, config, tmp_path / "plain"))


def test_a_mistake_in_the_objective_is_no_failed_trial(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        search(lambda settings: settings["no such name"], CONFIG, tmp_path)


def test_more_trials_continue_and_another_key_begins_anew(tmp_path: Path) -> None:
    five = search(bowl, replace(CONFIG, trials=5), tmp_path, "texts")
    seven = search(bowl, replace(CONFIG, trials=7), tmp_path, "texts")
    assert tried(seven)[:5] == tried(five)
    assert len(search(bowl, replace(CONFIG, trials=2), tmp_path, "other texts").trials) == 2


def test_a_folder_is_searched_by_one_process(tmp_path: Path) -> None:
    with locked(tmp_path, ""), pytest.raises(InputError, match="choose another folder"):
        search(bowl, CONFIG, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials of a search must be at least 1, got 0"),
        ({"together": 0}, "together of a search must be at least 1"),
        ({"space": {}}, "at least one setting"),
        ({"space": {"sparse": (1.0, 0.0)}}, "range of sparse must be two finite numbers"),
    ],
)
def test_what_cannot_be_searched_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        replace(CONFIG, **change)  # type: ignore[arg-type]
