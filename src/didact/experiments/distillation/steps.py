"""The pieces of an L2E study: labels of slow explainers, networks that learn them, and grades of both.

They are small and independent, so that many processes can share them: chunks of labels first, then the grades of a
teacher, and per network one piece that trains and grades it. What a piece finds is written at once, and a study that
was stopped goes on with the pieces that are missing.

    WORK/parts/                  labels, as ``didact.scale.collect`` keeps them
    WORK/labels/TEACHER.parquet  all labels of a teacher in a small table
    WORK/records/*.parquet       grades, a file per piece
    WORK/explainers/*            trained explainers
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from didact.attribution.base import ATTRIBUTIONS
from didact.data.load import load_data
from didact.errors import InputError, MismatchError
from didact.experiments.distillation import grading
from didact.experiments.distillation.recipe import SIGNALS, SPLITS, Study, learned_label
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.models.text import TextModel
from didact.protocols import Evidence, Explainer
from didact.scale.collect import collect
from didact.store import compact, files
from didact.store import records as record_store
from didact.store.parts import Parts
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference, top_weight
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig
from didact.trained.labels import from_explanations
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.base import SHAPES
from didact.trained.signals import base as signals
from didact.trained.signals.labelling import Labelling
from didact.types import Example, Explanation, Record

METRICS_OF_ALL: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    grading.LOG_ODDS: ("log_odds_difference", {}),
    grading.AGREEMENT: ("prediction_agreement", {}),
    "comprehensiveness": ("comprehensiveness", {}),
    "iou_lexical_top": ("neighbour_iou", {"similarity": "lexical", "by": "top"}),
    "iou_lexical_labels": ("neighbour_iou", {"similarity": "lexical", "by": "labels"}),
    "iou_semantic_top": ("neighbour_iou", {"similarity": "semantic", "by": "top"}),
    "iou_semantic_labels": ("neighbour_iou", {"similarity": "semantic", "by": "labels"}),
    "forwards": ("forwards", {}),
    "seconds": ("seconds", {}),
}
BACKGROUND = 64
"""Training texts that Deep SHAP is given as background."""
BESIDE = (grading.POSITIVE, grading.NEGATIVE, grading.LABELLED_AGREEMENT)
"""What is measured of a teacher on the words that a learned explainer labels, so once per initialisation."""


def run(study: Study, work: Path, *, device: str | None = None) -> pa.Table:
    """All pieces one after the other; gives the records."""
    desk = Desk(study, work, device)
    for one in study.teachers:
        for split, start in desk.chunks(one.label):
            desk.label(one.label, split, start)
        desk.gather(one.label)
        desk.grade_teacher(one.label)
        for reading, signal in study.variants(one.label):
            for seed in range(study.initialisations):
                desk.learn(one.label, reading, signal, seed)
    desk.grade_random()
    return desk.records()


class Desk:
    """Where one process works on the pieces of a study; model and texts are loaded once.

    Args:
        study: what to do.
        work: folder of all that is found; many desks may share it.
        device: "cpu" or "cuda"; the GPU when there is one.
    """

    def __init__(self, study: Study, work: Path, device: str | None = None) -> None:
        self.study = study
        self.work = work
        self.device = device
        self.parts = Parts(work / "parts")
        self._read = lru_cache(maxsize=8)(self._read_labels)

    @cached_property
    def model(self) -> TextModel:
        """The explained model."""
        given = dict(self.study.model) if self.device is None else {**self.study.model, "device": self.device}
        return cast("TextModel", load_model(**_expanded(given)))

    def texts(self, split: str) -> tuple[Example, ...]:
        """The texts of a split; none to learn from that is graded too."""
        if split not in self._texts:
            found = _loaded(self.study.data[split])
            if split == "train":
                graded = {one.fingerprint for other in SPLITS if other != split for one in self.texts(other)}
                found = tuple(one for one in found if one.fingerprint not in graded)
            self._texts[split] = found
        return self._texts[split]

    @cached_property
    def _texts(self) -> dict[str, tuple[Example, ...]]:
        return {}

    def chunks(self, teacher: str) -> Iterator[tuple[str, int]]:
        """(split, first text) of every chunk; test texts first, since nothing can be graded without them."""
        for split in reversed(SPLITS):
            many = len(self.texts(split))
            if split == "train":
                many = min(many, self.study.texts.get(teacher, many))
            yield from ((split, start) for start in range(0, many, self.study.chunk))

    def missing(self, teacher: str) -> Iterator[tuple[str, int]]:
        """The chunks that no earlier run has labelled in full."""
        for split, start in self.chunks(teacher):
            if self._wanted(teacher, split, start):
                yield split, start

    def label(self, teacher: str, split: str, start: int) -> dict[int, Explanation]:
        """Labels of the texts of one chunk that no earlier run has labelled, by number; found or made."""
        wanted = self._wanted(teacher, split, start)
        if not wanted:
            return {}
        texts = self.texts(split)
        chunk = [texts[number] for number in wanted]
        found = collect(self.model, chunk, self.explainer(teacher), self.parts, chunk=len(chunk))
        self._done(teacher, split, start).parent.mkdir(parents=True, exist_ok=True)
        self._done(teacher, split, start).touch()
        return dict(zip(wanted, found, strict=True))

    def has_labels(self, teacher: str) -> bool:
        """Whether all labels of a teacher are gathered."""
        return self.labels_path(teacher).is_file()

    def gather(self, teacher: str) -> dict[str, int]:
        """Put the labels that there are into one table; gives how many of each split."""
        rows = dict(self._taken(teacher))
        for split, start in self.chunks(teacher):
            if self._done(teacher, split, start).exists():
                for number, one in self.label(teacher, split, start).items():
                    place = {"teacher": teacher, "split": split, "number": number}
                    rows[split, number] = place | compact.packed(one)
        files.write(self.labels_path(teacher), pa.Table.from_pylist([rows[key] for key in sorted(rows)], LABELS))
        return {split: sum(key[0] == split for key in rows) for split in SPLITS}

    def take(self, table: pa.Table) -> None:
        """Keep labels of an earlier run, a table of any teachers; ``gather`` puts them beside what is made here.

        Texts count, not their numbers or splits: another run may have had them in another place.
        """
        places: dict[str, list[tuple[str, int]]] = {}
        for split in SPLITS:
            for number, text in enumerate(self.texts(split)):
                places.setdefault(text.fingerprint, []).append((split, number))
        found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
        for row in table.to_pylist():
            mine = found.setdefault(row["teacher"], {})
            for split, number in places.get(row["text"], ()):
                mine[split, number] = row | {"split": split, "number": number}
        for teacher, rows in found.items():
            files.write(self._taken_path(teacher), pa.Table.from_pylist(list(rows.values()), LABELS))
            self._known.pop(teacher, None)

    def _wanted(self, teacher: str, split: str, start: int) -> list[int]:
        """Numbers of the texts of a chunk that no earlier run has labelled."""
        taken = self._taken(teacher)
        end = min(start + self.study.chunk, len(self.texts(split)))
        return [number for number in range(start, end) if (split, number) not in taken]

    def _taken(self, teacher: str) -> dict[tuple[str, int], dict[str, Any]]:
        """Labels of earlier runs by split and number."""
        if teacher not in self._known:
            path = self._taken_path(teacher)
            rows = files.read(path).to_pylist() if path.is_file() else []
            self._known[teacher] = {(row["split"], row["number"]): row for row in rows}
        return self._known[teacher]

    @cached_property
    def _known(self) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
        return {}

    def _taken_path(self, teacher: str) -> Path:
        return self.work / "taken" / f"{teacher}.parquet"

    def labels(self, teacher: str, split: str) -> list[Explanation]:
        """A teacher's explanations of a split, from the table."""
        return self._read(teacher, split)

    def explainer(self, teacher: str) -> Explainer:
        """The teacher itself; Deep SHAP compares with training texts."""
        one = self.study.teacher(teacher)
        settings = dict(one.settings)
        if one.name == "deep_shap" and "background" not in settings:
            settings["background"] = str(self._background())
        return ATTRIBUTIONS.get(one.name).configured(**settings)

    def grade_teacher(self, teacher: str) -> None:
        """Grades of a teacher by its scores, and by their size where they have a sign."""
        found = self.labels(teacher, "test")
        self._keep(teacher, 0, self._grades(found), found)
        if found[0].signed:
            self._keep(f"abs({teacher})", 0, self._grades(grading.absolute(found)), found)

    def grade_random(self) -> None:
        """Grades of random scores, once per initialisation."""
        for seed in range(self.study.initialisations):
            found = ATTRIBUTIONS.get("random").configured(seed=seed).explain(self.model, self.texts("test"))
            self._keep("random", seed, self._grades(found), found)

    def learn(self, teacher: str, reading: str, signal: str, seed: int) -> dict[str, Any]:
        """Train one network, explain the test texts with it and grade them; gives facts about the training."""
        label = learned_label(reading, signal, teacher)
        explainer, facts = self._train(teacher, reading, signal, seed)
        explainer.save_pretrained(self.explainer_path(label, seed))
        taught = self.labels(teacher, "test")
        known = [one.prediction for one in taught]
        found = explainer.explain(self.model, [one.example for one in taught], predictions=known)
        high = explainer.signal.high if isinstance(explainer.signal, Labelling) else None
        grades = self._grades(found, high)
        close = agreement_with_reference(found, taught, explainer.signal)
        grades |= {"rank_correlation": close["spearman"].tolist(), "top_iou": close["top-k IoU"].tolist()}
        if signal == "labelling":
            pairs = grading.labelled(self.model, taught, found, high)
        else:
            pairs = grading.ranked(self.model, taught, found)
        grades |= {name: own.tolist() for name, (_, own) in pairs.items()}
        self._keep(label, seed, grades, found)
        if reading == "tokens":
            theirs = {name: pair[0].tolist() for name, pair in pairs.items() if name in BESIDE}
            if theirs:
                self._keep(teacher, seed, theirs, taught, beside=" beside")
        return facts

    def records(self) -> pa.Table:
        """All grades so far, in order."""
        found = [record_store.read(path) for path in sorted((self.work / "records").glob("*.parquet"))]
        return record_store.in_order(pa.concat_tables(found)) if found else record_store.to_table([])

    def labels_path(self, teacher: str) -> Path:
        """Where the table of a teacher's labels is."""
        return self.work / "labels" / f"{teacher}.parquet"

    def explainer_path(self, label: str, seed: int) -> Path:
        """Where a trained explainer is."""
        return self.work / "explainers" / f"{label} {seed}"

    def _train(self, teacher: str, reading: str, signal: str, seed: int) -> tuple[LearnedExplainer, dict[str, Any]]:
        own = self.study.settings(teacher, reading, signal)
        model, validation = self.model, self.labels(teacher, "validation")
        train = self.labels(teacher, "train")[: own["texts"]]
        kind, settings = SIGNALS[signal]
        task = signals.SIGNALS.get(kind).suited(signed=train[0].signed, **settings)
        network = {
            "positions": "sinusoidal" if reading == "tokens" else "none",
            "embeddings": self.study.embeddings if reading == "tokens" else "own",
            **own["network"],
            "reading": reading,
            "seed": seed,
        }
        scorer = SHAPES.get("scorer").build(model, [one.units for one in train], task.outputs, network)
        shown, held = ([one.example for one in some] for some in (train, validation))
        given = signals.SignalTask(model, shown, held, from_explanations([*train, *validation]))
        samples = task.prepare(given, scorer)
        device = {"device": "cpu"} if model.hf.device.type == "cpu" else {}
        training = FitConfig(**{**own["training"], **device, "seed": seed})
        monitor = top_weight(task, samples.validation, validation) if self.study.choose == "top_weight" else None
        fitted = fit(scorer, task, samples, training, monitor=monitor)
        asked = self.study.teacher(teacher)
        about = ExplainerMetadata.of(
            model,
            reference=asked.name,
            reference_parameters=cast("dict[str, Any]", dict(asked.settings)),
            data=self.study.name,
            data_hash=fitted.data_hash,
        )
        facts = {
            "texts": len(train),
            "epochs": len(fitted.history),
            "best": fitted.run.best.number,
            "validation_loss": round(fitted.run.best.validation_loss or float("nan"), 4),
            "monitor": None if fitted.run.best.monitor is None else round(fitted.run.best.monitor, 4),
            "seconds": round(fitted.seconds, 2),
        }
        return LearnedExplainer(fitted.shape.finished().to(model.hf.device), task, about), facts

    def _grades(self, found: Sequence[Explanation], high: float | None = None) -> dict[str, list[float]]:
        """All metrics; ``high`` is that of the signal by which labels were learnt."""
        evidence = Evidence(found, self.model)
        grades: dict[str, list[float]] = {}
        for name, (metric, settings) in METRICS_OF_ALL.items():
            own: dict[str, Any] = {"high": high} if settings.get("by") == "labels" else {}
            if settings.get("similarity") == "semantic":
                own["encoder"] = None if self.study.encoder is None else _filled(self.study.encoder)
            made = METRICS.get(metric).configured(**settings, **own)
            grades[name] = [grade.value for grade in made.measure(evidence)]
        if all(one.example.rationale is not None for one in found):
            grades |= grading.rationales(found)
        return grades

    def _keep(
        self,
        label: str,
        seed: int,
        grades: Mapping[str, Sequence[float]],
        found: Sequence[Explanation],
        beside: str = "",
    ) -> None:
        first = found[0]
        rows = [
            Record(label, first.method, seed, "", metric, "", f"{number:05d}", value, fingerprint, self.study.name, "")
            for fingerprint in (self.model.fingerprint(),)
            for metric, values in grades.items()
            for number, value in enumerate(values)
        ]
        record_store.write(self.work / "records" / f"{label} {seed}{beside}.parquet", record_store.to_table(rows))

    def _read_labels(self, teacher: str, split: str) -> list[Explanation]:
        table = files.read(self.labels_path(teacher))
        rows = [row for row in table.to_pylist() if row["split"] == split]
        if not rows:
            raise InputError(f"{self.labels_path(teacher)} holds no labels of the {split} texts")
        texts = self.texts(split)
        for row in rows:
            if row["number"] >= len(texts) or texts[row["number"]].fingerprint != row["text"]:
                raise MismatchError(
                    f"{self.labels_path(teacher)} labels other texts than the {split} texts of {self.study.name}, from "
                    f"number {row['number']} on; label the texts again"
                )
        used = [texts[row["number"]] for row in rows]
        return compact.unpacked(rows, self.model.units(used), self.model)

    def _done(self, teacher: str, split: str, start: int) -> Path:
        return self.work / "labels" / "done" / f"{teacher} {split} {start}"

    def _background(self) -> Path:
        path = self.work / "background.txt"
        if not path.is_file():
            lines = [" ".join(text.text.split()) for text in self.texts("train")[:BACKGROUND]]
            beside = path.with_suffix(f".{os.getpid()}")
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
            beside.replace(path)
        return path


