"""What training for a metric takes, before it is done: counted passes, and seconds from timing a few of them.

Passes of the explainer's own network count in the seconds as passes of the explained model, which they are where its
backbone is a copy of that model's encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from didact.experiments.masking.explainers import StudyExplainer
from didact.experiments.masking.job import MaskingJob
from didact.experiments.masking.tuning import TuningConfig
from didact.meter import metered
from didact.models import estimate as forecast
from didact.models.estimate import BACKWARD, Pace
from didact.models.outputs import resolve_target
from didact.protocols import Model
from didact.trained.judging import Judge
from didact.trained.wrapping import added
from didact.types import Cost, Estimate, Example, Explanation, Level, Units

LOSSES = 2
"""Passes of the explained model in a loss: the text without what is not marked, and without what is."""


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """A training that is repeated.

    Attributes:
        name: what is estimated.
        train: training texts.
        validation: validation texts.
        epochs: of each training.
        times: how often it is done.
        judged: evaluations of the model that a judge takes for an explanation.
    """

    name: str
    train: Sequence[Units]
    validation: Sequence[Units]
    epochs: int
    times: int = 1
    judged: int = 0

    def estimate(self, model: Model, pace: Pace) -> Estimate:
        """Every text is predicted once; in each epoch training texts are learned from and validation texts judged."""
        learned = Cost(self.times * (1 + LOSSES * self.epochs), self.times * LOSSES * self.epochs)
        checked = Cost(self.times * (1 + (LOSSES + self.judged) * self.epochs))
        work = [(units, learned, self.times * self.epochs * (1 + BACKWARD)) for units in self.train]
        work += [(units, checked, self.times * self.epochs * 2.0) for units in self.validation]
        return forecast.priced(self.name, model, work, pace)


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """Texts as the model reads them, with how fast it is."""

    model: Model
    train: Sequence[Units]
    validation: Sequence[Units]
    pace: Pace

    @classmethod
    def of(
        cls, model: Model, train: Sequence[Example], validation: Sequence[Example], level: Level | None = None
    ) -> TrainingTexts:
        """Read the texts and time a few passes of the longest one."""
        learned, checked = (model.units(list(texts), level) for texts in (train, validation))
        return cls(model, learned, checked, forecast.pace_of(model, [*learned, *checked]))

    def training(self, epochs: int, judge: Judge | None, times: int = 1) -> Estimate:
        """Of training so many explainers."""
        judged = 0 if judge is None else evaluations(judge.grades, self.model, self.validation[0])
        plan = TrainingPlan("training", self.train, self.validation, epochs, times, judged)
        return plan.estimate(self.model, self.pace)

    def search(self, tuning: TuningConfig, judge: Judge, times: int = 1) -> Estimate:
        """Of so many searches; the finalists' trainings are not among them."""
        judged = evaluations(judge.grades, self.model, self.validation[0])
        few = self.train[: tuning.train], self.validation[: tuning.validation]
        return TrainingPlan("search", *few, tuning.epochs, tuning.trials * times, judged).estimate(
            self.model, self.pace
        )

    def tuning(self, tuning: TuningConfig, epochs: int, judge: Judge, times: int = 1) -> list[Estimate]:
        """Of so many searches, and of training the finalists of each in full."""
        count = min(tuning.finalists, tuning.trials)
        finals = [] if count == 1 else [replace(self.training(epochs, judge, count * times), method="finalists")]
        return [self.search(tuning, judge, times), *finals]


def evaluations(grade: Callable[[Model, Sequence[Explanation]], object], model: Model, units: Units) -> int:
    """Evaluations of the model that grading one explanation takes, counted by grading random scores."""
    (prediction,) = model.predict([units.example])
    scores = np.random.default_rng(0).random(len(units))
    made = Explanation("random", units, tuple(scores.tolist()), resolve_target(model, None, prediction), prediction)
    with metered() as meter:
        grade(model, [made])
    return meter.forwards


def refining(steps: int, judged: int) -> Cost:
    """Per text: the map before and after, two passes for the loss of each step, and the judge's view of every map."""
    return Cost(forwards=2 + LOSSES * steps + judged * (steps + 1), backwards=LOSSES * steps)


def study_estimates(job: MaskingJob) -> list[Estimate]:
    """Of a study: search and training for every metric, explaining the test texts, and grading all explanations."""
    recipe, model = job.recipe, job.model
    texts = TrainingTexts.of(model, job.texts["train"], job.validation, recipe.level)
    epochs = int(recipe.explainer.get("epochs", 10))
    trained = [one for one in job.explainers if one.role == "paml"]
    judge = recipe.judge(recipe.optimised[0])
    made = [texts.training(epochs, judge, len(trained))]
    if recipe.search.get("trials"):
        made[:0] = texts.tuning(TuningConfig(**recipe.search), epochs, judge, len(recipe.optimised))
    tested = model.units(list(job.texts["test"]), recipe.level)
    made += [_explaining(job, one, tested, texts.pace) for one in job.explainers]
    graded = evaluations(lambda _, explained: job.metrics.grades(explained, model, model), model, tested[0])
    work = [(units, Cost(graded * len(job.explainers)), 0.0) for units in tested]
    return [*made, forecast.priced("all grades", model, work, texts.pace)]


def _explaining(job: MaskingJob, one: StudyExplainer, tested: Sequence[Units], pace: Pace) -> Estimate:
    judged = evaluations(job.recipe.judge(one.metric).grades, job.model, tested[0]) if one.metric else 0
    drawn = Cost(judged * (1 + job.recipe.draws)) if one.drawn else Cost()
    if one.is_trained:
        cost, own = _explaining_trained(job, one, judged)
        work = [(units, added(cost, drawn), own) for units in tested]
    else:
        static = job.explainer(replace(one, label=one.drawn or one.label, drawn=""))
        work = [(units, added(static.cost(units), drawn), 0.0) for units in tested]
        if not one.drawn:
            return replace(forecast.estimate(job.model, tested, static, pace), method=one.label)
    return forecast.priced(one.label, job.model, work, pace)


def _explaining_trained(job: MaskingJob, one: StudyExplainer, judged: int) -> tuple[Cost, float]:
    """Passes of the model for a text, and of the explainer's own network."""
    if one.role == "paml":
        return Cost(1), 1.0
    steps = int(job.recipe.refinement.get("steps") or 1)
    return refining(steps, judged), steps * (1 + BACKWARD)
