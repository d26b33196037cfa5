"""From a model and texts to an explainer that teaches: heads are searched, trained by students, and measured."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from didact import disk
from didact.errors import CapabilityError, InputError, ParameterError
from didact.models.head_scores import layer_numbers
from didact.protocols import HEADS, Heads
from didact.provenance import content_hash
from didact.simulation.hints import HintFormat
from didact.store.parts import Parts
from didact.students.base import Hint
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit_types import Fitted
from didact.trained.held_out_teaching import HeldOutTeaching
from didact.trained.learning import (
    DirectTraining,
    chosen_by,
    direct_shape,
    direct_trainee,
    start,
    timed,
    training_cost,
)
from didact.trained.metadata import ExplainerMetadata
from didact.trained.presets.base import TrainingInput
from didact.trained.scaffolding.ranking import read_ranking, search_key, write_ranking
from didact.trained.scaffolding.search import ALL, FRESH, HeadSearchConfig, HeadSearchResult, search_heads
from didact.trained.scaffolding.teaching import (
    FreshStudents,
    HeadTeacher,
    HintsOf,
    TeachingTexts,
    compared,
    on_disk,
    teach,
)
from didact.trained.shapes.base import SHAPES
from didact.trained.split import TextSplit
from didact.types import Example, JsonValue, Units

OWN = "this explainer"
RANKING = "search.json"


@dataclass(frozen=True, kw_only=True)
class TeachingTraining(DirectTraining):
    """What is trained to teach, and how.

    Args:
        fresh: students that candidates of the search and the result are measured by.
        search: searches the heads to begin with; None begins as ``shape_settings`` say.
        meta: whether the signal trains the explainer, from where the search left it.
        students: fresh students of each explanation on held-out texts; 0 for no comparison.
    """

    fresh: FreshStudents
    search: HeadSearchConfig | None = None
    meta: bool = True
    students: int = 6


def learn_to_teach(given: TrainingInput, recipe: TeachingTraining) -> LearnedExplainer:
    """Search and train an explainer, and compare what fresh students learn from it with the mean of all heads."""
    split = start(given, recipe)
    return _Run(given, placed(recipe, given), split).learn()


class _Run:
    """One training with what it needs, each computed when first used."""

    def __init__(self, given: TrainingInput, recipe: TeachingTraining, split: TextSplit) -> None:
        self.given, self.model, self.recipe, self.split = given, given.model, recipe, split
        self.cost: dict[str, JsonValue] = {}
        self.parts = _parts(given)

    def learn(self) -> LearnedExplainer:
        """Search, train, measure."""
        direct_shape(self.model, self.units[:1], self.recipe)  # refuses wrong settings before students are trained
        result = self._searched() if self.recipe.search is not None else None
        recipe = self.recipe if result is None else _begun(self.recipe, result)
        if recipe.meta:
            explainer, fitted = direct_trainee(self.given, recipe, self.split).trained(recipe, self.given)
        else:
            explainer, fitted = self._untrained(recipe), None
        return LearnedExplainer(explainer.shape, explainer.signal, self._measured(explainer, fitted))

    @cached_property
    def units(self) -> list[Units]:
        """Of the training texts."""
        return self.model.units(self.split.train, self.recipe.level)

    def _searched(self) -> HeadSearchResult:
        """The best mixes of heads on validation texts; the ranking is written beside the explainer."""
        config, settings = cast("HeadSearchConfig", self.recipe.search), self.recipe.shape_settings
        if HEADS not in SHAPES.card(self.recipe.shape).needs:
            works = [card.name for card in SHAPES.cards() if HEADS in card.needs]
            raise CapabilityError(
                f"a search tries mixes of attention heads, which the {self.recipe.shape} has not; give search='none', "
                f"or a shape that has: {', '.join(works)}"
            )
        if not self.split.validation:
            raise ParameterError("a search compares heads on validation texts, and there are none; give some")
        began = time.perf_counter()
        depth, heads = cast("Heads", self.model).head_grid
        layers = layer_numbers(cast("Sequence[int] | None", settings.get("layers")), depth)
        temperature = float(cast("float", settings.get("temperature", 1.0)))
        key = search_key(self.model, self.split, self.recipe.fresh, config, [layers, self.recipe.level, temperature])
        stored = None if self.parts is None else self.parts.root / "searches" / f"{key}.json"
        result = None if stored is None else read_ranking(stored)
        if result is None:
            texts = TeachingTexts.of(self.model, self.units, self.split.validation)
            teacher = HeadTeacher(self.model, texts, self.recipe.fresh, layers, temperature)
            result = search_heads(layers, heads, teacher, config)
            if stored is not None:
                write_ranking(stored, result)
        self.cost |= {
            "best heads of the search": result.best.name,
            "candidates of the search": result.tried,
            "students of the search": result.students,
            "seconds to search": round(time.perf_counter() - began, 3),
        }
        if self.given.folder is not None:
            disk.write_text(self.given.folder / RANKING, json.dumps(result.to_dict(), indent=1) + "\n")
        return result

    def _untrained(self, recipe: TeachingTraining) -> LearnedExplainer:
        signal, shape = direct_shape(self.model, self.units, recipe)
        facts = {"method": recipe.method, "data": self.given.data, "level": recipe.level}
        read = content_hash([example.fingerprint for example in self.split.train])
        about = ExplainerMetadata.of(self.model, **facts, data_hash=read)
        return LearnedExplainer(shape.finished(), signal, about)

    def _measured(self, explainer: LearnedExplainer, fitted: Fitted | None) -> ExplainerMetadata:
        """The metadata with cost and what fresh students learn from it."""
        _, speed = timed(explainer, self.model, self.split.held_out)
        teaching = self._taught(explainer)
        cost = training_cost(self.split, fitted, **self.cost)
        return dataclasses.replace(
            explainer.about,
            cost={**cost, **speed},
            teaching=teaching.to_dict(),
            scores=({} if fitted is None else chosen_by(fitted)) | (teaching.scores if teaching.n else {}),
        )

    def _taught(self, explainer: LearnedExplainer) -> HeldOutTeaching:
        if not self.split.held_out or not self.recipe.students:
            return HeldOutTeaching.unknown()
        texts = TeachingTexts.of(self.model, self.units, self.split.held_out)
        heads = HeadTeacher(self.model, texts, self.recipe.fresh)
        size = int(np.prod(cast("Heads", self.model).head_grid))
        hints = {OWN: self._hints(explainer, texts), ALL: heads.hints(np.full(size, 1 / size))}
        seed = self.recipe.seed + 2 * FRESH
        return compared(teach(texts, self.recipe.fresh, hints, self.recipe.students, seed), OWN, ALL)

    def _hints(self, explainer: LearnedExplainer, texts: TeachingTexts) -> HintsOf:
        """The explainer's explanations as students see them."""

        def of(places: Sequence[int]) -> list[Hint]:
            examples: list[Example] = [texts.units[place].example for place in places]
            return HintFormat(kind=self.recipe.fresh.explanation).hints(explainer.explain(self.model, examples))

        return of


