"""Carries out a recipe of grading in keyed steps: explanations of chunks of examples, then their grades.

A part holds the explanations, or the grades, of one chunk of examples, under a hash of everything that decides it. A
run that was killed finds its parts and resumes; a run with one explainer more computes that one only. Chunks are the
same in every run, so the numbers are too, to the last bit.

    OUT/recipe.toml            the recipe
    OUT/manifest.json          model, data, explainers and metrics in full, versions
    OUT/records.parquet        every grade as a record; rows that are the same in every run
    OUT/timings.parquet        records of time, where a metric measures it
    OUT/explanations.parquet   every explanation
    OUT/steps.jsonl            seconds of every step
    OUT/parts/                 results of steps
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from didact import disk
from didact.checksums import HASHES
from didact.errors import InputError
from didact.experiments.engine.naming import example_names
from didact.experiments.engine.objects import write_object
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.toml import Plain
from didact.experiments.grading.nulls import broken
from didact.experiments.grading.prepare import GradingExperiment
from didact.models.network import NetworkModel
from didact.models.surrogate import fine_tune_masked, load_surrogate, save_surrogate
from didact.progress import working
from didact.protocols import Evidence, Metric, Model
from didact.provenance import content_hash, display_name, versions
from didact.store import explanations as explanation_store
from didact.store import keys
from didact.store import records as record_store
from didact.types import Explanation, Grade

_BREAKABLE = frozenset({"model", "rationale", "corpus", "surrogate", "text", "classes"})


@dataclass(frozen=True)
class Slot:
    """One run of one explainer."""

    label: str
    seed: int


@dataclass(frozen=True)
class MetricRun:
    """One metric on one run of an explainer, or on a broken copy of its explanations.

    Attributes:
        label: of the metric in the recipe.
        slot: whose explanations.
        null: how they are broken; "" where they are not.
    """

    label: str
    slot: Slot
    null: str


class GradingJob(RecipeJob):
    """The steps of a grading experiment.

    Args:
        experiment: what to do.
        options: where.
    """

    def __init__(self, experiment: GradingExperiment, options: RunOptions) -> None:
        super().__init__(options)
        self.experiment = experiment
        self.slots = [Slot(label, seed) for label in experiment.explainers for seed in experiment.seeds(label)]
        size, count = experiment.recipe.chunk, len(experiment.data.examples)
        self.chunks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        self.names = example_names(experiment.data.examples)
        self._explained: dict[Slot, list[Explanation]] = {}
        self._broken: dict[tuple[Slot, str], list[Explanation]] = {}
        self._keys: dict[tuple[Slot, int, int], str] = {}

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.experiment.recipe.name

    def identity(self) -> dict[str, object]:
        """The recipe, with what was loaded in place of where it lies."""
        experiment = self.experiment
        return {
            **experiment.recipe.identity(),
            "model": [experiment.model.fingerprint(), experiment.recipe.settings_of("model")],
            "data": experiment.data.fingerprint,
            "explainers": {label: keys.identity(one) for label, one in experiment.explainers.items()},
            "metrics": {label: [one.card.name, dict(one.parameters)] for label, one in experiment.metrics.items()},
        }

    def begin(self) -> None:
        """Write recipe and manifest."""
        disk.write_text(self.results / "recipe.toml", self.experiment.recipe.to_toml())
        write_object(self.results / "manifest.json", _manifest(self.experiment, self.options.command))

    def rounds(self) -> Iterator[Round]:
        """Explanations first: targets of explanations decide the keys of grades."""
        yield Round("explaining", [self._explaining(slot, at) for slot in self.slots for at in range(len(self.chunks))])
        if any("surrogate" in metric.card.needs for metric in self.experiment.metrics.values()):
            yield Round("surrogate", [KeyedStep("surrogate", self._surrogate_key, "tune_surrogate")])
        yield Round(
            "grading",
            [self._grading(one, at) for one in self._gradings() for at in range(len(self._pieces(one.label)))],
        )

    def finish(self, *, complete: bool) -> None:
        """Write records, timings and explanations; where time was up, of what is graded on all examples."""
        if not all(self.is_done(self._explaining(slot, at)) for slot in self.slots for at in range(len(self.chunks))):
            return
        lasting: list[pa.Table] = []
        timed: list[pa.Table] = []
        for one in self._gradings():
            rows = self._records_of(one)
            (timed if self.experiment.metrics[one.label].card.timed else lasting).extend(rows)
        out = self.results
        if lasting:
            record_store.write(out / "records.parquet", pa.concat_tables(lasting))
        if timed:
            record_store.write(out / "timings.parquet", pa.concat_tables(timed))
        explanation_store.write(out / "explanations.parquet", self._explanation_table())

    def explain(self, label: str, seed: int, at: int) -> pa.Table:
        """The explanations of a chunk."""
        explainer = self.experiment.seeded(label, seed)
        with working(f"explaining: {label}", 1):
            made = explainer.explain(self.experiment.model, self.experiment.data.examples[self.chunks[at]])
        return explanation_store.to_table(made)

    def grade(self, label: str, explainer: str, seed: int, null: str, at: int) -> pa.Table:
        """Grades of one piece: columns example (number in the piece), part, value."""
        metric, slot = self.experiment.metrics[label], Slot(explainer, seed)
        with working(f"grading: {metric.card.name} of {explainer}", 1):
            grades = metric.measure(self._evidence(metric, slot, self._given(slot, null), self._pieces(label)[at]))
        return _grade_table(grades, with_parts=not null)

    def tune_surrogate(self) -> pa.Table:
        """The model fine-tuned to read masked texts, saved beside the parts."""
        assert self.surrogate is not None
        return pa.table({"surrogate": [self._surrogate_key]})

    def _explaining(self, slot: Slot, at: int) -> KeyedStep:
        chunk = self.chunks[at]
        name = f"explain/{slot.label}/{slot.seed}/{chunk.start}"
        return KeyedStep(name, self._explanation_key(slot, chunk), "explain", (slot.label, slot.seed, at))

    def _grading(self, one: MetricRun, at: int) -> KeyedStep:
        slot, piece = one.slot, self._pieces(one.label)[at]
        name = f"grade/{one.label}/{slot.label}/{slot.seed}/{one.null or 'whole'}/{piece.start}"
        arguments = (one.label, slot.label, slot.seed, one.null, at)
        return KeyedStep(name, self._grade_key(one, piece), "grade", arguments)

    def _explanations(self, slot: Slot) -> list[Explanation]:
        """The explanations of all examples, from the parts."""
        if slot not in self._explained:
            tables = [self.parts.read(self._explanation_key(slot, chunk)) for chunk in self.chunks]
            self._explained[slot] = [one for table in tables for one in explanation_store.from_table(table)]
        return self._explained[slot]

    def _given(self, slot: Slot, null: str) -> list[Explanation]:
        """The explanations that a metric is given, whole or broken."""
        if (slot, null) not in self._broken:
            self._broken[slot, null] = broken(null, self._explanations(slot), slot.seed)
        return self._broken[slot, null]

    def _records_of(self, one: MetricRun) -> list[pa.Table]:
        """The rows of a metric on an explainer; none where a piece is missing."""
        pieces = self._pieces(one.label)
        done = [self._grade_key(one, piece) for piece in pieces]
        if not all(map(self.parts.has, done)):
            return []
        return [self._rows(self.parts.read(key), piece, one) for key, piece in zip(done, pieces, strict=True)]

    def _explanation_table(self) -> pa.Table:
        """All explanations, with their explainer's label and seed."""
        made = [(slot, one) for slot in self.slots for one in self._explanations(slot)]
        return explanation_store.to_table(
            [one for _, one in made], [slot.label for slot, _ in made], [slot.seed for slot, _ in made]
        )

    def _gradings(self) -> Iterator[MetricRun]:
        """Every metric on every explainer and seed, and on the broken copies of the first seed's explanations."""
        for slot in self.slots:
            first = slot.seed == self.experiment.seeds(slot.label)[0]
            control = self.experiment.explainers[slot.label].card.family == "control"
            for label, metric in self.experiment.metrics.items():
                if "repeats" in metric.card.needs and len(self.experiment.seeds(slot.label)) < 2:
                    continue
                yield MetricRun(label, slot, "")
                if first and not control:
                    for null in self.experiment.recipe.nulls:
                        if _breaks(metric, null):
                            yield MetricRun(label, slot, null)

    def _pieces(self, label: str) -> list[slice]:
        """The chunks a metric is computed on: all examples at once where it compares them."""
        needs = self.experiment.metrics[label].card.needs
        return [slice(0, len(self.experiment.data.examples))] if "corpus" in needs else self.chunks

    def _evidence(self, metric: Metric, slot: Slot, given: Sequence[Explanation], piece: slice) -> Evidence:
        needs = metric.card.needs
        return Evidence(
            explanations=given[piece],
            model=self.experiment.model,
            explainer=self.experiment.seeded(slot.label, slot.seed),
            repeats=[self._explanations(other)[piece] for other in self._siblings(slot)] if "repeats" in needs else (),
            others={o.label: self._explanations(o)[piece] for o in self._others(slot)} if "others" in needs else {},
            surrogate=self.surrogate if "surrogate" in needs else None,
        )

    def _siblings(self, slot: Slot) -> list[Slot]:
        return [other for other in self.slots if other.label == slot.label and other.seed != slot.seed]

    def _others(self, slot: Slot) -> list[Slot]:
        """The first run of every other explainer."""
        first = {other.label: other for other in reversed(self.slots)}
        return [first[label] for label in self.experiment.explainers if label != slot.label]

    @cached_property
    def surrogate(self) -> Model:
        """The model fine-tuned to read masked texts, found or made."""
        place = self.parts.root / "surrogates" / self._surrogate_key
        model = self.experiment.model
        if not isinstance(model, NetworkModel):
            raise InputError(f"robust metrics fine-tune a copy of the model, and {model.name} is a black box")
        if not (place / HASHES).is_file():
            save_surrogate(fine_tune_masked(model, **self.experiment.tuning), place)
        return load_surrogate(place, str(model.network.device))

    @cached_property
    def _surrogate_key(self) -> str:
        options = {name: value for name, value in self.experiment.tuning.items() if name != "examples"}
        texts = [example.fingerprint for example in self.experiment.tuning.get("examples", ())]
        return content_hash(["surrogate", keys.FORMAT, self._origin, options, texts])

    @cached_property
    def _origin(self) -> list[str]:
        return keys.origin(self.experiment.model)

    @cached_property
    def _model(self) -> str:
        """The model's fingerprint: all rows have it, and taking it reads every weight."""
        return self.experiment.model.fingerprint()

    @cached_property
    def _read(self) -> list[str]:
        return keys.readings(self.experiment.model, self.experiment.data.examples)

    def _explanation_key(self, slot: Slot, chunk: slice) -> str:
        place = (slot, chunk.start, chunk.stop)
        if place not in self._keys:
            explainer = self.experiment.seeded(slot.label, slot.seed)
            self._keys[place] = keys.explanations(self.experiment.model, explainer, self._read[chunk])
        return self._keys[place]

    def _grade_key(self, one: MetricRun, piece: slice) -> str:
        metric, slot = self.experiment.metrics[one.label], one.slot
        needs, given = metric.card.needs, self._given(slot, one.null)
        used = [slot, *(self._siblings(slot) if "repeats" in needs else [])]
        others = self._others(slot) if "others" in needs else []
        return content_hash(
            [
                *("grade", keys.FORMAT, self._origin, keys.identity(metric), one.null),
                [self._explanation_key(other, piece) for other in used],
                [[other.label, self._explanation_key(other, piece)] for other in others],
                [explanation.target.index for explanation in given[piece]],
                self._surrogate_key if "surrogate" in needs else "",
            ]
        )

    def _rows(self, grades: pa.Table, piece: slice, one: MetricRun) -> pa.Table:
        metric = self.experiment.metrics[one.label]
        constant = self._constant(one.slot, one.null, one.label, [metric.card.name, dict(metric.parameters)])
        return _records(grades, self.names[piece], constant)

    def _constant(self, slot: Slot, null: str, label: str, settings: list[object]) -> dict[str, str | int]:
        """What all rows of one explainer, seed and metric have in common."""
        explainer = self.experiment.explainers[slot.label]
        return {
            "explainer": slot.label,
            "method": explainer.card.name,
            "seed": slot.seed,
            "null": null,
            "metric": label,
            "model": self._model,
            "data": display_name(self.experiment.data.name),
            "settings": content_hash([keys.identity(explainer), *settings]),
        }


