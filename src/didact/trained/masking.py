"""From a model and texts to an explainer that learned which units its predictions rest on; no reference is run."""

from __future__ import annotations

import dataclasses
import math

from didact.errors import ParameterError
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit import Monitor
from didact.trained.fit_types import Fitted
from didact.trained.held_out_masks import held_out_masks
from didact.trained.judging import Judge
from didact.trained.learning import DirectTraining, Trainee, chosen_by, direct_trainee, start, timed, training_cost
from didact.trained.metadata import ExplainerMetadata
from didact.trained.presets.base import TrainingInput
from didact.trained.shapes.base import Shape
from didact.trained.split import TextSplit


def learn_masks(given: TrainingInput, recipe: DirectTraining) -> LearnedExplainer:
    """Train by a signal that needs no reference, and measure the result against random masks on held-out texts."""
    split = start(given, recipe)
    trainee = direct_trainee(given, recipe, split)
    explainer, fitted = trainee.trained(_directed(recipe, given.judge), given, _monitor(trainee, given.judge, split))
    about = _measured(explainer, fitted, given, split)
    return LearnedExplainer(explainer.shape, trainee.signal, about)


def _directed(recipe: DirectTraining, judge: Judge | None) -> DirectTraining:
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
    explained, speed = timed(explainer, given.model, split.held_out)
    masks = held_out_masks(given.model, [one for one in explained if len(one.units)])
    scores = chosen_by(fitted) if given.judge is None else chosen_by(fitted, given.judge.name)
    return dataclasses.replace(
        explainer.about,
        cost={**training_cost(split, fitted), **speed},
        masks=masks.to_dict(),
        scores=scores | (masks.scores if masks.n else {}),
    )
