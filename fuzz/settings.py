"""Settings of registered things, right and wrong; small enough that a right one is quick."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Literal, get_args, get_origin, get_type_hints

from didact.attribution.base import ATTRIBUTIONS
from didact.settings import Configured
from fuzz.hostile import anything, chance, hostile_text, mostly

QUICK: dict[str, dict[str, object]] = {
    "integrated_gradients": {"steps": 8},
    "sequential_integrated_gradients": {"steps": 2},
    "layer_conductance": {"steps": 4},
    "lime": {"samples": 30},
    "kernel_shap": {"evaluations": 40},
    "shapley_sampling": {"evaluations": 40},
    "partition_shap": {"evaluations": 40},
    "gradient_shap": {"samples": 4},
    "deep_shap": {"samples": 2},
    "smoothgrad": {"samples": 4},
    "solvex": {"evaluations": 60},
    "reagent": {"iterations": 3},
}
"""Settings that make a method take milliseconds on a tiny model; those that it does not have are left out."""

SMALL = (-1, 0, 1, 2, 3, 5, 8, 40)


def method_name(rng: Random) -> str:
    """A registered method, or rarely no method at all."""
    return str(mostly(rng, rng.choice(ATTRIBUTIONS.names()), 0.95, hostile_text))


def method_settings(rng: Random, name: str) -> dict[str, object]:
    """Quick settings, some of them replaced."""
    if name not in ATTRIBUTIONS.names():
        return {} if chance(rng, 0.7) else {"steps": 3}
    cls = ATTRIBUTIONS.get(name)
    own = {item.name for item in dataclasses.fields(cls)}
    settings = {key: value for key, value in QUICK.get(name, {}).items() if key in own}
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        settings |= some_setting(rng, cls)
    return settings


def some_setting(rng: Random, cls: type[Configured]) -> dict[str, object]:
    """One setting of a class with a value of its type or of another, or one that it does not have."""
    hints = get_type_hints(cls)
    names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if not names or chance(rng, 0.05):
        return {rng.choice(("stpes", "x", "self", "model", "examples")): anything(rng)}
    name = rng.choice(names)
    return {name: mostly(rng, of_type(rng, hints[name]), 0.7)}


def of_type(rng: Random, hint: object) -> object:
    """A small value of a type; hostile strings for strings."""
    if get_origin(hint) is Literal:
        return rng.choice(get_args(hint))
    if get_args(hint):
        return of_type(rng, rng.choice(get_args(hint)))
    if hint is bool:
        return chance(rng, 0.5)
    if hint is int:
        return rng.choice(SMALL)
    if hint is float:
        return rng.choice((*SMALL, 0.1, 0.5, 1e-6, -0.5, float("nan"), float("inf"), 1e300))
    if hint is str:
        return rng.choice(("word", "token", "mask", "pad", "delete", "blend", "sample:1", "token:x", hostile_text(rng)))
    return None
