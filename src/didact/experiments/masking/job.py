"""Carries out a study of explainers trained for metrics, in keyed steps.

OUT/recipe.toml        the recipe
OUT/manifest.json      kind, recipe, versions
OUT/records.parquet    every grade as a record
OUT/summary.json       weights, facts of training, students' gains, and the speed on this machine
OUT/steps.jsonl        seconds of every step
OUT/parts/             explanations, grades, journals of searches and trained explainers, each under a hash of all that
                       decides it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import ClassVar, cast

import pyarrow as pa
import torch

from didact import disk
from didact.attribution.base import ATTRIBUTIONS
from didact.errors import InputError
from didact.experiments.engine.facts import facts_table, read_facts
from didact.experiments.engine.naming import example_names
from didact.experiments.engine.objects import write_object
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.study import SPLITS
from didact.experiments.engine.study_texts import StudyTexts, expanded, filled
from didact.experiments.engine.timing import device_name
from didact.experiments.engine.toml import Options, Plain
from didact.experiments.masking import teaching
from didact.experiments.masking.explainers import StudyExplainer, study_explainers
from didact.experiments.masking.grading import StudyMetrics
from didact.experiments.masking.recipe import PRESET, RANDOM, MaskingRecipe
from didact.experiments.masking.speed import measure_speed
from didact.experiments.masking.tuning import TuningConfig, TuningTask, tunable, tune
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.surrogate import fine_tune_masked, load_surrogate, save_surrogate
from didact.protocols import Explainer, Model
from didact.provenance import content_hash, versions
from didact.store import compact, keys
from didact.store import records as record_store
from didact.trained.drawn import DrawnExplainer
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.trained.refine import RefineConfig, RefinedExplainer
from didact.types import Example, Explanation

_SCORES = pa.schema(list(compact.COLUMNS))


class MaskingJob(RecipeJob):
    """The steps of a study.

    Args:
        recipe: what to do.
        options: where and how long.
    """

    closing_seconds: ClassVar[float] = 90.0

    def __init__(self, recipe: MaskingRecipe, options: RunOptions) -> None:
        super().__init__(options)
        self.recipe = recipe
        self.texts = StudyTexts(recipe.data)
        self.explanations = lru_cache(maxsize=4)(self._read_explanations)
        self._searching = cache(self._plan_search)
        self._training = cache(self._plan_training)
        self._explaining = cache(self._plan_explaining)

    @property
    def name(self) -> str:
        """Of the study."""
        return self.recipe.name

    def identity(self) -> dict[str, object]:
        """The recipe, with what was loaded in place of where it lies."""
        texts = {split: _hash(self.texts[split]) for split in SPLITS}
        model = [self.model.fingerprint(), self.recipe.settings_of("model")]
        return {**self.recipe.identity(), "model": model, "data": texts}

    def begin(self) -> None:
        """Write recipe and manifest."""
        disk.write_text(self.results / "recipe.toml", self.recipe.to_toml())
        facts: Plain = {"kind": self.recipe.kind, "name": self.name, "command": self.options.command}
        facts |= {"tables": list(self.recipe.tables), "versions": dict(versions()), "format": keys.FORMAT}
        write_object(self.results / "manifest.json", facts)

    def rounds(self) -> Iterator[Round]:
        """One round: searches and trainings first, as most of the rest waits for them."""
        steps = [self._searching(metric) for metric in self.recipe.optimised] if self._searches else []
        trained = dict.fromkeys((one.metric, one.without) for one in self.explainers if one.is_trained)
        steps += [self._training(*key) for key in trained]
        steps += [self._tuning_surrogate] if self.metrics.needs_surrogate else []
        for one in self.explainers:
            steps += [*self._explaining(one), self._grading(one)]
        yield Round("training, explanations and grades", [*steps, *self._teaching])

    def closing(self) -> Sequence[KeyedStep]:
        """Seconds per text, with nothing else running."""
        steps = [step for one in self.explainers for step in self._explaining(one)]
        if not all(map(self.is_done, steps)):
            return []
        return [KeyedStep("speed", content_hash(["speed", device_name(), [step.key for step in steps]]), "speed")]

    def finish(self, *, complete: bool) -> None:
        """Write records and summary of what there is."""
        graded = [self.parts.read(step.key) for step in map(self._grading, self.explainers) if self.is_done(step)]
        if not graded:
            return
        table = record_store.in_order(pa.concat_tables([part.replace_schema_metadata(None) for part in graded]))
        record_store.write(self.results / "records.parquet", table)
        write_object(self.results / "summary.json", self._summary())

    # Steps, in the order in which they depend on each other.

    def search(self, metric: str) -> pa.Table:
        """The weights of the loss that are best for a metric."""
        config = TuningConfig(**self._search)
        given = {name: value for name, value in self._settings.items() if name not in tunable(PRESET)}
        load = self.load if config.workers > 1 else lambda: self.model  # other processes load it themselves
        task = TuningTask(PRESET, given, load, self.recipe.judge(metric), self.texts["train"], self.validation)
        result = tune(task, config, self.parts.root / "searches" / self._searching(metric).key)
        facts = {
            "best": dict(result.best.settings),
            "value": result.best.value,
            "finals": {str(number): value for number, value in result.finals.items()},
            "trials": len(result.search.trials),
            "failed": [[trial.number, trial.failure] for trial in result.search.failed],
        }
        return facts_table(facts)

    def train(self, metric: str, without: str) -> pa.Table:
        """An explainer for a metric; the epoch is chosen by it too."""
        settings = {**self._settings, **self._weights(metric)} | ({without: 0.0} if without else {})
        given = TrainingInput(
            model=self.model,
            examples=self.texts["train"],
            validation=self.validation,
            held_out=0.0,
            data=self.name,
            judge=self.recipe.judge(metric),
        )
        explainer = PRESETS.get(PRESET).configured(**settings).train(given)
        explainer.save_pretrained(self._trained_path(metric, without))
        return facts_table({"weights": {name: settings.get(name) for name in tunable(PRESET)}, **explainer.about.cost})

    def explain(self, label: str, start: int) -> pa.Table:
        """Explanations of a chunk of the test texts."""
        texts = self.texts["test"][start : start + self.recipe.chunk]
        made = self.explainer(self._called(label)).explain(self.model, texts)
        return pa.Table.from_pylist([compact.packed(one) for one in made], _SCORES)

    def grade(self, label: str) -> pa.Table:
        """Records of one explainer."""
        one = self._called(label)
        explained = self.explanations(label)
        surrogate = self._surrogate if self.metrics.needs_surrogate else None
        grades = self.metrics.grades(explained, self.model, surrogate)
        same: dict[str, str | int] = {"explainer": label, "method": explained[0].method, "seed": self.recipe.seed}
        same |= {"null": "", "part": ""}
        same |= {"model": self.model.fingerprint(), "data": self.name}
        names = pa.array(example_names(self.texts["test"]), pa.string())
        tables = []
        for metric, values in grades.items():
            known = content_hash([step.key for step in self._explaining(one)] + [metric])
            row = pa.table({"example": names, "value": pa.array(values, pa.float64())})
            tables.append(record_store.with_constants(row, same | {"metric": metric, "settings": known}))
        return pa.concat_tables(tables)

    def tune_surrogate(self) -> pa.Table:
        """The surrogate that robust metrics grade with, fine-tuned on training texts with masked units."""
        options = dict(self.recipe.surrogate)
        texts = self.texts["train"][: options.pop("limit", 1000)]
        save_surrogate(fine_tune_masked(self.model, texts, **options), self._surrogate_path)
        return facts_table({})

    def teach(self) -> pa.Table:
        """Gains of closed-form students by the explanations of the test texts."""
        explained = {one.label: self.explanations(one.label) for one in self._teachers}
        gains = teaching.teach(self.model, explained, self.validation, self.recipe.simulability)
        return facts_table(cast("Plain", gains.to_dict()))

    def speed(self) -> pa.Table:
        """Seconds and evaluations per text of one explainer of each kind."""
        timed = [one for one in self.explainers if not one.without and one.metric in ("", self.recipe.optimised[0])]
        explainers = {one.row: self.explainer(one) for one in timed}
        return facts_table(measure_speed(self.model, list(self.texts["test"][: self.recipe.timed]), explainers))

    # What steps and tests share.

    @cached_property
    def model(self) -> NetworkModel:
        """The explained model."""
        return self.load()

    @property
    def load(self) -> Callable[[], NetworkModel]:
        """Loads the explained model, in other processes too."""
        return partial(_loaded, self.recipe.model, tf32=self.recipe.tf32, trust=self.options.trust_remote_code)

    @cached_property
    def explainers(self) -> list[StudyExplainer]:
        """All explainers of the study."""
        return study_explainers(self.recipe)

    @cached_property
    def metrics(self) -> StudyMetrics:
        """What grades them."""
        return StudyMetrics(self.recipe.measures)

    def explainer(self, one: StudyExplainer) -> Explainer:
        """An explainer of the study; those that are trained must have been."""
        if one.drawn:
            first = self.explainer(dataclasses.replace(one, label=one.drawn, drawn=""))
            return DrawnExplainer(first, self.recipe.judge(one.metric), self.recipe.draws, self.recipe.seed)
        if not one.is_trained:
            return self._static(one.label)
        path = self._trained_path(one.metric, one.without)
        learned = LearnedExplainer.from_pretrained(path, model=self.model, device=str(self.model.network.device))
        if one.role == "paml":
            return learned
        config = RefineConfig.configured(**self.recipe.refinement)
        return RefinedExplainer(learned, config, judge=self.recipe.judge(one.metric))

    def _static(self, label: str) -> Explainer:
        own: Plain = {"level": self.recipe.level}
        if label == RANDOM:
            return ATTRIBUTIONS.get(RANDOM).configured(**own, seed=self.recipe.seed)
        entry = next(one for one in self.recipe.rivals if one.label == label)
        return ATTRIBUTIONS.get(entry.name).configured(**{**own, **entry.settings})

    def _called(self, label: str) -> StudyExplainer:
        return next(one for one in self.explainers if one.label == label)

    def _read_explanations(self, label: str) -> list[Explanation]:
        steps = self._explaining(self._called(label))
        rows = [row for step in steps for row in self.parts.read(step.key).to_pylist()]
        return compact.unpacked(rows, self.model.units(self.texts["test"], self.recipe.level), self.model)

    @cached_property
    def validation(self) -> list[Example]:
        """Validation texts that are no test texts: they choose weights and epochs."""
        tested = {one.fingerprint for one in self.texts["test"]}
        kept = [one for one in self.texts["validation"] if one.fingerprint not in tested]
        if not kept:
            raise InputError("every validation text is a test text; give others, as they choose weights and epochs")
        return kept

    # Planning.

    @property
    def _given(self) -> Plain:
        """Settings of the preset, as the recipe has them."""
        return {"level": self.recipe.level, "seed": self.recipe.seed, **self.recipe.explainer}

    @property
    def _settings(self) -> Plain:
        """The same with environment variables in the place of the backbone filled in."""
        place = self._given.get("backbone")
        return self._given if place is None else {**self._given, "backbone": filled(place)}

    @property
    def _search(self) -> Plain:
        return dict(self.recipe.search)

    @property
    def _searches(self) -> bool:
        return bool(self._search.get("trials", 0))

    @cached_property
    def _learned_from(self) -> str:
        """Hash of what every training sees."""
        return content_hash(
            [
                PRESET,
                keys.FORMAT,
                self._given,
                self.recipe.tf32,
                self._origin,
                _hash(self.texts["train"]),
                _hash(self.validation),
            ]
        )

    @cached_property
    def _origin(self) -> str:
        return content_hash([keys.origin(self.model)])

    def _metric_hash(self, label: str) -> str:
        own = self.recipe.measure(label)
        return content_hash([own.label, own.name, dict(own.settings)])

    def _plan_search(self, metric: str) -> KeyedStep:
        key = content_hash(["search", self._learned_from, self._metric_hash(metric), self._search])
        return KeyedStep(f"search/{metric}", key, "search", (metric,))

    def _plan_training(self, metric: str, without: str) -> KeyedStep:
        searched = self._searching(metric) if self._searches else None
        key = content_hash(["train", self._learned_from, self._metric_hash(metric), searched and searched.key, without])
        name = f"train/{metric}" + (f"/without {without}" if without else "")
        after = frozenset() if searched is None else frozenset({searched.name})
        return KeyedStep(name, key, "train", (metric, without), after)

    def _plan_explaining(self, one: StudyExplainer) -> tuple[KeyedStep, ...]:
        after: frozenset[str] = frozenset()
        if one.is_trained:
            training = self._training(one.metric, one.without)
            after = frozenset({training.name})
            refinement = dict(self.recipe.refinement) if one.role == "faml" else None
            made: list[object] = [training.key, refinement]
        else:
            made = [self._origin, keys.identity(self._static(one.drawn or one.label))]
        if one.drawn:
            made += ["drawn", self.recipe.draws, self.recipe.seed, self._metric_hash(one.metric)]
        steps = []
        for start in range(0, len(self.texts["test"]), self.recipe.chunk):
            texts = self.texts["test"][start : start + self.recipe.chunk]
            key = content_hash(["explain", made, self.recipe.level, _hash(texts)])
            steps.append(KeyedStep(f"explain/{one.label}/{start}", key, "explain", (one.label, start), after))
        return tuple(steps)

    def _grading(self, one: StudyExplainer) -> KeyedStep:
        steps = self._explaining(one)
        tuned = [self._tuning_surrogate] if self.metrics.needs_surrogate else []
        measured = [step.key for step in (*steps, *tuned)]
        key = content_hash(["grade", one.label, measured, self.metrics.identity])
        return KeyedStep(
            f"grade/{one.label}", key, "grade", (one.label,), frozenset(step.name for step in (*steps, *tuned))
        )

    @cached_property
    def _tuning_surrogate(self) -> KeyedStep:
        key = content_hash(["surrogate", self._origin, _hash(self.texts["train"]), dict(self.recipe.surrogate)])
        return KeyedStep("surrogate", key, "tune_surrogate")

    @property
    def _teaching(self) -> list[KeyedStep]:
        if not self.recipe.simulability:
            return []
        steps = [step for one in self._teachers for step in self._explaining(one)]
        decisive = [[step.key for step in steps], _hash(self.validation), dict(self.recipe.simulability)]
        key = content_hash(["teach", decisive])
        return [KeyedStep("teach", key, "teach", (), frozenset(step.name for step in steps))]

    @property
    def _teachers(self) -> list[StudyExplainer]:
        return [one for one in self.explainers if not one.without and not one.drawn]

    # Places and facts.

    def _trained_path(self, metric: str, without: str) -> Path:
        return self.parts.root / "explainers" / self._training(metric, without).key

    @property
    def _surrogate_path(self) -> Path:
        return self.parts.root / "surrogates" / self._tuning_surrogate.key

    @cached_property
    def _surrogate(self) -> Model:
        return load_surrogate(self._surrogate_path, device=str(self.model.network.device))

    def _weights(self, metric: str) -> Plain:
        """What a search chose; nothing where there was none."""
        return self._facts(self._searching(metric))["best"] if self._searches else {}

    def _facts(self, step: KeyedStep) -> Plain:
        return read_facts(self.parts.read(step.key))

    def _summary(self) -> Plain:
        def known(steps: Sequence[KeyedStep]) -> Plain:
            return {step.name: self._facts(step) for step in steps if self.is_done(step)}

        trained = dict.fromkeys((one.metric, one.without) for one in self.explainers if one.is_trained)
        searches = [self._searching(metric) for metric in self.recipe.optimised] if self._searches else []
        return {
            "study": self.recipe.to_dict() | {"model": Path(str(self.recipe.model["source"])).name},
            "texts": {"train": len(self.texts["train"]), "validation": len(self.validation)}
            | {"test": len(self.texts["test"])},
            "searches": known(searches),
            "training": known([self._training(*key) for key in trained]),
            "simulability": known(self._teaching).get("teach", {}),
            "speed": known(self.closing()).get("speed", {}),
        }


def _loaded(settings: Options, *, tf32: bool, trust: bool) -> NetworkModel:
    if tf32:
        torch.set_float32_matmul_precision("high")
    return cast("NetworkModel", load_model(**expanded(settings), trust_remote_code=trust))


def _hash(texts: Sequence[Example]) -> str:
    return content_hash([one.fingerprint for one in texts])
