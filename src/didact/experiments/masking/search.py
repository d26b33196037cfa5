"""Search for the settings that a metric rates best, with the tree-structured Parzen estimator (TPE) of Optuna.

All trials are stored in a journal file: a search that was killed resumes where it stopped. A trial that was running
then has its settings already, and is evaluated again with these. The settings of a trial depend on the seed, its number
and the trials before it, so a search that was killed ends as one that was not, and several processes give what one
gives with as many trials at a time.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from didact.errors import DidactError, ParameterError
from didact.locks import locked
from didact.models.planner import is_out_of_memory
from didact.progress import advance, working
from didact.provenance import content_hash

if TYPE_CHECKING:
    import optuna

JOURNAL = "trials.journal"
FAILURE = "failure"
"""Where a trial keeps the reason why it failed."""
RESUME = "the same call resumes where it stopped, with fewer trials together if need be"

Settings = Mapping[str, float]
Objective = Callable[[Settings], float]
"""From settings to the value that a metric gives them; must be picklable where several processes evaluate."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """What is searched, and how long.

    Args:
        space: setting -> its smallest and largest value.
        lower_is_better: direction of the values.
        trials: how many settings are tried.
        together: trials that are drawn at a time and evaluated in as many processes; 1 evaluates in this one.
        seed: decides the settings that are tried.
    """

    space: Mapping[str, tuple[float, float]]
    lower_is_better: bool
    trials: int = 30
    together: int = 1
    seed: int = 42

    def __post_init__(self) -> None:
        for name in ("trials", "together"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} of a search must be at least 1, got {getattr(self, name)!r}")
        if not self.space:
            raise ParameterError("a search needs at least one setting with its range")
        for name, (low, high) in self.space.items():
            if not -math.inf < low < high < math.inf:
                raise ParameterError(
                    f"the range of {name} must be two finite numbers, the smaller first; got {low, high}"
                )


@dataclass(frozen=True)
class SearchTrial:
    """One trial.

    Attributes:
        number: counted from 0.
        settings: that were tried.
        value: what the metric gave; None where the trial failed.
        failure: why it failed; else empty.
    """

    number: int
    settings: Settings
    value: float | None
    failure: str = ""


@dataclass(frozen=True)
class SearchResult:
    """All trials of a search.

    Attributes:
        trials: in the order of their numbers.
        lower_is_better: direction of the values.
    """

    trials: tuple[SearchTrial, ...]
    lower_is_better: bool

    @property
    def ranked(self) -> list[SearchTrial]:
        """The trials that have a value, the best first; of equal ones the earlier."""
        sign = 1.0 if self.lower_is_better else -1.0
        known = [trial for trial in self.trials if trial.value is not None]
        return sorted(known, key=lambda trial: sign * (trial.value or 0.0))

    @property
    def best(self) -> SearchTrial:
        """The trial with the best value, the first of equal ones."""
        return self.ranked[0]

    @property
    def failed(self) -> tuple[SearchTrial, ...]:
        """The trials that gave no value."""
        return tuple(trial for trial in self.trials if trial.value is None)


def search(objective: Objective, config: SearchConfig, folder: Path, key: str = "") -> SearchResult:
    """Try settings until there are as many trials as wanted; those of an earlier call in the same folder count.

    Args:
        objective: evaluates settings. A trial fails, with its reason, where it raises a ``DidactError`` or a
            ``RuntimeError``, or returns something that is no finite number. Too little memory is nothing that
            settings are to blame for: it stops the search.
        config: what is searched.
        folder: where the journal is.
        key: hash of all else that decides the values, such as model and texts; another key is another search.

    Raises:
        DidactError: all trials failed, a process was killed, or memory ran out.
    """
    with locked(folder, "choose another folder"):
        study = _study(config, folder / JOURNAL, key)
        with evaluator(objective, config.together) as evaluate:
            _complete(study, config, evaluate)
    result = SearchResult(tuple(map(_outcome, study.trials)), config.lower_is_better)
    if len(result.failed) == len(result.trials):
        reason = result.failed[0].failure
        raise DidactError(f"all {len(result.trials)} trials of the search failed, the first of them with: {reason}")
    return result


Evaluate = Callable[[Mapping[int, Settings]], Iterator[tuple[int, float | None, str]]]
"""From settings by number to the number, value and failure of each, in the order in which they end."""


def _complete(study: optuna.Study, config: SearchConfig, evaluate: Evaluate) -> None:
    """Evaluate what a killed call left running, then further trials, ``together`` at a time."""
    from optuna.trial import TrialState

    with working("searching settings", config.trials):
        advance(min(config.trials, len(study.get_trials(states=(TrialState.COMPLETE, TrialState.FAIL)))))
        while True:
            _draw(study, config)
            running = study.get_trials(states=(TrialState.RUNNING,))
            if not running:
                return
            for number, value, failure in evaluate({trial.number: trial.params for trial in running}):
                _tell(study, number, value, failure)
                advance(1)


def _draw(study: optuna.Study, config: SearchConfig) -> None:
    """Begin the next trials, or those that a killed call did not get to: always up to a multiple of ``together``."""
    from optuna.trial import Trial, TrialState

    running = [trial._trial_id for trial in study.get_trials(states=(TrialState.RUNNING,))]
    many = len(study.trials)
    last = many if running and many % config.together == 0 else (many // config.together + 1) * config.together
    trials = [Trial(study, number) for number in running]
    trials.extend(study.ask() for _ in range(min(last, config.trials) - many))
    for trial in trials:
        for name, (low, high) in config.space.items():
            trial.suggest_float(name, low, high)


def _tell(study: optuna.Study, number: int, value: float | None, failure: str) -> None:
    from optuna.trial import Trial, TrialState

    if value is None:
        Trial(study, study.trials[number]._trial_id).set_user_attr(FAILURE, failure)
        study.tell(number, state=TrialState.FAIL)
    else:
        study.tell(number, value)


@contextmanager
def evaluator(objective: Objective, together: int) -> Iterator[Evaluate]:
    """Evaluates in this process, or in several that are started once; a worker of a study may start none."""
    if together == 1 or multiprocessing.current_process().daemon:
        yield lambda trials: ((number, *evaluated(objective, settings)) for number, settings in trials.items())
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(together, context, initializer=_use_one_thread) as pool:

        def evaluate(trials: Mapping[int, Settings]) -> Iterator[tuple[int, float | None, str]]:
            waiting = {pool.submit(evaluated, objective, settings): number for number, settings in trials.items()}
            try:
                for done in as_completed(waiting):
                    yield (waiting[done], *done.result())
            except BrokenProcessPool:
                raise DidactError(f"a process of the search was killed, or had too little memory; {RESUME}") from None

        yield evaluate


def _use_one_thread() -> None:
    """Processes share the cores: more threads than cores make all of them slow. Torch reads this when it is loaded."""
    os.environ["OMP_NUM_THREADS"] = "1"


def evaluated(objective: Objective, settings: Settings) -> tuple[float | None, str]:
    """The value that settings have, or None and the reason why they have none."""
    try:
        value = float(objective(settings))
    except (DidactError, RuntimeError, ArithmeticError) as problem:
        if is_out_of_memory(problem) or (problem.__cause__ is not None and is_out_of_memory(problem.__cause__)):
            raise DidactError(f"memory ran out in a trial of the search; {RESUME}") from problem
        return None, f"{type(problem).__name__}: {problem!s:.400}"
    return (value, "") if math.isfinite(value) else (None, f"the metric is {value}, which is no finite number")


def _outcome(trial: optuna.trial.FrozenTrial) -> SearchTrial:
    return SearchTrial(trial.number, dict(trial.params), trial.value, str(trial.user_attrs.get(FAILURE, "")))


def _study(config: SearchConfig, journal: Path, key: str) -> optuna.Study:
    """The study in a journal; what a killed process left behind in it is cleared away, as only this one writes it."""
    _check_installed()
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    _cut_torn_line(journal)
    journal.with_name(f"{journal.name}.lock").unlink(missing_ok=True)
    decisive = [dict(config.space), config.lower_is_better, config.together, config.seed, key]
    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        sampler=_sampler(config.seed),
        study_name=content_hash(decisive),
        direction="minimize" if config.lower_is_better else "maximize",
        load_if_exists=True,
    )


def _sampler(seed: int) -> optuna.samplers.BaseSampler:
    """TPE that is seeded anew for every setting of every trial, so that it does not matter where a search resumed."""
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    class SeededByTrial(optuna.samplers.BaseSampler):
        def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
            return {}

        def sample_relative(
            self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
        ) -> dict[str, object]:
            return {}

        def sample_independent(
            self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
        ) -> object:
            own = int(content_hash([seed, trial.number, param_name])[:8], 16)
            tpe = optuna.samplers.TPESampler(seed=own, constant_liar=True)
            return tpe.sample_independent(study, trial, param_name, param_distribution)

    return SeededByTrial()


def _cut_torn_line(journal: Path) -> None:
    """Drop the end of a journal whose last line was being written when its process was killed."""
    if journal.is_file():
        content = journal.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with journal.open("rb+") as file:
                file.truncate(len(whole))


def _check_installed() -> None:
    try:
        import optuna
    except ModuleNotFoundError:
        raise ParameterError(
            "a search for settings needs Optuna, which is not installed: pip install 'didact[search]'; or give the "
            "settings and leave the search out"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
