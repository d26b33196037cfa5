"""Carries out a study of learned explainers in keyed steps: labels in chunks, networks side by side, grades in pieces.

OUT/recipe.toml        the recipe
OUT/manifest.json      kind, recipe, versions
OUT/records.parquet    every grade as a record; seeds are initialisations
OUT/summary.json       facts about the networks, means, tests, and the speed on this machine
OUT/labels.parquet     the references' scores; texts that have one here are not labelled again, by whatever run it was
OUT/steps.jsonl        seconds of every step
OUT/parts/             labels, grades and trained explainers, each under a hash of all that decides it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar, cast

import pyarrow as pa
import torch

from didact import disk
from didact.attribution.base import ATTRIBUTIONS
from didact.experiments.distillation import grading
from didact.experiments.distillation.kept import above_chance
from didact.experiments.distillation.labels import (
    CORPUS,
    Piece,
    Place,
    as_table,
    known_labels,
    label_rows,
    piece_of,
    pieces,
    read_split,
)
from didact.experiments.distillation.networks import Network, train_network
from didact.experiments.distillation.recipe import DistillationRecipe, learned_label
from didact.experiments.distillation.records import METRICS_OF_ALL, StudyGrader, manifest_of
from didact.experiments.distillation.speed import measure_speed
from didact.experiments.distillation.summary import HUMAN, RANDOM, gather, means, versus
from didact.experiments.engine.facts import facts_table, read_facts
from didact.experiments.engine.naming import example_names
from didact.experiments.engine.objects import write_object
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.study import SPLITS
from didact.experiments.engine.study_texts import StudyTexts, expanded
from didact.experiments.engine.timing import device_name
from didact.experiments.engine.toml import Plain
from didact.models import half_precision
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Explainer
from didact.provenance import content_hash
from didact.store import files, keys
from didact.store import records as record_store
from didact.trained.explainer import LearnedExplainer
from didact.trained.labels import averaged
from didact.types import Example, Explanation

BACKGROUND = 64
"""Training texts that Deep SHAP is given as background."""


class DistillationJob(RecipeJob):
    """The steps of a study.

    Args:
        recipe: what to do.
        options: where and how long.
    """

    closing_seconds: ClassVar[float] = 60.0

    def __init__(self, recipe: DistillationRecipe, options: RunOptions) -> None:
        super().__init__(options)
        self.recipe = recipe
        self.texts = StudyTexts(recipe.data)
        self._labels_of = lru_cache(maxsize=8)(self._read_labels)
        self._trained = lru_cache(maxsize=2)(self._load_trained)
        self._settings = lru_cache(maxsize=None)(self._settings_of)
        self._known_by: dict[str, dict[Place, Plain]] = {}

    @property
    def name(self) -> str:
        """Of the study."""
        return self.recipe.name

    def identity(self) -> dict[str, object]:
        """The recipe, with what was loaded in place of where it lies."""
        texts = {split: content_hash([one.fingerprint for one in self.texts[split]]) for split in SPLITS}
        model = [self.model.fingerprint(), self.recipe.settings_of("model")]
        return {**self.recipe.identity(), "model": model, "data": texts}

    def begin(self) -> None:
        """Write recipe and manifest; labels of an earlier recipe are used again."""
        earlier = self.options.out / "labels.parquet"
        if earlier.is_file() and not self._taken.is_file() and not any(self.parts.keys()):
            files.write(self._taken, files.read(earlier))
        disk.write_text(self.results / "recipe.toml", self.recipe.to_toml())
        write_object(self.results / "manifest.json", manifest_of(self.recipe, self.options.command))

    def rounds(self) -> Iterator[Round]:
        """One round: controls, which need no labels; references in their order with labels, grades and networks."""
        steps = [step for label in self.recipe.learnable for step in self._steps_of(label)]
        controls = [step for steps in self._controls for step in steps]
        yield Round("labels, networks and grades", [*controls, *steps])

    def closing(self) -> Sequence[KeyedStep]:
        """Seconds per text, with nothing else running."""
        trained = [step.key for step in self._networks if self.is_done(step)]
        return [KeyedStep("speed", content_hash(["speed", device_name(), trained]), "speed")] if trained else []

    def finish(self, *, complete: bool) -> None:
        """Write labels, records and summary of what there is."""
        out = self.results
        labels = [self.parts.read(step.key) for step in self._gathered.values() if self.is_done(step)]
        partial = [self._gather_rows(name) for name, step in self._gathered.items() if not self.is_done(step)]
        files.write(out / "labels.parquet", pa.concat_tables([*labels, *partial]))
        whole = [steps for steps in self._graded if all(map(self.is_done, steps))]  # none of a part of the texts
        graded = [self.parts.read(step.key) for steps in whole for step in steps]
        if not graded:
            return
        table = record_store.in_order(pa.concat_tables([part.replace_schema_metadata(None) for part in graded]))
        record_store.write(out / "records.parquet", table)
        write_object(out / "summary.json", self._summary(table))

    # Steps, in the order in which they depend on each other.

    def label(self, reference: str, split: str, start: int) -> pa.Table:
        """Labels of the texts of a chunk that have none yet."""
        numbers = self._unlabelled(reference, split, start)
        texts = [self.texts[split][number] for number in numbers]
        explainer = self.explainer(reference, split)
        if self._is_half(reference, split):
            made = self._rounded(explainer, texts)
        else:
            made = explainer.explain(self.model, texts)
        return label_rows(reference, split, numbers, self._settings(reference, split), made)

    def gather(self, reference: str) -> pa.Table:
        """All labels of a reference as one table."""
        return self._gather_rows(reference)

    def learn(self, reference: str, reading: str, signal: str, seed: int) -> pa.Table:
        """Train one network and save it; what is kept of the step are facts about its training."""
        network = Network(reference, reading, signal, seed)
        train, validation = (self.labels(reference, split) for split in ("train", "validation"))
        explainer, facts = train_network(self.recipe, network, self.model, train, validation)
        explainer.save_pretrained(self.explainer_path(network))
        return facts_table(facts)

    def grade_reference(self, reference: str, piece: Piece) -> pa.Table:
        """Grades of a reference by its scores, and by their size where a network learns that and they have a sign."""
        explained, grader = self.labels(reference, "test", piece), self._grader(piece)
        tables = [grader.records(reference, 0, grader.grades(explained), explained)]
        if explained[0].signed and self._ranks(reference):
            sizes = grading.absolute(explained)
            tables.append(grader.records(f"abs({reference})", 0, grader.grades(sizes), explained))
        return pa.concat_tables(tables)

    def grade_learned(self, reference: str, reading: str, signal: str, seed: int, piece: Piece) -> pa.Table:
        """Grades of a trained network, and of its reference on the words that the network labels."""
        network = Network(reference, reading, signal, seed)
        test = self.labels(reference, "test", piece)
        explainer = self._trained(network)
        examples, predictions = [one.example for one in test], [one.prediction for one in test]
        explained = explainer.explain(self.model, examples, predictions=predictions)
        return pa.concat_tables(self._grader(piece).learned_records(network, explainer, explained, test))

    def grade_random(self, piece: Piece) -> pa.Table:
        """Grades of random scores, once per initialisation."""
        grader, texts, tables = self._grader(piece), piece_of(self.texts["test"], piece), []
        for seed in range(self.recipe.initialisations):
            explained = ATTRIBUTIONS.get(RANDOM).configured(seed=seed).explain(self.model, texts)
            tables.append(grader.records(RANDOM, seed, grader.grades(explained), explained))
        return pa.concat_tables(tables)

    def grade_human(self) -> pa.Table:
        """Stability of the rationales that people gave."""
        explained = ATTRIBUTIONS.get(HUMAN).configured().explain(self.model, self.texts["test"])
        return self._grader(CORPUS).records(HUMAN, 0, grading.stability_of_people(explained), explained)

    def speed(self) -> pa.Table:
        """Seconds per text of references and learned explainers, and documents per second in bulk."""
        first = next(filter(self._variants, self.recipe.learnable))
        explainers = {
            learned_label(network.reading, network.signal, network.reference): self._trained(network)
            for network in self._variants(first)
            if network.seed == 0 and self.is_done(self._learning(network))
        }
        references = {entry.label: self.explainer(entry.label) for entry in self.recipe.references}
        return facts_table(measure_speed(self.model, self.texts, references, explainers))

    # What steps and tests share.

    @cached_property
    def model(self) -> NetworkModel:
        """The explained model."""
        if self.recipe.tf32:
            torch.set_float32_matmul_precision("high")
        return self._load_model()

    def _load_model(self) -> NetworkModel:
        trust = self.options.trust_remote_code
        return cast("NetworkModel", load_model(**expanded(self.recipe.model), trust_remote_code=trust))

    def explainer(self, reference: str, split: str = "test") -> Explainer:
        """A reference, for training texts with the settings of its labels; Deep SHAP compares with training texts."""
        entry = self.recipe.reference(reference)
        own = self.recipe.labels.get(reference, {}) if split == "train" else {}
        settings = {**entry.settings, **own}
        if entry.name == "deep_shap" and "background" not in settings:
            settings["background"] = str(self._background())
        return ATTRIBUTIONS.get(entry.name).configured(**settings)

    def explainer_path(self, network: Network) -> Path:
        """Where a trained explainer is."""
        return self.parts.root / "explainers" / self._learning(network).key

    def chunks(self, reference: str) -> Iterator[Place]:
        """(split, first text) of every chunk; test texts first, since nothing can be graded without them."""
        for split in reversed(SPLITS):
            many = len(self.texts[split])
            if split == "train":
                many = self.recipe.labelled(reference, many)
            yield from ((split, start) for start in range(0, many, self.recipe.chunk))

    def labels(self, reference: str, split: str, piece: Piece = CORPUS) -> list[Explanation]:
        """A reference's explanations of a split or a piece of it, or the average of several references'."""
        several = [self._labels_of(entry.label, split, piece) for entry in self.recipe.members(reference)]
        return [averaged(each) for each in zip(*several, strict=False)] if len(several) > 1 else several[0]

    def _read_labels(self, reference: str, split: str, piece: Piece) -> list[Explanation]:
        return read_split(self.parts.read(self._gathered[reference].key), split, self.texts, self.model, piece)

    def _load_trained(self, network: Network) -> LearnedExplainer:
        return LearnedExplainer.from_pretrained(self.explainer_path(network), device=str(self.model.network.device))

    # Planning.

    def _steps_of(self, reference: str) -> list[KeyedStep]:
        labelling = [step for _, step in self._labelling.get(reference, ())]
        gathering = [self._gathered[reference]] if reference in self._gathered else []
        networks = self._variants(reference)
        learning = [self._learning(network) for network in networks]
        grades = [self._grading(reference), *map(self._learned_grading, networks)]
        return [*labelling, *gathering, *learning, *(step for steps in grades for step in steps)]

    @cached_property
    def _labelling(self) -> dict[str, list[tuple[Place, KeyedStep]]]:
        """The chunks of every reference that hold texts without a label."""
        return {entry.label: list(self._label_steps(entry.label)) for entry in self.recipe.references}

    def _label_steps(self, reference: str) -> Iterator[tuple[Place, KeyedStep]]:
        for split, start in self.chunks(reference):
            numbers = self._unlabelled(reference, split, start)
            if numbers:
                texts = [self.texts[split][number].fingerprint for number in numbers]
                key = content_hash(["label", keys.FORMAT, self._settings(reference, split), split, numbers, texts])
                name = f"label/{reference}/{split}/{start}"
                yield (split, start), KeyedStep(name, key, "label", (reference, split, start))

    @cached_property
    def _gathered(self) -> dict[str, KeyedStep]:
        """The step that gathers the labels of each reference."""
        steps = {}
        for reference, labelling in self._labelling.items():
            made = [step.key for _, step in labelling]
            known = [[*place, row["text"]] for place, row in self._known(reference).items()]
            settings = self._settings(reference, "test")  # those of training texts are in the keys of the chunks
            key = content_hash(["gather", settings, made, known])
            after = frozenset(step.name for _, step in labelling)
            steps[reference] = KeyedStep(f"gather/{reference}", key, "gather", (reference,), after)
        return steps

    def _learning(self, network: Network) -> KeyedStep:
        labels, after = self._gathering(network.reference)
        key = content_hash(["learn", labels, self.learned_settings(network), vars(network), self.recipe.tf32])
        return KeyedStep(f"learn/{_path(network)}", key, "learn", tuple(vars(network).values()), after)

    def _grading(self, reference: str) -> list[KeyedStep]:
        labels, after = self._gathering(reference)
        return self._pieces_of(reference, [labels, self._ranks(reference)], "grade_reference", (reference,), after)

    def _learned_grading(self, network: Network) -> list[KeyedStep]:
        learning = self._learning(network)
        arguments, after = tuple(vars(network).values()), frozenset({learning.name})
        return self._pieces_of(_path(network), learning.key, "grade_learned", arguments, after)

    def _pieces_of(
        self, who: str, decided: object, call: str, arguments: tuple[object, ...], after: frozenset[str] = frozenset()
    ) -> list[KeyedStep]:
        """The steps that grade one explainer: by what compares all test texts, and piece by piece."""
        steps = []
        for piece, texts in self._pieces:
            key = content_hash(["grade", decided, self._measures, piece, texts, self._annotated])
            steps.append(KeyedStep(f"grade/{who}/{piece}", key, call, (*arguments, piece), after))
        return steps

    @cached_property
    def _pieces(self) -> list[tuple[Piece, str]]:
        """All pieces of the test texts, with a hash of their texts."""
        tested = [one.fingerprint for one in self.texts["test"]]
        return [(piece, content_hash(piece_of(tested, piece))) for piece in pieces(len(tested))]

    def _gathering(self, reference: str) -> tuple[str, frozenset[str]]:
        """Key of all labels of a reference or an average, and the steps that gather them."""
        steps = [self._gathered[entry.label] for entry in self.recipe.members(reference)]
        key = steps[0].key if len(steps) == 1 else content_hash(["average", *(step.key for step in steps)])
        return key, frozenset(step.name for step in steps)

    @property
    def _controls(self) -> list[list[KeyedStep]]:
        """Steps of random scores, and of people's rationales where all test texts have one."""
        origin, tested = keys.origin(self.model), [one.fingerprint for one in self.texts["test"]]
        controls = [self._pieces_of(RANDOM, [origin, self.recipe.initialisations], "grade_random", ())]
        if self._annotated:
            key = content_hash([HUMAN, origin, tested, self._measures])
            controls.append([KeyedStep(f"grade/{HUMAN}", key, "grade_human")])
        return controls

    def _ranks(self, reference: str) -> bool:
        """Whether a network learns the order of the sizes of a reference's scores."""
        return any(signal == "ranking" for _, signal in self.recipe.variants(reference))

    def _variants(self, reference: str) -> list[Network]:
        return [
            Network(reference, reading, signal, seed)
            for reading, signal in self.recipe.variants(reference)
            for seed in range(self.recipe.initialisations)
        ]

    @property
    def _networks(self) -> list[KeyedStep]:
        return [self._learning(one) for label in self.recipe.learnable for one in self._variants(label)]

    @property
    def _graded(self) -> list[list[KeyedStep]]:
        """The steps that give records, explainer by explainer."""
        references = [self._grading(label) for label in self.recipe.learnable]
        networks = [self._learned_grading(one) for label in self.recipe.learnable for one in self._variants(label)]
        return [*references, *networks, *self._controls]

    # Labels.

    def _known(self, reference: str) -> dict[Place, Plain]:
        """Labels of an earlier run by split and number, of the same model and settings as far as the file says."""
        if reference not in self._known_by:
            self._known_by[reference] = {
                place: row
                for place, row in self._all_known.get(reference, {}).items()
                if row["settings"] in (None, self._settings(reference, place[0]))
            }
        return self._known_by[reference]

    @cached_property
    def _all_known(self) -> dict[str, dict[Place, Plain]]:
        return known_labels(self._taken, self.texts)

    @property
    def _taken(self) -> Path:
        """Labels of earlier runs: a copy, so that keys do not change when this run writes its own."""
        return self.parts.root / f"taken-{self.name}.parquet"

    def _unlabelled(self, reference: str, split: str, start: int) -> list[int]:
        """Numbers of the texts of a chunk that have no label yet."""
        known = self._known(reference)
        end = min(start + self.recipe.chunk, len(self.texts[split]))
        return [number for number in range(start, end) if (split, number) not in known]

    def _gather_rows(self, reference: str) -> pa.Table:
        rows = dict(self._known(reference))
        for _, step in self._labelling[reference]:
            if self.is_done(step):
                rows |= {(row["split"], row["number"]): row for row in self.parts.read(step.key).to_pylist()}
        return as_table(rows.values())

    def _settings_of(self, reference: str, split: str) -> str:
        """Hash of all that decides a reference's scores of the texts of a split."""
        return content_hash([keys.origin(self.model), keys.identity(self.explainer(reference, split))])

    @cached_property
    def _half_model(self) -> NetworkModel:
        return half_precision.HalfPrecision(self._load_model())

    def _rounded(self, explainer: Explainer, texts: Sequence[Example]) -> list[Explanation]:
        """Explanations by the model in float16 of what the full one predicts, with the full one's outputs."""
        known = self.model.predict(texts)
        made = explainer.explain(self._half_model, texts, [prediction.label for prediction in known])
        return [dataclasses.replace(one, prediction=own) for one, own in zip(made, known, strict=True)]

    def _is_half(self, reference: str, split: str) -> bool:
        wanted = {"train": self.recipe.half, "test": self.recipe.half_test}.get(split, False)
        on_gpu = self.model.network.device.type == "cuda"
        return wanted and on_gpu and half_precision.suits(self.explainer(reference).card)

    def _background(self) -> Path:
        """A file of training texts, named by what it holds: runs that share parts may have other texts."""
        lines = [" ".join(text.text.split()) for text in self.texts["train"][:BACKGROUND]]
        path, text = self.parts.root / f"background-{content_hash(lines)}.txt", "\n".join(lines) + "\n"
        if not path.is_file() or path.read_bytes() != text.encode("utf-8", "backslashreplace"):
            disk.write_text(path, text)
        return path

    # Grades.

    def _grader(self, piece: Piece) -> StudyGrader:
        names = piece_of(self._names, piece)
        return StudyGrader(self.recipe, self.model, names, compares=piece == CORPUS, annotated=self._annotated)

    @cached_property
    def _annotated(self) -> bool:
        """Whether all test texts have people's rationales."""
        return all(one.rationale is not None for one in self.texts["test"])

    @cached_property
    def _names(self) -> list[str]:
        return example_names(self.texts["test"])

    @property
    def _measures(self) -> list[object]:
        return [keys.FORMAT, {name: list(measure) for name, measure in METRICS_OF_ALL.items()}, self.recipe.encoder]

    def learned_settings(self, network: Network) -> Plain:
        """All settings of a network but its seed."""
        own = self.recipe.settings(network.reference, network.reading, network.signal)
        return own | {"embeddings": self.recipe.embeddings, "choose": self.recipe.choose}

    def _summary(self, table: pa.Table) -> Plain:
        facts = {step.name: self._facts(step) for step in self._networks if self.is_done(step)}
        grades = gather(table)
        return {
            "study": self.recipe.to_dict() | {"model": Path(str(self.recipe.model["source"])).name},
            "facts": facts,
            "texts": {split: _counted(self.texts[split]) for split in SPLITS},
            "labels": {name: len(self._gather_rows(name)) for name in self._gathered},
            "speed": next((self._facts(step) for step in self.closing() if self.is_done(step)), {}),
            "means": means(grades),
            "versus": [dataclasses.asdict(row) for row in versus(grades)],
            "above_chance": above_chance(grades),
        }

    def _facts(self, step: KeyedStep) -> Plain:
        return read_facts(self.parts.read(step.key))


def _path(network: Network) -> str:
    """Of a network in the names of its steps."""
    return "/".join(map(str, vars(network).values()))


def _counted(texts: Sequence[Example]) -> dict[str, float]:
    """How many texts there are, and how many words one has on average."""
    words = sum(len(text.text.split()) for text in texts)
    return {"texts": len(texts), "words": round(words / max(1, len(texts)), 1)}
