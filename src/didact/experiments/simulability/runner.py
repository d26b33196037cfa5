"""Carries out a simulation: explains what is taught, teaches, and writes everything; nothing is done twice.

OUT/recipe.toml         what was asked for
OUT/manifest.json       teacher, data, arms, students and channels in full, versions
OUT/students.parquet    the score of every student on every exam text
OUT/extras.json         overlap of the hints, and how metrics of explanations rank the explainers
OUT/parts/              explanations and outcomes, each under a hash of all that decides it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from didact.errors import InputError
from didact.experiments.simulability import outcomes
from didact.experiments.simulability.prepare import HUMAN, Experiment
from didact.experiments.simulability.recipe import KIND, Format
from didact.protocols import Evidence, Metric, Model
from didact.provenance import content_hash, versions
from didact.simulation.controls import ControlInput, control_inputs, controlled, corrupted
from didact.simulation.execution import simulate
from didact.simulation.hints import overlap, size_in_bits
from didact.simulation.simulability import Execution, SimulabilityData
from didact.store import keys
from didact.store.parts import Parts
from didact.students.base import Hint
from didact.trained.collect import collect
from didact.types import Explanation, Floats

COMPARED = 500
"""Texts on which the overlap of hints is computed, and explanations are graded."""


@dataclass(frozen=True)
class Arm:
    """What one group of students is told.

    Attributes:
        label: its name in tables.
        explainer: whose explanations; the control's name for a control.
        format: label of the format.
        noise: probability that a marked unit is lost.
        control: whether it explains nothing.
        bits: how much it tells of a text, on average.
    """

    label: str
    explainer: str
    format: str
    noise: float
    control: bool
    bits: float


@dataclass(frozen=True, eq=False)
class RunOptions:
    """Where an experiment is carried out.

    Attributes:
        out: folder of the run.
        store: folder of the parts, if runs are to share them; inside ``out`` when not given.
        device: of the students; the GPU when there is one.
        together: students trained at once; None leaves it to the student.
        command: how the run was asked for, for the manifest.
        enough: asked before every group of students; true ends the run with what there is.
    """

    out: Path
    store: Path | None = None
    device: str | None = None
    together: int | None = None
    command: str = ""
    enough: Callable[[], bool] | None = None


def run(experiment: Experiment, hall: RunOptions) -> Path:
    """Explain, teach, ask, and write everything into the folder; what was found before is not done again."""
    out, recipe = hall.out, experiment.recipe
    out.mkdir(parents=True, exist_ok=True)
    (out / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    parts = Parts(hall.store or out / "parts")
    used = recipe.plan().used(len(experiment.pool)).tolist()
    explained = explain(experiment, parts, used)
    arms, hints = arranged(experiment, explained, used)
    data = SimulabilityData(
        experiment.pool,
        experiment.exam,
        hints,
        frozenset(arm.label for arm in arms if arm.control),
        experiment.task,
        experiment.outputs,
        recipe.metric,
    )
    manifest = _manifest(experiment, arms, hall.command)
    (out / "manifest.json").write_text(_json(manifest), encoding="utf-8")
    (out / "extras.json").write_text(_json(_extras(experiment, arms, hints, explained, parts)), encoding="utf-8")
    device = hall.device or ("cuda" if torch.cuda.is_available() else "cpu")
    desk = Execution(device, hall.together, outcomes.OutcomeStore(parts), hall.enough)
    found = simulate(data, experiment.students, experiment.ways, recipe.plan(), desk)
    outcomes.write(out / "students.parquet", found)
    return out


def explain(experiment: Experiment, parts: Parts, used: Sequence[int]) -> dict[str, list[Explanation]]:
    """Per explainer the explanations of the lessons that are taught, in their order; none where people explain."""
    if experiment.model is None:
        return {}
    examples = [experiment.pool[place].example for place in used]
    return {
        label: collect(experiment.model, examples, explainer, parts, chunk=experiment.recipe.chunk)
        for label, explainer in experiment.explainers.items()
    }


def arranged(
    experiment: Experiment, explained: Mapping[str, Sequence[Explanation]], used: Sequence[int]
) -> tuple[list[Arm], dict[str, list[Hint | None]]]:
    """What each group of students is told: explainers by formats by noise, and the controls."""
    recipe = experiment.recipe
    told: dict[tuple[str, str], list[ControlInput]] = {}
    for explainer in explained or {HUMAN: ()}:
        for one in recipe.hints:
            told[explainer, one.label] = _told(experiment, one, explained.get(explainer), used)
    found: list[tuple[Arm, list[Hint]]] = []
    for (explainer, form), rows in told.items():
        for noise in recipe.noise:
            hints = [corrupted(row.hint, noise, recipe.seed) if noise else row.hint for row in rows]
            label = explainer
            label += f", {form}" if len(recipe.hints) > 1 and explained else ""
            label += f", noise {noise:g}" if len(recipe.noise) > 1 else ""
            found.append((Arm(label, explainer, form, noise, False, _bits(hints)), hints))
        if not explained:
            break  # people's marks are told as they are, whatever the format
    first = next(iter(told))
    for control in recipe.controls:
        hints = controlled(control, told[first], recipe.seed)
        found.append((Arm(control, control, first[1], 0.0, True, _bits(hints)), hints))
    labels = [arm.label for arm, _ in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"two groups of students would be called {label!r}; give the explainer another label")
    size = len(experiment.pool)
    return [arm for arm, _ in found], {arm.label: _spread(hints, used, size) for arm, hints in found}


def _told(
    experiment: Experiment, form: Format, explanations: Sequence[Explanation] | None, used: Sequence[int]
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
    found: list[Hint | None] = [None] * size
    for place, hint in zip(used, hints, strict=True):
        found[place] = hint
    return found


def _bits(hints: Sequence[Hint]) -> float:
    return float(np.mean([size_in_bits(hint) for hint in hints]))


def _extras(
    experiment: Experiment,
    arms: Sequence[Arm],
    hints: Mapping[str, Sequence[Hint | None]],
    explained: Mapping[str, Sequence[Explanation]],
    parts: Parts,
) -> dict[str, Any]:
    """What is said of explanations beside the students."""
    first, least = experiment.recipe.hints[0].label, min(experiment.recipe.noise)
    plain = [arm.label for arm in arms if arm.format == first and arm.noise in (0.0, least)]
    sets = {label: [hint for hint in hints[label] if hint is not None][:COMPARED] for label in plain}
    names, matrix = overlap(sets)
    graded: dict[str, dict[str, float]] = {}
    if experiment.model is not None:
        for label, metric in experiment.metrics.items():
            graded[label] = {
                name: _mean(metric, experiment.model, some[:COMPARED], parts) for name, some in explained.items()
            }
    higher = {label: metric.card.higher_is_better is not False for label, metric in experiment.metrics.items()}
    return {
        "overlap": {"names": names, "matrix": [[_known(value) for value in row] for row in matrix.tolist()]},
        "metrics": {label: {"higher_is_better": higher[label], "values": values} for label, values in graded.items()},
    }


def _mean(metric: Metric, model: Model, explanations: Sequence[Explanation], parts: Parts) -> float:
    """Mean grade of explanations, found or measured."""
    scored = [[one.example.fingerprint, one.method, dict(one.parameters), list(one.scores)] for one in explanations]
    key = content_hash(["mean grade", keys.origin(model), metric.card.name, dict(metric.parameters), scored])
    if not parts.has(key):
        values = [grade.value for grade in metric.measure(Evidence(explanations, model))]
        parts.write(key, pa.table({"value": pa.array(values, pa.float64())}))
    values_found: Floats = parts.read(key).column("value").to_numpy()
    return float(np.nanmean(values_found))


def _manifest(experiment: Experiment, arms: Sequence[Arm], command: str) -> dict[str, Any]:
    recipe = experiment.recipe
    return {
        "kind": KIND,
        "name": recipe.name,
        "command": command,
        **experiment.facts,
        "task": experiment.task,
        "arms": [vars(arm) for arm in arms],
        "explainers": {
            label: {"method": one.card.name, "parameters": dict(one.parameters)}
            for label, one in experiment.explainers.items()
        },
        "students": {
            label: {"student": one.card.name, "parameters": _named(one.parameters), "summary": one.card.summary}
            for label, one in experiment.students.items()
        },
        "channels": {
            label: {"channel": way.channel.card.name, "weight": way.weight, "parameters": way.channel.parameters}
            for label, way in experiment.ways.items()
        },
        "plan": vars(recipe.plan()),
        "tables": list(recipe.tables),
        "versions": dict(versions()),
    }


def _named(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without where a file lies on this machine."""
    return {k: Path(v).name if isinstance(v, str) and Path(v).is_absolute() else v for k, v in parameters.items()}


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=list) + "\n"
