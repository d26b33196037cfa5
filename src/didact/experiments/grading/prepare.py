"""From a recipe to an experiment: everything it names loaded, chosen and checked before any work begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from didact.attribution.base import ATTRIBUTIONS, check_inputs, check_needs, takes
from didact.data.dataset import Dataset
from didact.data.load import load_data
from didact.errors import InputError, ParameterError
from didact.experiments.engine.toml import Entry, Options, Plain, check_labels
from didact.experiments.grading.recipe import ALL, GradingRecipe
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.protocols import Explainer, Metric, Model
from didact.registry import Registry

CONTROLS = ("random", "trivial")
"""Explainers that no table is without."""


@dataclass(frozen=True, eq=False)
class GradingExperiment:
    """All that is needed to run: see ``GradingRecipe`` for the fields of the same name.

    Attributes:
        explainers: by label; seeded ones have their first seed.
        metrics: by label.
        tuning: texts for the surrogate of robust metrics, and the options of its training.
    """

    recipe: GradingRecipe
    model: Model
    data: Dataset
    explainers: Mapping[str, Explainer]
    metrics: Mapping[str, Metric]
    tuning: Options = field(default_factory=dict)

    def seeds(self, label: str) -> tuple[int, ...]:
        """The seeds an explainer is run with: one run where it has none."""
        return self.recipe.seeds if _is_seeded(self.explainers[label]) else (0,)

    def seeded(self, label: str, seed: int) -> Explainer:
        """An explainer with a seed."""
        explainer = self.explainers[label]
        return dataclasses.replace(explainer, seed=seed) if _is_seeded(explainer) else explainer  # type: ignore[type-var]


def prepare(
    recipe: GradingRecipe,
    *,
    model: Model | None = None,
    data: Dataset | None = None,
    explainers: Mapping[str, Explainer] | None = None,
    trust_remote_code: bool = False,
) -> GradingExperiment:
    """Load what a recipe names, or take what is given instead.

    Args:
        recipe: what to do.
        model: a loaded model, instead of the recipe's.
        data: loaded data, instead of the recipe's.
        explainers: made ones by label, instead of the recipe's.
        trust_remote_code: whether the recipe's model may run code of its own.
    """
    loaded = model if model is not None else load_model(**recipe.model, trust_remote_code=trust_remote_code)
    dataset = data if data is not None else load_data(**recipe.data)
    if not dataset.examples:
        raise InputError(f"{dataset.name} holds no example")
    chosen = dict(explainers) if explainers is not None else _explainers(recipe, loaded, dataset)
    for name in CONTROLS:
        if not any(explainer.card.name == name for explainer in chosen.values()):
            chosen[name] = ATTRIBUTIONS.get(name)()
    for label, explainer in chosen.items():
        check_needs(explainer.card, loaded)
        check_inputs(explainer.card, dataset.examples)
        _check_rationales(label, explainer.card.needs_rationale, dataset)
    metrics = _metrics(recipe, loaded, dataset, chosen)
    return GradingExperiment(recipe, loaded, dataset, chosen, metrics, _tuning(recipe, dataset, metrics))


def _explainers(recipe: GradingRecipe, model: Model, data: Dataset) -> dict[str, Explainer]:
    entries = recipe.explainers
    if isinstance(entries, str):
        cards = [c for c in ATTRIBUTIONS.cards() if c.needs <= model.capabilities and takes(c, data.examples)]
        cards = [c for c in cards if not c.needs_rationale or has_rationales(data)]
        entries = tuple(Entry(c.name, c.name) for c in cards if entries == ALL or c.default)
    chosen = _registered(entries, ATTRIBUTIONS)
    return {one.label: ATTRIBUTIONS.get(one.name).configured(**one.settings) for one in chosen}


def _registered(entries: Sequence[Entry], registry: Registry[Any, Any]) -> list[Entry]:
    """Entries under the registered names of what they name; an alias is no label of its own."""
    renamed = []
    for one in entries:
        name = registry.resolve(one.name)
        renamed.append(dataclasses.replace(one, name=name, label=name if one.label == one.name else one.label))
    check_labels(renamed, f"{registry.kind}s")
    return renamed


def _metrics(
    recipe: GradingRecipe, model: Model, data: Dataset, explainers: Mapping[str, Explainer]
) -> dict[str, Metric]:
    entries = recipe.metrics
    if isinstance(entries, str):
        missing = _missing(recipe, model, data, explainers)
        cards = [card for card in METRICS.cards() if card.name != "break_even" and not card.needs & missing]
        entries = tuple(Entry(card.name, card.name) for card in cards if entries == ALL or card.default)
    metrics: dict[str, Metric] = {}
    for one in _registered(entries, METRICS):
        card = METRICS.card(one.name)
        if "repeats" in card.needs and len(recipe.seeds) < 2:
            raise ParameterError(f"{one.name} compares seeds; give at least two, as in seeds = [0, 1, 2]")
        _check_rationales(one.label, "rationale" in card.needs, data)
        metrics[one.label] = METRICS.get(one.name).configured(**one.settings)
    return metrics


def _missing(recipe: GradingRecipe, model: Model, data: Dataset, explainers: Mapping[str, Explainer]) -> frozenset[str]:
    """What a metric that nobody named may need and does not have without further settings."""
    missing = {
        "rationale": not has_rationales(data),
        "repeats": len(recipe.seeds) < 2 or not any(_is_seeded(explainer) for explainer in explainers.values()),
        "surrogate": not recipe.surrogate,
        "text": not all(example.is_textual for example in data.examples),
        "classes": model.predict(data.examples[:1])[0].kind != "class",
    }
    return frozenset(need for need, is_missing in missing.items() if is_missing)


def _tuning(recipe: GradingRecipe, data: Dataset, metrics: Mapping[str, Metric]) -> Plain:
    """Examples for the surrogate and the options of its training; empty where no metric needs one."""
    if not any("surrogate" in metric.card.needs for metric in metrics.values()):
        return {}
    options = dict(recipe.surrogate)
    named = {name: options.pop(name) for name in ("source", "split", "limit", "fields") if name in options}
    return {"examples": load_data(**named).examples if "source" in named else data.examples, **options}


def has_rationales(data: Dataset) -> bool:
    """Whether every example has a human rationale."""
    return all(example.rationale is not None for example in data.examples)


def _check_rationales(label: str, needed: bool, data: Dataset) -> None:
    lacking = sum(example.rationale is None for example in data.examples)
    if needed and lacking:
        raise InputError(
            f"{label} needs human rationales, and {lacking} of the {len(data.examples)} examples of {data.name} have "
            "none; leave it out, or give data with rationales"
        )


def _is_seeded(explainer: Explainer) -> bool:
    given: object = explainer
    fields = dataclasses.fields(given) if dataclasses.is_dataclass(given) else ()
    return explainer.card.seeded and "seed" in {item.name for item in fields}
