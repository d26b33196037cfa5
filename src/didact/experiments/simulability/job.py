"""Carries out a simulation in keyed steps: explanations, their grades, then groups of students.

OUT/recipe.toml         the recipe
OUT/manifest.json       teacher, data, arms, students and channels in full, versions
OUT/records.parquet     the score of every student on every test example (``didact.experiments.simulability.records``)
OUT/extras.json         overlap of the hints, and how metrics of explanations rank the explainers
OUT/steps.jsonl         seconds of every step
OUT/parts/              explanations and students' answers, each under a hash of all that decides it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from didact import disk
from didact.experiments.engine.naming import example_names
from didact.experiments.engine.objects import write_object
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.toml import Options, Plain
from didact.experiments.simulability.arms import Arm, arrange
from didact.experiments.simulability.prepare import SimulabilityExperiment
from didact.experiments.simulability.records import to_records
from didact.models import half_precision
from didact.models.device import choose_device
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Evidence, Explainer, Metric, Model
from didact.provenance import content_hash, versions
from didact.scale.collect import collect
from didact.simulation.execution import FORMAT, simulate
from didact.simulation.hints import overlap
from didact.simulation.simulability import Execution, SimulabilityData, Simulation, matching_channels
from didact.store import keys
from didact.store import records as record_store
from didact.store.outcomes import OutcomeStore
from didact.students.base import Hint, StudentOutcome
from didact.types import Example, Explanation, Floats

COMPARED = 500
"""Texts on which the overlap of hints is computed, and explanations are graded."""


class SimulabilityJob(RecipeJob):
    """The steps of a simulation.

    Args:
        experiment: what to do.
        options: where and how long.
    """

    def __init__(self, experiment: SimulabilityExperiment, options: RunOptions) -> None:
        super().__init__(options)
        self.experiment = experiment
        self.recipe = experiment.recipe
        self.used: list[int] = self.recipe.plan().used(len(experiment.pool)).tolist()
        self.device = str(choose_device(options.device))
        self.outcomes = OutcomeStore(self.parts, StudentOutcome.stored)

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.recipe.name

    @property
    def explainers(self) -> Mapping[str, Explainer]:
        """Whose explanations students are trained with, by label; empty where people explain."""
        return self.experiment.explainers

    def explainer_identity(self) -> dict[str, object]:
        """What decides the explanations, by label."""
        return {label: keys.identity(one) for label, one in self.explainers.items()}

    def identity(self) -> dict[str, object]:
        """The recipe, with what was loaded in place of where it lies."""
        experiment = self.experiment
        return {
            **self.recipe.identity(),
            "model": [experiment.facts.get("teacher"), self.recipe.settings_of("model")],
            "data": [self._common, self._marked],
            "explainers": self.explainer_identity(),
        }

    def begin(self) -> None:
        """Write the recipe."""
        disk.write_text(self.results / "recipe.toml", self.recipe.to_toml())

    def rounds(self) -> Iterator[Round]:
        """Explanations, their grades, and students; groups of students can be trained side by side."""
        if self.experiment.model is not None:
            yield Round("explaining", list(self._explaining()))
            if self.experiment.metrics:
                pairs = [(metric, name) for metric in self.experiment.metrics for name in self._graded]
                yield Round("grading", [self._grading(*pair) for pair in pairs])
        yield Round("teaching", list(self._teaching()))

    def finish(self, *, complete: bool) -> None:
        """Write manifest, extras and records of all students there are; nothing where explanations are missing."""
        if self.experiment.model is not None and not all(map(self.is_done, self._explaining())):
            return
        out, arms = self.results, self.arms
        experiment = dataclasses.replace(self.experiment, explainers=self.explainers)
        manifest = _manifest(experiment, arms, self.options.command)
        write_object(out / "manifest.json", manifest)
        write_object(out / "extras.json", self._extras())
        simulation = self._simulate(Execution(self.device, memory=self.outcomes, enough=lambda: True))
        if any(len(matrix) for table in simulation.scores.values() for matrix in table.values()):
            names = example_names(item.example for item in self.experiment.test)
            record_store.write(out / "records.parquet", to_records(simulation, manifest, names))

    def explain(self, label: str, start: int) -> None:
        """Explain a chunk of the texts that are taught; ``collect`` keeps the part."""
        explainer = self.explainers[label]
        some = self._distinct(explainer)[start : start + self.recipe.chunk]
        model = self._half_model if self._is_half(explainer) else self._model
        if self.device != "cpu" and self.recipe.tf32:
            torch.set_float32_matmul_precision("high")
        collect(model, some, explainer, self.parts, chunk=len(some))

    def grade(self, metric: str, explainer: str) -> pa.Table:
        """Grades of an explainer's explanations, or of a control's hints, by a metric."""
        some = self._graded[explainer]
        values = [grade.value for grade in self.experiment.metrics[metric].measure(Evidence(some, self._model))]
        return pa.table({"value": pa.array(values, pa.float64())})

    def teach(self, student: str, size: int, channels: Sequence[str], methods: Sequence[str]) -> pa.Table | None:
        """Train the students of a kind and size with some methods' hints; each one's answers are kept at once."""
        stopped = False

        def enough() -> bool:
            nonlocal stopped
            stopped = self.options.is_late()
            return stopped

        material = dataclasses.replace(self.material, hints={name: self.hints[name] for name in methods})
        plan = dataclasses.replace(self.recipe.plan(), sizes=(size,))
        simulate(
            material,
            {student: self.experiment.students[student]},
            {channel: self.experiment.channels[channel] for channel in channels},
            plan,
            Execution(self.device, self.recipe.together, self.outcomes, enough),
        )
        return None if stopped else pa.table({"method": list(methods)})

    @cached_property
    def explained(self) -> dict[str, list[Explanation]]:
        """Per explainer the explanations of the texts that are taught, in their order; none where people explain."""
        if self.experiment.model is None:
            return {}
        return {
            label: collect(self._model, self._taught, explainer, self.parts, chunk=self.recipe.chunk)
            for label, explainer in self.explainers.items()
        }

    @cached_property
    def _graded(self) -> dict[str, list[Explanation]]:
        """What metrics grade: the first explanations of every explainer, and the hints of controls as their scores."""
        graded = {label: made[:COMPARED] for label, made in self.explained.items()}
        first = next(iter(graded.values()), [])
        for name in self.recipe.controls:
            weights = [hint.weights for place in self.used if (hint := self.hints[name][place]) is not None]
            graded[name] = [
                dataclasses.replace(one, method=name, parameters={}, scores=tuple(own.tolist()), errors=(), details={})
                for one, own in zip(first, weights[: len(first)], strict=True)
            ]
        return graded

    @property
    def arms(self) -> list[Arm]:
        """What each group of students is shown."""
        return self._arranged[0]

    @property
    def hints(self) -> dict[str, list[Hint | None]]:
        """Per arm a hint for every text of the pool; None where the plan never draws it."""
        return self._arranged[1]

    def carried(self, channel: str) -> list[str]:
        """The arms whose hints a channel carries: all of them."""
        return list(self.hints)

    @cached_property
    def material(self) -> SimulabilityData:
        """What all students have in common."""
        controls = frozenset(arm.label for arm in self.arms if arm.control)
        experiment = self.experiment
        return SimulabilityData(
            experiment.pool,
            experiment.test,
            self.hints,
            controls,
            experiment.task,
            experiment.outputs,
            self.recipe.metric,
        )

    @cached_property
    def _arranged(self) -> tuple[list[Arm], dict[str, list[Hint | None]]]:
        return arrange(self.experiment, self.explained, self.used)

    @property
    def _model(self) -> Model:
        assert self.experiment.model is not None
        return self.experiment.model

    @cached_property
    def _half_model(self) -> Model:
        """A copy of the model in float16; its explanations go under the keys of the whole one."""
        options = {**self.recipe.model, "device": self.device}
        model = load_model(**options, trust_remote_code=self.options.trust_remote_code)
        return half_precision.HalfPrecision(model) if isinstance(model, NetworkModel) else model

    def _is_half(self, explainer: Explainer) -> bool:
        return self.recipe.half and self.device != "cpu" and half_precision.suits(explainer.card)

    @cached_property
    def _taught(self) -> list[Example]:
        return [self.experiment.pool[place].example for place in self.used]

    def _distinct(self, explainer: Explainer) -> list[Example]:
        """The first of equal texts, which is what ``collect`` explains; rationales count where they are shown."""
        first: dict[object, Example] = {}
        for example in self._taught:
            marked = example.rationale if explainer.card.needs_rationale else None
            first.setdefault((example.fields, marked), example)
        return list(first.values())

    def _explaining(self) -> Iterator[KeyedStep]:
        for label, explainer in self.explainers.items():
            texts = self._distinct(explainer)
            read = keys.readings(self._model, texts)
            for start in range(0, len(texts), self.recipe.chunk):
                key = keys.explanations(self._model, explainer, read[start : start + self.recipe.chunk])
                yield KeyedStep(f"explain/{label}/{start}", key, "explain", (label, start))

    def _grading(self, metric: str, explainer: str) -> KeyedStep:
        made = self.experiment.metrics[metric]
        key = _grade_key(made, self._model, self._graded[explainer])
        return KeyedStep(f"grade/{metric}/{explainer}", key, "grade", (metric, explainer))

    def _teaching(self) -> Iterator[KeyedStep]:
        """Groups of students of one kind and size.

        Students without hints are trained with the first group, so the others wait for it. One process alone gets all
        channels and methods at once, and so does a group that goes on until a precision is reached: each student's
        answers are kept under a key of its own, so nothing is trained again when the groups are others.
        """
        plan = self.recipe.plan()
        for student, channels in matching_channels(
            self.experiment.students, self.experiment.channels, self.experiment.task
        ).items():
            for size in plan.sizes:
                if plan.precision is not None or self.options.workers == 1:
                    for alike in self._alike(channels):
                        yield self._group(student, size, alike, self.carried(alike[0]), frozenset())
                    continue
                first: frozenset[str] = frozenset()
                for channel in channels:
                    for some in self._chunks(self.carried(channel), plan.subsets, first=not first):
                        step = self._group(student, size, [channel], some, first)
                        first = first or frozenset({step.name})
                        yield step

    def _alike(self, channels: Sequence[str]) -> list[list[str]]:
        """Channels in groups that carry the same arms."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for channel in channels:
            groups.setdefault(tuple(self.carried(channel)), []).append(channel)
        return list(groups.values())

    def _chunks(self, methods: Sequence[str], subsets: int, *, first: bool) -> Iterator[list[str]]:
        """Methods in pieces of at most ``group`` students; the first piece has those without hints too."""
        room = self.recipe.group // subsets
        left = list(methods)
        while left:
            many = max(1, room - int(first))
            yield left[:many]
            left, first = left[many:], False

    def _group(
        self, student: str, size: int, channels: Sequence[str], methods: Sequence[str], after: frozenset[str]
    ) -> KeyedStep:
        made = self.experiment.students[student]
        used = [self.experiment.channels[channel] for channel in channels]
        plan = dataclasses.replace(self.recipe.plan(), sizes=(size,), group=1)
        reached = [[own.channel.card.name, own.channel.parameters, own.weight] for own in used]
        hints = [[vars(arm), self._origins(arm)] for arm in self.arms if arm.label in methods]
        key = content_hash(["teach", self._common, made.card.name, made.parameters, vars(plan), reached, hints])
        name = f"teach/{student}/{size}/{','.join(channels)}/{methods[0]}"
        return KeyedStep(name, key, "teach", (student, size, list(channels), list(methods)), after)

    @cached_property
    def _common(self) -> str:
        """What decides the answers of all students."""
        pool = [[item.example.fingerprint, repr(item.answer)] for item in self.experiment.pool]
        tested = [item.example.fingerprint for item in self.experiment.test]
        return content_hash([FORMAT, self.experiment.task, self.experiment.outputs, pool, tested])

    def _origins(self, arm: Arm) -> list[object]:
        """What decides an arm's hints besides its settings; those of controls are made from the first explainer's."""
        formats = {one.label: vars(one.format) for one in self.recipe.hints}
        if self.experiment.model is None:
            return [self.recipe.seed, self._marked]
        label = next(iter(self.explainers)) if arm.control else arm.explainer
        return [self.recipe.seed, formats[arm.format], self._explanation_keys[label]]

    @cached_property
    def _marked(self) -> str:
        """What people marked."""
        examples = [item.example.to_dict() for item in self.experiment.pool]
        return content_hash([examples, [repr(hint.links) for hint in self.experiment.marked]])

    @cached_property
    def _explanation_keys(self) -> dict[str, list[str]]:
        keys_by_label: dict[str, list[str]] = {}
        for step in self._explaining():
            keys_by_label.setdefault(str(step.arguments[0]), []).append(step.key)
        return keys_by_label

    def _simulate(self, execution: Execution) -> Simulation:
        return simulate(
            self.material, self.experiment.students, self.experiment.channels, self.recipe.plan(), execution
        )

    def _extras(self) -> Plain:
        """What is measured of explanations beside the students."""
        first, least = self.recipe.hints[0].label, min(self.recipe.noise)
        plain = [arm.label for arm in self.arms if arm.format == first and arm.noise in (0.0, least)]
        sets = {label: [hint for hint in self.hints[label] if hint is not None][:COMPARED] for label in plain}
        names, matrix = overlap(sets)
        metrics = {}
        for label, metric in self.experiment.metrics.items() if self.experiment.model is not None else ():
            graded = [name for name in self._graded if self.is_done(self._grading(label, name))]
            values = {name: self._mean(label, name) for name in graded}
            metrics[label] = {"higher_is_better": metric.card.higher_is_better is not False, "values": values}
        known = [[value if np.isfinite(value) else None for value in row] for row in matrix.tolist()]
        return {"overlap": {"names": names, "matrix": known}, "metrics": metrics}

    def _mean(self, metric: str, explainer: str) -> float:
        values: Floats = self.parts.read(self._grading(metric, explainer).key).column("value").to_numpy()
        return float(np.nanmean(values))


def _grade_key(metric: Metric, model: Model, explanations: Sequence[Explanation]) -> str:
    scored = [[one.example.fingerprint, one.method, dict(one.parameters), list(one.scores)] for one in explanations]
    return content_hash(["mean grade", keys.origin(model), keys.identity(metric), scored])


def _manifest(experiment: SimulabilityExperiment, arms: Sequence[Arm], command: str) -> Plain:
    recipe = experiment.recipe
    return {
        "kind": recipe.kind,
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
            label: {"channel": own.channel.card.name, "weight": own.weight, "parameters": own.channel.parameters}
            for label, own in experiment.channels.items()
        },
        "plan": vars(recipe.plan()),
        "tables": list(recipe.tables),
        "versions": dict(versions()),
        "format": keys.FORMAT,
    }


def _named(parameters: Options) -> Plain:
    """Settings without where a file lies on this machine."""
    return {k: Path(v).name if isinstance(v, str) and Path(v).is_absolute() else v for k, v in parameters.items()}