def _loaded(sources: Sequence[Mapping[str, Any]]) -> tuple[Example, ...]:
    """The texts of all sources, one after the other, none twice."""
    found: dict[str, Example] = {}
    for source in sources:
        options = _expanded(source)
        words, lines, limit = int(options.pop("words", 0)), options.pop("lines", False), options.pop("limit", None)
        if not (words or lines):
            options["limit"] = limit
        texts = list(load_data(**options))
        if lines:
            texts = [Example(line.strip()) for one in texts for line in one.text.splitlines() if line.strip()]
        if words:
            texts = [one for one in texts if len(one.text.split()) >= words]
        for one in load_data(texts, limit=limit) if words or lines else texts:
            found.setdefault(one.fingerprint, one)
    return tuple(found.values())


def _expanded(given: Mapping[str, Any]) -> dict[str, Any]:
    """With environment variables in the source filled in."""
    return {**given, "source": _filled(str(given["source"]))}


def _filled(source: str) -> str:
    """With environment variables filled in."""
    found = os.path.expandvars(source)
    if "$" in found:
        raise InputError(f"the source {source!r} names an environment variable that is not set")
    return found


LABELS = pa.schema([("teacher", pa.string()), ("split", pa.string()), ("number", pa.int32()), *compact.COLUMNS])
"""Labels as a small table; ``text`` is the fingerprint of the text at that number of the split."""
