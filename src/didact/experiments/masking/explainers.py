"""The explainers of a study: rivals, random scores, and those trained for a metric, whole or without a term."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from didact.experiments.masking.recipe import RANDOM, STAGES, MaskingRecipe, drawn_row, trained_label

Role = Literal["rival", "random", "paml", "faml"]


@dataclass(frozen=True)
class StudyExplainer:
    """An explainer of a study.

    Attributes:
        label: what it is called in the records.
        role: a rival, random scores, trained for a metric ("paml"), or refined for each text by that metric ("faml").
        metric: label of the metric that it was trained for, or that chooses among its drawn maps.
        without: the weight of the loss that was set to 0 in its training.
        drawn: label of the rival, or the stage, around whose maps others are drawn; empty where none are.
    """

    label: str
    role: Role
    metric: str = ""
    without: str = ""
    drawn: str = ""

    @property
    def is_trained(self) -> bool:
        """Whether it was trained for a metric."""
        return self.role in STAGES

    @property
    def row(self) -> str:
        """Its row in tables in which every column has the explainer of its metric."""
        return drawn_row(self.drawn) if self.drawn else self.role if self.is_trained else self.label


def study_explainers(recipe: MaskingRecipe) -> list[StudyExplainer]:
    """All explainers of a study; random scores among them, whatever the recipe names."""
    rivals = [StudyExplainer(one.label, "rival") for one in recipe.rivals]
    return [*rivals, StudyExplainer(RANDOM, "random"), *_trained(recipe), *_drawn(recipe)]


def _trained(recipe: MaskingRecipe) -> Iterator[StudyExplainer]:
    for metric in recipe.optimised:
        lacking = recipe.ablations if metric in recipe.ablated else ()
        for without in ("", *lacking):
            for stage in recipe.stages:
                yield StudyExplainer(trained_label(stage, metric, without), _role(stage), metric, without)


def _drawn(recipe: MaskingRecipe) -> Iterator[StudyExplainer]:
    for metric in recipe.optimised:
        for label in recipe.drawn:
            yield StudyExplainer(trained_label(drawn_row(label), metric), _role(label), metric, drawn=label)


def _role(label: str) -> Role:
    return "paml" if label == "paml" else "faml" if label == "faml" else "rival"
