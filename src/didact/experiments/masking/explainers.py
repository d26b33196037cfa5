"""The explainers of a study: rivals, random scores, and those trained for a metric, whole or without a term."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from didact.experiments.masking.recipe import RANDOM, MaskingRecipe, trained_label

Role = Literal["rival", "random", "paml", "faml"]


@dataclass(frozen=True)
class StudyExplainer:
    """An explainer of a study.

    Attributes:
        label: what it is called in the records.
        role: a rival, random scores, trained for a metric ("paml"), or refined for each text by that metric ("faml").
        metric: label of the metric that it was trained for.
        without: the weight of the loss that was set to 0 in its training.
    """

    label: str
    role: Role
    metric: str = ""
    without: str = ""

    @property
    def is_trained(self) -> bool:
        """Whether it was trained for a metric."""
        return bool(self.metric)


def study_explainers(recipe: MaskingRecipe) -> list[StudyExplainer]:
    """All explainers of a study; random scores among them, whatever the recipe names."""
    rivals = [StudyExplainer(one.label, "rival") for one in recipe.rivals]
    return [*rivals, StudyExplainer(RANDOM, "random"), *_trained(recipe)]


def _trained(recipe: MaskingRecipe) -> Iterator[StudyExplainer]:
    for metric in recipe.optimised:
        lacking = recipe.ablations if metric in recipe.ablated else ()
        for without in ("", *lacking):
            for stage in recipe.stages:
                role: Role = "paml" if stage == "paml" else "faml"
                yield StudyExplainer(trained_label(stage, metric, without), role, metric, without)