def _breaks(metric: Metric, null: str) -> bool:
    """Whether a broken copy is informative: the metric depends on the scores."""
    families = {"shuffle": ("faithfulness", "plausibility", "stability")}
    return metric.card.family in families[null] and metric.card.needs <= _BREAKABLE


def _grade_table(grades: Sequence[Grade], *, with_parts: bool) -> pa.Table:
    rows = [
        (number, part, value)
        for number, grade in enumerate(grades)
        for part, value in (("", grade.value), *(grade.parts.items() if with_parts else ()))
    ]
    return _table(*(list(column) for column in zip(*rows, strict=True)))


def _table(examples: list[int], parts: list[str], values: list[float]) -> pa.Table:
    columns = {"example": pa.array(examples, pa.int32()), "part": pa.array(parts, pa.string())}
    return pa.table(columns | {"value": pa.array(values, pa.float64())})


def _records(grades: pa.Table, names: Sequence[str], constant: Mapping[str, str | int]) -> pa.Table:
    """Grades as rows of records: a row per grade and part, and what they have in common in every row."""
    examples = pa.array(names, pa.string()).take(grades["example"].combine_chunks())
    rows = pa.table({"example": examples, "part": grades["part"], "value": grades["value"]})
    return record_store.with_constants(rows, constant)


def _manifest(experiment: GradingExperiment, command: str) -> Plain:
    """What was run, in full: with the records it is all that a report needs."""
    model, data = experiment.model, experiment.data
    return {
        "kind": experiment.recipe.kind,
        "name": experiment.recipe.name,
        "command": command,
        "model": {"name": display_name(model.name), "fingerprint": model.fingerprint(), "labels": list(model.labels)},
        "data": {
            "name": display_name(data.name),
            "split": data.split,
            "examples": len(data.examples),
            "labels": list(data.labels),
            "fingerprint": data.fingerprint,
            **({} if experiment.recipe.cut_from is None else {"wanted": experiment.recipe.cut_from}),
        },
        "explainers": {
            label: {"method": one.card.name, "parameters": dict(one.parameters), "card": one.card.to_dict()}
            for label, one in experiment.explainers.items()
        },
        "metrics": {
            label: {"metric": one.card.name, "parameters": dict(one.parameters), "card": one.card.to_dict()}
            for label, one in experiment.metrics.items()
        },
        "seeds": list(experiment.recipe.seeds),
        "nulls": list(experiment.recipe.nulls),
        "chunk": experiment.recipe.chunk,
        "versions": dict(versions()),
        "format": keys.FORMAT,
    }
