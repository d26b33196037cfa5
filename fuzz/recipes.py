"""Recipes: TOML that was mistyped or is meant to harm, read, planned and sometimes carried out."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

from didact.experiments.engine.kinds import read_recipe
from didact.experiments.engine.run import run_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.engine.toml import toml_value
from fuzz.cases import LIMIT, Attempt, show
from fuzz.hostile import chance, hostile_text, json_value
from fuzz.invariants import promise
from fuzz.mutations import mutated
from fuzz.workshop import Workshop

CORPUS = {"source": "corpus", "limit": 6}
GRADING: dict[str, Any] = {
    "explainers": ["occlusion", {"method": "random", "label": "chance"}], "metrics": ["comprehensiveness"],
    "seeds": [0],
    "nulls": ["shuffle"], "chunk": 4, "model": {"source": "default"}, "data": CORPUS,
}  # fmt: skip
SIMULABILITY: dict[str, Any] = {
    "kind": "simulability", "explainers": ["occlusion"], "students": ["ridge"], "sizes": [6], "subsets": 2,
    "controls": [],
    "hints": [{"share": 0.2}], "model": {"source": "default"}, "data": {"source": "corpus", "limit": 16},
    "test": {"source": "corpus", "limit": 8, "seed": 1},
}  # fmt: skip
DISTILLATION: dict[str, Any] = {
    "kind": "distillation", "references": [{"method": "occlusion"}], "signals": ["ranking"], "initialisations": 1,
    "chunk": 8,
    "model": {"source": "default"},
    "data": {split: CORPUS | {"seed": n} for n, split in enumerate(("train", "validation", "test"))},
    "network": {"width": 8, "blocks": 1}, "training": {"epochs": 1},
}  # fmt: skip
KEYS = (
    "name", "kind", "model", "data", "explainers", "metrics", "seeds", "chunk", "nulls", "students", "channels",
    "hints", "sizes",
    "subsets", "controls", "references", "signals", "network", "training", "test", "noise", "precision", "surrogate",
    "tables",
    "trust_remote_code", "outt",
)  # fmt: skip


def recipes(rng: Random, workshop: Workshop) -> Attempt:
    """A recipe with a few entries changed; what is read again from what is written is the same recipe."""
    plain = _copy(rng.choice((GRADING, SIMULABILITY, DISTILLATION)))
    depth = rng.choice(("read", "read", "read", "read", "plan", "plan", "run"))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _change(rng, plain)
    if depth != "read":
        plain = _affordable(plain)
    content = toml(plain)
    if chance(rng, 0.15):
        content = mutated(rng, content)
    name = rng.choice(("recipe.toml", "recipe.toml", "recipe.txt", "ré cipe.toml"))

    def call() -> None:
        with workshop.folder() as folder:
            inner = folder / "a" / "b"
            inner.mkdir(parents=True)
            (inner / name).write_bytes(content)
            try:
                _read(inner / name, depth)
            finally:
                written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
                outside = [path for path in written if not path.startswith("a/b/")]
                promise(not outside, f"written outside of its folder: {outside[:3]}")

    return Attempt(depth, show("recipe", content.decode("utf-8", "replace")), call)


def _read(path: Path, depth: str) -> None:
    kind, recipe = read_recipe(path)
    again = path.with_name("again.toml")
    again.write_text(recipe.to_toml(), encoding="utf-8", errors="surrogatepass")
    promise(read_recipe(again)[1] == recipe, f"a recipe differs after to_toml: {kind.card.name}")
    late = time.time() + LIMIT / 4  # a recipe that lost its limits is a right request for hours of work
    options = RunOptions(path.parent / "out", device="cpu", deadline=late)
    if depth == "plan":
        kind.job(recipe, options)
    if depth == "run":
        run_recipe(recipe, options)


def _copy(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in plain.items()}


def _change(rng: Random, plain: dict[str, Any]) -> None:
    """Replace an entry, add one, remove one, or do so inside of a table."""
    tables = [value for value in plain.values() if isinstance(value, dict)]
    place = rng.choice(tables) if tables and chance(rng, 0.4) else plain
    if chance(rng, 0.15) and place:
        del place[rng.choice(list(place))]
        return
    key = rng.choice((*place, *KEYS, hostile_text(rng)[:30])) if chance(rng, 0.9) else hostile_text(rng)[:30]
    values = (
        json_value(rng), json_value(rng), rng.choice(("../../escape", "/tmp/fuzz-escape", "..", "")),
        {"method": "occlusion", "x": 1},
        ["occlusion", "occlusion"], {"source": hostile_text(rng)[:60]}, [{"method": hostile_text(rng)[:40]}], True,
    )  # fmt: skip
    place[key] = rng.choice(values)


def _affordable(value: Any) -> Any:
    """Without numbers that would be a right request for years of work."""
    if isinstance(value, dict):
        return {key: _affordable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_affordable(inner) for inner in value]
    return 7 if isinstance(value, int) and value > 1000 else value


def toml(plain: dict[str, Any]) -> bytes:
    """As TOML; values that TOML cannot write are written all the same, and must be refused."""
    top = [f"{_key(key)} = {toml_value(value)}" for key, value in plain.items() if not isinstance(value, dict)]
    for name, table in plain.items():
        if isinstance(table, dict):
            top += ["", f"[{_key(name)}]", *(f"{_key(key)} = {toml_value(value)}" for key, value in table.items())]
    return "\n".join(top).encode("utf-8", "surrogatepass")


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else toml_value(name)