def placed(recipe: TeachingTraining, given: TrainingInput) -> TeachingTraining:
    """The recipe with the level of its units, and a place where students' answers are stored."""
    levels = given.model.levels
    level = recipe.level or ("token" if "token" in levels else levels[0])
    if given.judge is not None:
        raise ParameterError(f"{recipe.method} is measured by students; leave out {given.judge.name!r}")
    if given.explained:
        raise InputError(f"{recipe.method} learns from texts, and explanations were given; give the texts")
    parts = _parts(given)
    fresh = recipe.fresh if parts is None else dataclasses.replace(recipe.fresh, memory=on_disk(parts))
    return dataclasses.replace(recipe, level=level, fresh=fresh)


def _parts(given: TrainingInput) -> Parts | None:
    """Where students' answers and searches are stored; None for nowhere."""
    return given.parts or (None if given.folder is None else Parts(given.folder / "parts"))


def _begun(recipe: TeachingTraining, result: HeadSearchResult) -> TeachingTraining:
    """The recipe that begins with the best heads of a search."""
    temperature = float(cast("float", recipe.shape_settings.get("temperature", 1.0))) * result.best.temperature
    settings = {**recipe.shape_settings, "start": result.best.weights.tolist(), "temperature": temperature}
    return dataclasses.replace(recipe, shape_settings=settings)
