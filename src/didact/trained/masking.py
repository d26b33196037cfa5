"""From a model and texts to an explainer that learned which units its predictions rest on; no reference is run."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass

from didact.errors import ParameterError
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit import Monitor
from didact.trained.fit_types import Fitted
from didact.trained.held_out_masks import held_out_masks
from didact.trained.judging import Judge
from didact.trained.learning import Trainee, TrainingRecipe, start, training_cost
from didact.trained.metadata import ExplainerMetadata
from didact.trained.presets.base import TrainingInput
from didact.trained.shapes.base import SHAPES, Shape
from didact.trained.signals.base import SIGNALS, SignalTask
from didact.trained.split import TextSplit
from didact.types import Level


@dataclass(frozen=True, kw_only=True)
class MaskTraining(TrainingRecipe):
    """What is trained to mark units, and how.

    Args:
        level: of the units; the model's first when not given.
    """

    level: Level | None = None


def learn_masks(given: TrainingInput, recipe: MaskTraining) -> LearnedExplainer:
    """Train by a signal that needs no reference, and measure the result against random masks on held-out texts."""
    split = start(given, recipe)
    trainee = _trainee(given, recipe, split)
    explainer, fitted = trainee.trained(_directed(recipe, given.judge), given, _monitor(trainee, given.judge, split))
    about = _measured(explainer, fitted, given, split)
    return LearnedExplainer(explainer.shape, trainee.signal, about)


def _trainee(given: TrainingInput, recipe: MaskTraining, split: TextSplit) -> Trainee:
    model = given.model
    level = recipe.level or model.levels[0]
    signal = SIGNALS.get(recipe.signal).configured(**recipe.signal_settings)
    settings = {"seed": recipe.seed, **recipe.shape_settings}
    shape = SHAPES.get(recipe.shape).build(model, model.units(split.train, level), signal.outputs, settings)
    samples = signal.prepare(SignalTask(model, split.train, split.validation, level=level), shape)
    marks = {**samples.marks, "judge": "" if given.judge is None else given.judge.name}
    return Trainee(model, shape, signal.fitted(samples), dataclasses.replace(samples, marks=marks), {"level": level})


def _directed(recipe: MaskTraining, judge: Judge | None) -> MaskTraining:
    """The recipe, with the direction of the judge that epochs are compared by."""
    if judge is None:
        return recipe
    training = dataclasses.replace(recipe.training, higher_is_better=not judge.lower_is_better)
    return dataclasses.replace(recipe, training=training)


def _monitor(trainee: Trainee, judge: Judge | None, split: TextSplit) -> Monitor | None:
    """Mean grade of explanations of the validation texts."""
    if judge is None:
        return None
    if not split.validation:
        raise ParameterError(
            f"epochs are compared by {judge.name} on validation texts, and there are none; give validation texts"
        )
    model, texts = trainee.model, split.validation
    about, predictions = ExplainerMetadata.of(model, **trainee.about), model.predict(texts)

    def measure(shape: Shape) -> float:
        explainer = LearnedExplainer(shape, trainee.signal, about)
        value = judge.mean(model, explainer.explain(model, texts, predictions=predictions))
        if math.isnan(value):
            raise ParameterError(
                f"{judge.name} is defined on none of the {len(texts)} validation texts, so epochs cannot "
                "be compared by it; give other validation texts or another measure"
            )
        return value

    return measure


def _measured(explainer: LearnedExplainer, fitted: Fitted, given: TrainingInput, split: TextSplit) -> ExplainerMetadata:
    """The metadata with cost and what the masks do to held-out texts."""
    about = dataclasses.replace(explainer.about, cost=training_cost(split, fitted))
    scores = _chosen(fitted, given.judge)
    began = time.perf_counter()
    explained = explainer.explain(given.model, split.held_out) if split.held_out else []
    seconds = time.perf_counter() - began
    speed = {"milliseconds per text": round(1000 * seconds / len(explained), 3)} if explained else {}
    masks = held_out_masks(given.model, [one for one in explained if len(one.units)])
    about = dataclasses.replace(about, cost={**about.cost, **speed}, masks=masks.to_dict())
    return dataclasses.replace(about, scores=scores | (masks.scores if masks.n else {}))


def _chosen(fitted: Fitted, judge: Judge | None) -> dict[str, float]:
    """The value by which the epoch was chosen."""
    value = fitted.run.best.value
    name = "loss" if judge is None else judge.name
    return {} if value is None else {f"{name} on validation texts, by which the epoch was chosen": value}
