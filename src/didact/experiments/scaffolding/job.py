"""Carries out a recipe of scaffolding: trains explainers, then teaches fresh students with frozen explanations.

Beside the files of a simulation (``didact.experiments.simulability.job``):

OUT/explainers.json     what each training took and gave: weights of heads, verdicts
OUT/plausibility.json   agreement of explanations with what people marked
OUT/parts/explainers/   trained explainers, each under a hash of all that decides it
OUT/parts/training/     their checkpoints, from which a killed training resumes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import cast

import pyarrow as pa

from didact.data.load import load_data
from didact.errors import InputError
from didact.experiments.engine.facts import facts_table, read_facts
from didact.experiments.engine.objects import write_object
from didact.experiments.engine.steps import KeyedStep, Round
from didact.experiments.engine.toml import Entry, Options, Plain
from didact.experiments.scaffolding.plausibility import RatedData, judged, oracles, rated_data
from didact.experiments.scaffolding.recipe import ScaffoldingRecipe
from didact.experiments.scaffolding.weights import head_weights
from didact.experiments.simulability.job import SimulabilityJob
from didact.protocols import HEADS, Explainer, Heads
from didact.provenance import content_hash
from didact.simulation.hints import HintFormat
from didact.simulation.simulability import SimulabilityData, teacher_answers
from didact.store import keys
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.types import Example

VALIDATION = 0.15
"""Share of the training texts that chooses among epochs where the recipe names no validation texts."""


class ScaffoldingJob(SimulabilityJob):
    """The steps of a recipe of scaffolding."""

    recipe: ScaffoldingRecipe

    def explainer_identity(self) -> dict[str, object]:
        """What decides the explanations, by label; trained explainers by what decides their training."""
        static = {label: keys.identity(one) for label, one in self.experiment.explainers.items()}
        return static | {one.label: self._training(one).key for one in self.recipe.trained}

    @property
    def explainers(self) -> Mapping[str, Explainer]:
        """Static and trained explainers by label; those must have been trained."""
        return self._explainers

    @cached_property
    def _explainers(self) -> dict[str, Explainer]:
        return {**self.experiment.explainers, **{one.label: self._loaded(one) for one in self.recipe.trained}}

    def rounds(self) -> Iterator[Round]:
        """Training, the rounds of a simulation, and the comparison with what people marked."""
        yield Round("training explainers", [self._training(one) for one in self.recipe.trained])
        yield from super().rounds()
        if self.recipe.plausibility:
            yield Round("comparing with people", list(self._rating()))

    def finish(self, *, complete: bool) -> None:
        """Write what there is; nothing where an explainer is not trained yet."""
        trainings = {one.label: self._training(one) for one in self.recipe.trained}
        if not all(map(self.is_done, trainings.values())):
            return
        facts = {label: read_facts(self.parts.read(step.key)) for label, step in trainings.items()}
        shared = {one.fingerprint for one in self._training_texts} & {
            one.example.fingerprint for one in self.experiment.pool
        }
        about = {"texts": len(self._training_texts), "also in the pool": len(shared)}
        write_object(self.results / "explainers.json", {"training": about, "explainers": facts})
        write_object(self.results / "plausibility.json", self._plausibility())
        super().finish(complete=complete)

    def train(self, label: str) -> pa.Table:
        """Train an explainer; its checkpoints stay, so that a killed training resumes."""
        entry = self._entry(label)
        key = self._training(entry).key
        given = TrainingInput(
            model=self._model,
            examples=self._training_texts,
            validation=self._validation_texts,
            held_out=0.0,
            folder=self.parts.root / "training" / key,
            parts=self.parts,  # so that trainings that begin with the same search share its students
            data=self.name,
        )
        explainer = PRESETS.get(entry.name).configured(**entry.settings).train(given)
        explainer.save_pretrained(self._place(entry))
        facts = {"preset": entry.name, "settings": dict(entry.settings), "cost": dict(explainer.about.cost)}
        return facts_table({**facts, "heads": head_weights(explainer)})

    def rate(self, data: str, label: str) -> pa.Table:
        """Agreement of an explainer with what people marked."""
        return judged(self._rated[data], self._model, self.explainers[label], self._format(label))

    def rate_heads(self, data: str) -> pa.Table:
        """The same of every head and every layer of the model."""
        return oracles(self._rated[data], cast("Heads", self._model))

    @cached_property
    def material(self) -> SimulabilityData:
        """What all students have in common, with the texts that choose among their epochs."""
        given = self._validation_texts
        chosen_by = given if self.recipe.choose == "best" and not isinstance(given, float) else []
        return replace(super().material, validation=teacher_answers(self._model, chosen_by) if chosen_by else ())

    def carried(self, channel: str) -> list[str]:
        """The arms whose hints a channel carries."""
        reach = self.recipe.reach
        return [arm.label for arm in self.arms if channel in reach.get(arm.explainer, (channel,))]

    # Planning.

    def _entry(self, label: str) -> Entry:
        return next(one for one in self.recipe.trained if one.label == label)

    def _training(self, one: Entry) -> KeyedStep:
        settings = PRESETS.get(one.name).configured(**one.settings).parameters
        key = content_hash(["train", one.name, settings, keys.origin(self._model), self._learned_from])
        return KeyedStep(f"train/{one.label}", key, "train", (one.label,))

    @cached_property
    def _learned_from(self) -> str:
        given = self._validation_texts
        return content_hash([_hash(self._training_texts), given if isinstance(given, float) else _hash(given)])

    def _place(self, one: Entry) -> Path:
        return self.parts.root / "explainers" / self._training(one).key

    def _loaded(self, one: Entry) -> LearnedExplainer:
        return LearnedExplainer.from_pretrained(self._place(one), model=self._model, device=self.device)

    @cached_property
    def _training_texts(self) -> list[Example]:
        """Texts that explainers learn from; none of them is a test text."""
        if not self.recipe.train:
            return [one.example for one in self.experiment.pool]
        return self._apart(self.recipe.train, {one.example.fingerprint for one in self.experiment.test}, "train")

    @cached_property
    def _validation_texts(self) -> list[Example] | float:
        """Texts that choose among epochs or candidates; none of them is a test or a training text."""
        if not self.recipe.validation:
            return VALIDATION
        known = {one.example.fingerprint for one in self.experiment.test}
        known |= {one.fingerprint for one in self._training_texts}
        return self._apart(self.recipe.validation, known, "validation")

    def _apart(self, source: Options, known: set[str], name: str) -> list[Example]:
        texts = load_data(**{"source": self.recipe.data["source"], **source})
        kept = [one for one in texts if one.fingerprint not in known]
        if not kept:
            raise InputError(f"every text of [{name}] is a test or training text; name others")
        return kept

    # What people marked.

    @cached_property
    def _rated(self) -> dict[str, RatedData]:
        return {one.label: one for one in map(rated_data, self.recipe.plausibility)}

    def _format(self, label: str) -> HintFormat:
        """How an explainer's explanations are shown."""
        return self.recipe.formats_of(label)[0].format

    def _rating(self) -> Iterator[KeyedStep]:
        for name, data in self._rated.items():
            common = [keys.origin(self._model), data.identity]
            for label, explainer in self.explainers.items():
                key = content_hash(["rate", common, vars(self._format(label)), keys.identity(explainer)])
                yield KeyedStep(f"rate/{name}/{label}", key, "rate", (name, label))
            if self.recipe.oracles and HEADS in self._model.capabilities:
                yield KeyedStep(f"rate/{name}/heads", content_hash(["heads", common]), "rate_heads", (name,))

    def _plausibility(self) -> Plain:
        """Data -> explainer or head -> side -> a value per text."""
        rated: Plain = {}
        for step in self._rating() if self.recipe.plausibility else ():
            if self.is_done(step):
                name, label = str(step.arguments[0]), str(step.arguments[-1]) if step.call == "rate" else ""
                rated.setdefault(name, {}).setdefault("explainers" if label else "heads", {})
                values = read_facts(self.parts.read(step.key))
                if label:
                    rated[name]["explainers"][label] = values
                else:
                    rated[name]["heads"] = values
        return rated


def _hash(texts: Sequence[Example]) -> str:
    return content_hash([one.fingerprint for one in texts])
