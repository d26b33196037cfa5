"""A time budget of an evaluation: as many texts as fit into it, stated before the work begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from didact.data.dataset import Dataset
from didact.errors import DidactError, ParameterError
from didact.experiments.engine.toml import Plain
from didact.experiments.grading.forecast import Forecast, forecast
from didact.experiments.grading.prepare import GradingExperiment
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.report.formatting import plural
from didact.render.facts import duration

FEWEST = 20
"""Texts that an evaluation keeps at least, over the budget if it must: fewer can hardly give a verdict."""


@dataclass(frozen=True)
class Planned:
    """An experiment that is about to begin.

    Attributes:
        experiment: with as many texts as fit.
        sentences: what it will take, for the user.
    """

    experiment: GradingExperiment
    sentences: tuple[str, ...]


def plan(
    experiment: GradingExperiment, minutes: float | None, folder: Path, shorter: Callable[[int], Dataset]
) -> Planned:
    """Estimate an experiment and cut its texts to what fits into a time budget.

    An evaluation that was cut and killed resumes with the same texts, however fast the machine is now.

    Args:
        experiment: with all texts that are wanted.
        minutes: the budget; None for none.
        folder: of the run.
        shorter: the data with so many examples.
    """
    if minutes is not None and not minutes > 0:
        raise ParameterError(f"minutes must be above 0, or None for no limit; got {minutes!r}")
    wanted = len(experiment.data.examples)
    resumed = _resumed(experiment.recipe, wanted, folder)
    if resumed is not None:
        return Planned(_cut(experiment, resumed, shorter), (f"Resumes on {resumed:,} of {wanted:,} texts.",))
    expected = forecast(experiment)
    texts = wanted if minutes is None else _fitting(expected, minutes)
    if texts >= wanted:
        return Planned(experiment, _statement(experiment, expected, minutes))
    over = (
        f"{wanted:,} texts would take about {duration(expected.seconds)}, more than the budget of "
        f"{duration(60 * minutes)}, so {texts:,} of them are evaluated."
        if minutes
        else ""
    )
    cut = _cut(experiment, texts, shorter)
    return Planned(cut, (over, *_statement(cut, expected.on(texts), minutes)))


def _fitting(expected: Forecast, minutes: float) -> int:
    """Texts that fit, but not fewer than a verdict needs."""
    return max(FEWEST, int(60 * minutes / max(expected.per_text.seconds, 1e-9)))


def _cut(experiment: GradingExperiment, texts: int, shorter: Callable[[int], Dataset]) -> GradingExperiment:
    """The experiment on fewer texts; its recipe says how many were wanted."""
    wanted = len(experiment.data.examples)
    recipe = dataclasses.replace(experiment.recipe, data={**experiment.recipe.data, "limit": texts}, cut_from=wanted)
    return dataclasses.replace(experiment, recipe=recipe, data=shorter(texts))


def _resumed(recipe: GradingRecipe, wanted: int, folder: Path) -> int | None:
    """How many texts an unfinished or finished run of the same recipe in this folder was cut to, if it was."""
    path = folder / "recipe.toml"
    if not path.is_file():
        return None
    try:
        earlier = GradingRecipe.from_toml(path)
    except DidactError:
        return None  # the run itself refuses a folder that it cannot use
    same = earlier.cut_from == wanted and _without_limit(earlier) == _without_limit(recipe)
    return int(earlier.data["limit"]) if same else None


def _without_limit(recipe: GradingRecipe) -> Plain:
    plain = recipe.identity()
    return {**plain, "data": {name: value for name, value in plain["data"].items() if name != "limit"}}


def _statement(experiment: GradingExperiment, expected: Forecast, minutes: float | None) -> tuple[str, ...]:
    """What will be done and what it takes."""
    controls = sum(one.card.family == "control" for one in experiment.explainers.values())
    real, texts = len(experiment.explainers) - controls, expected.texts
    of_it = f"timed on {expected.timed} {plural(expected.timed, 'text', 'texts')}"
    budget = "" if minutes is None else f", budget {duration(60 * minutes)}"
    sentences = [
        f"{real} {plural(real, 'method', 'methods')} and {controls} controls, {len(experiment.metrics)} "
        f"{plural(len(experiment.metrics), 'metric', 'metrics')}, {texts:,} {plural(texts, 'text', 'texts')}: about "
        f"{duration(expected.seconds)} ({of_it}{budget}), {expected.evaluations:,} evaluations of the model.",
        "Slowest: " + ", ".join(f"{label} {duration(seconds)}" for label, seconds in expected.slowest()) + ".",
    ]
    if expected.left_out:
        sentences.append(f"Not included: training a surrogate for {', '.join(expected.left_out)}.")
    return tuple(sentences)
