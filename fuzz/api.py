"""Which call of the public functions a case makes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz import calls, experiments, nouns, sources
from fuzz.cases import Attempt
from fuzz.workshop import Workshop

Maker = Callable[[Random, Workshop], Attempt]

WEIGHTS: dict[Maker, float] = {
    calls.explain: 30,
    calls.compare: 8,
    calls.estimate: 5,
    calls.load_model: 8,
    calls.load_explainer: 5,
    calls.list_methods: 3,
    nouns.from_json: 8,
    nouns.construct: 4,
    nouns.examples: 5,
    nouns.prediction: 3,
    nouns.draw: 6,
    nouns.save: 3,
    nouns.display: 2,
    nouns.import_attributions: 4,
    nouns.measure: 5,
    nouns.tables: 3,
    sources.registry: 3,
    sources.listed: 6,
    experiments.evaluate: 1,
    experiments.simulate: 0.5,
    experiments.train: 0.5,
}


def api(rng: Random, workshop: Workshop) -> Attempt:
    """A random call."""
    return rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0](rng, workshop)
