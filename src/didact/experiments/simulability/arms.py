"""Arms of a simulation: which hints each group of students sees while it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import InputError
from didact.experiments.simulability.prepare import HUMAN, SimulabilityExperiment
from didact.experiments.simulability.recipe import Format
from didact.simulation.controls import ControlInput, control_inputs, controlled, corrupted
from didact.simulation.hints import size_in_bits
from didact.students.base import Hint
from didact.types import Explanation


@dataclass(frozen=True)
class Arm:
    """What one group of students sees of explanations.

    Attributes:
        label: its name in tables.
        explainer: whose explanations; the control's name for a control.
        format: label of the format.
        noise: probability that a marked unit is lost.
        control: whether it explains nothing.
        bits: information in a hint, on average over texts.
    """

    label: str
    explainer: str
    format: str
    noise: float
    control: bool
    bits: float


def arrange(
    experiment: SimulabilityExperiment, explained: Mapping[str, Sequence[Explanation]], used: Sequence[int]
) -> tuple[list[Arm], dict[str, list[Hint | None]]]:
    """The arms and their hints at every place of the pool: explainers by formats by noise, and the controls."""
    recipe = experiment.recipe
    inputs: dict[tuple[str, str], list[ControlInput]] = {}
    for explainer in explained or {HUMAN: ()}:
        for form in recipe.formats_of(explainer):
            inputs[explainer, form.label] = _inputs(experiment, form, explained.get(explainer), used)
    arms: list[tuple[Arm, list[Hint]]] = []
    for (explainer, format), rows in inputs.items():
        for noise in recipe.noise:
            hints = [corrupted(row.hint, noise, recipe.seed) if noise else row.hint for row in rows]
            label = explainer
            label += f", {format}" if len(recipe.formats_of(explainer)) > 1 and explained else ""
            label += f", noise {noise:g}" if len(recipe.noise) > 1 else ""
            arms.append((Arm(label, explainer, format, noise, False, _bits(hints)), hints))
        if not explained:
            break  # people's marks are shown as they are, whatever the format
    first = next(iter(inputs))
    for control in recipe.controls:
        hints = controlled(control, inputs[first], recipe.seed)
        arms.append((Arm(control, control, first[1], 0.0, True, _bits(hints)), hints))
    labels = [arm.label for arm, _ in arms]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"two groups of students would be called {label!r}; give the explainer another label")
    size = len(experiment.pool)
    return [arm for arm, _ in arms], {arm.label: _spread(hints, used, size) for arm, hints in arms}


def _inputs(
    experiment: SimulabilityExperiment, form: Format, explanations: Sequence[Explanation] | None, used: Sequence[int]
) -> list[ControlInput]:
    if explanations is not None:
        return control_inputs(explanations, form.format)
    classes = max(experiment.outputs, 1)
    return [
        ControlInput(
            experiment.pool[place].example,
            experiment.marked[place],
            int(experiment.pool[place].answer) if experiment.task == "class" else 0,  # type: ignore[arg-type]
            classes,
        )
        for place in used
    ]


def _spread(hints: Sequence[Hint], used: Sequence[int], size: int) -> list[Hint | None]:
    """Hints at their places in the pool."""
    spread: list[Hint | None] = [None] * size
    for place, hint in zip(used, hints, strict=True):
        spread[place] = hint
    return spread


def _bits(hints: Sequence[Hint]) -> float:
    return float(np.mean([size_in_bits(hint) for hint in hints]))
