"""Training for a metric: the weights of a preset's loss are searched by it, and so is the epoch that is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from didact.data.sampling import sample
from didact.errors import ParameterError
from didact.experiments.engine.objects import read_object, write_object
from didact.experiments.masking.search import SearchConfig, SearchResult, SearchTrial, evaluator, search
from didact.progress import advance, working
from didact.protocols import Model
from didact.provenance import content_hash
from didact.trained.judging import Judge
from didact.trained.presets.base import PRESETS, Texts, TrainingInput
from didact.trained.split import TextSplit, split_texts
from didact.types import Example

FINALS = "finalists.json"
SHARE = 0.15
"""Of the texts that are taken for validation, and as many that are held out; as in ``TrainingInput``."""


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """How the weights of a loss are searched; the defaults are AML's.

    Args:
        trials: how many are tried.
        workers: trials at a time, each in a process.
        epochs: of the training of each trial.
        train: texts that each trial learns from.
        validation: texts that it is judged by.
        finalists: how many of the best trials are trained again, on all texts and for all epochs; the one that is best
            then is taken. What is best after a few dozen steps may mark nothing at all after some hundreds. 1 takes
            the best trial as it is.
        seed: decides the texts and what is tried.
    """

    trials: int = 30
    workers: int = 1
    epochs: int = 2
    train: int = 450
    validation: int = 200
    finalists: int = 3
    seed: int = 42

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            least = 0 if item.name == "seed" else 1
            if getattr(self, item.name) < least:
                raise ParameterError(f"{item.name} of the search must be at least {least}, got {self!r}")


@dataclass(frozen=True, eq=False)
class TuningTask:
    """What is trained, and by what it is judged.

    Attributes:
        preset: a registered name.
        settings: of the preset, kept in all trials.
        model: loads the explained model, in each process once.
        judge: grades explanations.
        train: texts to learn from.
        validation: texts to judge by, none of them among the others.
    """

    preset: str
    settings: Mapping[str, object]
    model: Callable[[], Model]
    judge: Judge
    train: Sequence[Example]
    validation: Sequence[Example]

    @classmethod
    def of(
        cls,
        preset: str,
        settings: Mapping[str, object],
        model: Model | Callable[[], Model],
        judge: Judge,
        examples: Texts,
    ) -> TuningTask:
        """A task from all texts, split as for training.

        Args:
            preset: a registered name.
            settings: of the preset; weights among them are not searched.
            model: the explained model, or what loads it, which several processes need.
            judge: grades explanations.
            examples: texts.
        """
        tunable(preset)
        split = split_as_trained(preset, settings, examples)
        load = model if callable(model) else partial(_same, model)
        return cls(preset, settings, load, judge, split.train, split.validation)


def split_as_trained(preset: str, settings: Mapping[str, object], examples: Texts) -> TextSplit:
    """Texts split as the preset splits them when it is trained on all of them."""
    seed = getattr(PRESETS.get(preset).configured(**settings), "seed", 0)
    return split_texts(examples, SHARE, SHARE, seed=seed, owner=preset)


def _same(model: Model) -> Model:
    return model


def tunable(preset: str) -> tuple[str, ...]:
    """The settings of a preset that a search may choose.

    Raises:
        ParameterError: it has none.
    """
    names = PRESETS.card(preset).tunable
    if not names:
        others = [card.name for card in PRESETS.cards() if card.tunable]
        raise ParameterError(
            f"{preset} is not trained for a metric: no setting of it weighs a loss against others; "
            f"{', '.join(others) or 'no preset'} can be"
        )
    return names


@dataclass(frozen=True)
class Tuned:
    """What a search chose.

    Attributes:
        search: all trials.
        finals: number of a trial -> its value when trained in full, None where it has none; empty where the best trial
            was taken as it is.
        best: the trial whose settings are taken, with its last value.
    """

    search: SearchResult
    finals: Mapping[int, float | None]
    best: SearchTrial


def tune(task: TuningTask, config: TuningConfig, folder: Path) -> Tuned:
    """Search the weights of the preset's loss; what an earlier call in the same folder tried is not tried again."""
    names = [name for name in tunable(task.preset) if name not in task.settings]
    if not names:
        raise ParameterError(f"all weights of {task.preset} are given, so that there is nothing to search")
    objective = TrainingTrial(_smaller(task, config))
    searched = SearchConfig(
        space=dict.fromkeys(names, (0.0, 1.0)),
        lower_is_better=task.judge.lower_is_better,
        trials=config.trials,
        together=config.workers,
        seed=config.seed,
    )
    result = search(objective, searched, folder, objective.key)
    finalists = result.ranked[: config.finalists]
    if len(finalists) == 1:
        return Tuned(result, {}, finalists[0])
    finals = _finals(TrainingTrial(task), finalists, folder / FINALS, config.workers)
    again = [dataclasses.replace(trial, value=finals[trial.number]) for trial in finalists]
    ranked = SearchResult(tuple(again), result.lower_is_better).ranked or finalists
    return Tuned(result, finals, ranked[0])


def _finals(
    trained: TrainingTrial, finalists: Sequence[SearchTrial], path: Path, workers: int
) -> dict[int, float | None]:
    """Values of trials that are trained in full; those that an earlier call computed are read."""
    known = read_object(path, "") if path.is_file() else {}
    keys = {trial.number: content_hash([trained.key, dict(trial.settings)]) for trial in finalists}
    left = {trial.number: trial.settings for trial in finalists if keys[trial.number] not in known}
    with (
        working("training the best trials in full", len(finalists)),
        evaluator(trained, min(workers, max(1, len(left)))) as evaluate,
    ):
        advance(len(finalists) - len(left))
        for number, value, _ in evaluate(left):
            known[keys[number]] = value
            write_object(path, known)
            advance(1)
    return {number: known[key] for number, key in keys.items()}


def _smaller(task: TuningTask, config: TuningConfig) -> TuningTask:
    """The same with as many texts and epochs as a trial has."""
    return dataclasses.replace(
        task,
        settings={**task.settings, "epochs": config.epochs},
        train=sample(task.train, config.train, config.seed),
        validation=sample(task.validation, config.validation, config.seed),
    )


@dataclass(eq=False)
class TrainingTrial:
    """Trains with some weights and returns the best epoch's value on the validation texts."""

    task: TuningTask
    _loaded: list[Model] = field(default_factory=list)

    def __call__(self, tried: Mapping[str, float]) -> float:
        """The judge's mean over the validation texts, NaN where it is defined on none."""
        task = self.task
        preset = PRESETS.get(task.preset).configured(**{**task.settings, **tried})
        given = TrainingInput(
            model=self.model, examples=task.train, validation=task.validation, held_out=0.0, judge=task.judge
        )
        explainer = preset.train(given)
        return task.judge.mean(self.model, explainer.explain(self.model, task.validation))

    @property
    def model(self) -> Model:
        """The explained model, loaded when it is first used."""
        if not self._loaded:
            self._loaded.append(self.task.model())
        return self._loaded[0]

    @property
    def key(self) -> str:
        """Hash of all that decides a value besides the weights."""
        task = self.task
        texts = [[one.fingerprint for one in some] for some in (task.train, task.validation)]
        return content_hash([task.preset, dict(task.settings), self.model.fingerprint(), task.judge.name, texts])

    def __getstate__(self) -> dict[str, object]:
        return {"task": self.task, "_loaded": []}  # each process loads the model itself
