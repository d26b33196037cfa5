"""Carries out an experiment in parts that are kept on disk, so that what was done once is never done again.

A part holds the explanations, or the grades, of one chunk of examples, under a hash of everything that decides it. A
run that was killed finds its parts and goes on; a run with one explainer more computes that one only. Chunks are the
same in every run, so the numbers are too, to the last bit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from didact.errors import InputError
from didact.experiments.memory import watched
from didact.experiments.nulls import broken
from didact.experiments.prepare import Experiment
from didact.models.network import NetworkModel
from didact.models.surrogate import SETTINGS, fine_tune_masked, load_surrogate, save_surrogate
from didact.progress import advance, working
from didact.protocols import Evidence, Metric, Model
from didact.provenance import content_hash, display_name, versions
from didact.store import explanations as explanation_store
from didact.store import keys
from didact.store import records as record_store
from didact.store.parts import Parts
from didact.types import Example, Explanation, Grade

_PEAK = b"didact.peak"
_BREAKABLE = frozenset({"model", "rationale", "corpus", "surrogate"})


def run(experiment: Experiment, out: Path, *, store: Path | None = None, command: str = "") -> Path:
    """Explain, grade and write everything into ``out``; what ``store`` holds is not computed again.

    Args:
        experiment: what to do.
        out: folder of the run.
        store: folder of the parts, if runs are to share them; inside ``out`` when not given.
        command: how the run was asked for, for the manifest.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in ("records", "timings", "explanations"):  # of an earlier recipe; its parts stay
        (out / f"{name}.parquet").unlink(missing_ok=True)
    (out / "recipe.toml").write_text(experiment.recipe.to_toml(), encoding="utf-8")
    (out / "manifest.json").write_text(
        json.dumps(_manifest(experiment, command), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    work = Work(experiment, Parts(store or out / "parts"))
    with working(experiment.recipe.name, work.size):
        work.explain()
        lasting, timed = work.grade()
    record_store.write(out / "records.parquet", pa.concat_tables(lasting))
    record_store.write(out / "timings.parquet", pa.concat_tables(timed))
    explanation_store.write(out / "explanations.parquet", work.explanation_table())
    return out


@dataclass(frozen=True)
class Slot:
    """One run of one explainer."""

    label: str
    seed: int


class Work:
    """The parts of an experiment, found or made.

    Args:
        experiment: what to do.
        parts: where they are kept.
    """

    def __init__(self, experiment: Experiment, parts: Parts) -> None:
        self.experiment = experiment
        self.parts = parts
        self.slots = [Slot(label, seed) for label in experiment.explainers for seed in experiment.seeds(label)]
        size, count = experiment.recipe.chunk, len(experiment.data.examples)
        self.chunks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        self.names = _names(experiment.data.examples)
        self.found: dict[Slot, list[Explanation]] = {}
        self.tables: dict[Slot, list[pa.Table]] = {}

    @property
    def size(self) -> int:
        """How many parts there are in all."""
        grades = sum(len(self._pieces(metric)) for metric, *_ in self._gradings())
        return len(self.slots) * len(self.chunks) + grades

    def explain(self) -> None:
        """Find or make the explanations of every explainer and seed."""
        for slot in self.slots:
            tables = [self._explained(slot, chunk) for chunk in self.chunks]
            self.tables[slot] = tables
            self.found[slot] = [one for table in tables for one in explanation_store.from_table(table)]

    def grade(self) -> tuple[list[pa.Table], list[pa.Table]]:
        """Find or make all grades: rows that are the same in every run, and rows of time and memory."""
        lasting: list[pa.Table] = []
        timed = [self._peaks(slot) for slot in self.slots]
        for metric, label, slot, null in self._gradings():
            given = broken(null, self.found[slot], slot.seed)
            for piece in self._pieces(metric):
                rows = self._rows(self._graded(metric, slot, null, given, piece), piece, slot, null, label)
                (timed if metric.card.timed else lasting).append(rows)
        return lasting, timed

    def explanation_table(self) -> pa.Table:
        """All explanations, with their explainer's label and seed."""
        found = [(slot, one) for slot in self.slots for one in self.found[slot]]
        return explanation_store.to_table(
            [one for _, one in found], [slot.label for slot, _ in found], [slot.seed for slot, _ in found]
        )

    def _gradings(self) -> Iterator[tuple[Metric, str, Slot, str]]:
        """Every metric on every explainer and seed, and on the broken copies of the first seed's explanations."""
        for slot in self.slots:
            first = slot.seed == self.experiment.seeds(slot.label)[0]
            control = self.experiment.explainers[slot.label].card.family == "control"
            for label, metric in self.experiment.metrics.items():
                if "repeats" in metric.card.needs and len(self.experiment.seeds(slot.label)) < 2:
                    continue
                yield metric, label, slot, ""
                if first and not control:
                    for null in self.experiment.recipe.nulls:
                        if _breaks(metric, null):
                            yield metric, label, slot, null

    def _pieces(self, metric: Metric) -> list[slice]:
        """The chunks a metric is computed on: all examples at once where it compares them."""
        return [slice(0, len(self.experiment.data.examples))] if "corpus" in metric.card.needs else list(self.chunks)

    def _explained(self, slot: Slot, chunk: slice) -> pa.Table:
        key = self._explanation_key(slot, chunk)
        if not self.parts.has(key):
            explainer = self.experiment.seeded(slot.label, slot.seed)
            with working(f"explaining: {slot.label}", 1), watched() as peak:
                made = explainer.explain(self.experiment.model, self.experiment.data.examples[chunk])
            table = explanation_store.to_table(made)
            peaks = {_PEAK: str(peak.bytes).encode()} if peak.bytes is not None else {}
            self.parts.write(key, table.replace_schema_metadata((table.schema.metadata or {}) | peaks))
        advance(1)
        return self.parts.read(key)

    def _graded(self, metric: Metric, slot: Slot, null: str, given: Sequence[Explanation], piece: slice) -> pa.Table:
        """Grades of one piece: columns example (number in the piece), part, value."""
        key = self._grade_key(metric, slot, null, given, piece)
        if not self.parts.has(key):
            with working(f"grading: {metric.card.name} of {slot.label}", 1):
                grades = metric.measure(self._evidence(metric, slot, given, piece))
            self.parts.write(key, _grade_table(grades, with_parts=not null))
        advance(1)
        return self.parts.read(key)

    def _evidence(self, metric: Metric, slot: Slot, given: Sequence[Explanation], piece: slice) -> Evidence:
        needs = metric.card.needs
        return Evidence(
            explanations=given[piece],
            model=self.experiment.model,
            explainer=self.experiment.seeded(slot.label, slot.seed),
            repeats=[self.found[other][piece] for other in self._siblings(slot)] if "repeats" in needs else (),
            others={o.label: self.found[o][piece] for o in self._others(slot)} if "others" in needs else {},
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
        if not (place / SETTINGS).is_file():
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
    def _read(self) -> list[str]:
        return keys.readings(self.experiment.model, self.experiment.data.examples)

    def _explanation_key(self, slot: Slot, chunk: slice) -> str:
        explainer = self.experiment.seeded(slot.label, slot.seed)
        return keys.explanations(self.experiment.model, explainer, self._read[chunk])

    def _grade_key(self, metric: Metric, slot: Slot, null: str, given: Sequence[Explanation], piece: slice) -> str:
        needs = metric.card.needs
        used = [slot, *(self._siblings(slot) if "repeats" in needs else [])]
        others = self._others(slot) if "others" in needs else []
        return content_hash(
            [
                *("grade", keys.FORMAT, self._origin, metric.card.name, dict(metric.parameters), null),
                [self._explanation_key(one, piece) for one in used],
                [[one.label, self._explanation_key(one, piece)] for one in others],
                [one.target.index for one in given[piece]],
                self._surrogate_key if "surrogate" in needs else "",
            ]
        )

    def _rows(self, grades: pa.Table, piece: slice, slot: Slot, null: str, label: str) -> pa.Table:
        metric = self.experiment.metrics[label]
        constant = self._constant(slot, null, label, [metric.card.name, dict(metric.parameters)])
        return _records(grades, self.names[piece], constant)

    def _peaks(self, slot: Slot) -> pa.Table:
        """Peak memory in MiB while a chunk was explained, a row per example; none where the machine could not tell."""
        numbers, values = [], []
        for chunk, table in zip(self.chunks, self.tables[slot], strict=True):
            peak = (table.schema.metadata or {}).get(_PEAK)
            if peak is not None:
                numbers += list(range(chunk.start, chunk.stop))
                values += [float(peak) / 2**20] * (chunk.stop - chunk.start)
        grades = _table(numbers, [""] * len(numbers), values)
        return _records(grades, self.names, self._constant(slot, "", "memory", []))

    def _constant(self, slot: Slot, null: str, label: str, settings: list[Any]) -> dict[str, str | int]:
        """What all rows of one explainer, seed and metric have in common."""
        explainer = self.experiment.explainers[slot.label]
        return {
            "explainer": slot.label,
            "method": explainer.card.name,
            "seed": slot.seed,
            "null": null,
            "metric": label,
            "model": self.experiment.model.fingerprint(),
            "data": display_name(self.experiment.data.name),
            "settings": content_hash([keys.identity(explainer), *settings]),
        }


def _breaks(metric: Metric, null: str) -> bool:
    """Whether a broken copy tells something: the metric looks at the scores, and for labels at the target."""
    families = {"shuffle": ("faithfulness", "plausibility", "stability"), "labels": ("faithfulness",)}
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
    columns = {name: pa.repeat(value, len(grades)) for name, value in constant.items()}
    columns["example"] = pa.array(names, pa.string()).take(grades["example"].combine_chunks())
    return pa.table(columns | {name: grades[name] for name in ("part", "value")}).select(record_store.SCHEMA.names)


def _names(examples: Sequence[Example]) -> list[str]:
    """Ids, or fingerprints of texts without one; what occurs twice gets a number."""
    seen: Counter[str] = Counter()
    names = []
    for example in examples:
        name = example.id if example.id is not None else example.fingerprint
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def _manifest(experiment: Experiment, command: str) -> dict[str, Any]:
    """What was run, in full: with the records it is all that a report needs."""
    model, data = experiment.model, experiment.data
    return {
        "name": experiment.recipe.name,
        "command": command,
        "model": {"name": display_name(model.name), "fingerprint": model.fingerprint(), "labels": list(model.labels)},
        "data": {
            "name": display_name(data.name),
            "split": data.split,
            "examples": len(data.examples),
            "labels": list(data.labels),
            "fingerprint": data.fingerprint,
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
