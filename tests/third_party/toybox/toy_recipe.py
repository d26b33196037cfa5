"""A kind of recipe: squares of numbers, each a step, then their sum."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from didact.experiments.engine.kinds import Kind, RecipeCard, register
from didact.experiments.engine.steps import KeyedStep, RecipeJob, Round, RunOptions
from didact.experiments.engine.toml import TomlRecipe
from didact.provenance import content_hash
from didact.store import records
from didact.types import Record


@dataclass(frozen=True)
class ToyRecipe(TomlRecipe):
    """Numbers to square.

    ``pause`` is the seconds that each takes, ``killed`` a number whose process dies once, and ``large`` one that runs
    out of memory, ``times`` times.
    """

    kind: ClassVar[str] = "toy_recipe"
    list_fields: ClassVar[tuple[str, ...]] = ("numbers",)

    name: str = "toy"
    numbers: tuple[int, ...] = (1, 2, 3)
    pause: float = 0.0
    killed: int | None = None
    large: int | None = None
    times: int = 1

    def on_device(self, device: str | None) -> ToyRecipe:
        return self


class ToyJob(RecipeJob):
    """Keeps a line in calls.txt for each number that it squares."""

    def __init__(self, recipe: ToyRecipe, options: RunOptions) -> None:
        super().__init__(options)
        self.recipe = recipe

    @property
    def name(self) -> str:
        return self.recipe.name

    def identity(self) -> Mapping[str, object]:
        return {"kind": self.recipe.kind, "numbers": self.recipe.numbers}

    def rounds(self) -> Iterator[Round]:
        yield Round("squares", [self.squaring(number) for number in self.recipe.numbers])
        keys = [self.squaring(number).key for number in self.recipe.numbers]
        yield Round("sum", [KeyedStep("sum", content_hash(["sum", keys]), "add")])

    def squaring(self, number: int) -> KeyedStep:
        return KeyedStep(f"square/{number}", content_hash(["square", number]), "square", (number,))

    def square(self, number: int) -> pa.Table:
        marker = self.options.out / "died"
        if number == self.recipe.killed and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), 9)
        if number == self.recipe.large:
            tried = self.options.out / "tried.txt"
            with tried.open("a") as file:
                file.write(f"{os.getpid()}\n")
            if len(tried.read_text().split()) <= self.recipe.times:
                raise MemoryError
        time.sleep(self.recipe.pause)
        with (self.options.out / "calls.txt").open("a") as file:
            file.write(f"{number}\n")
        return pa.table({"value": [float(number**2)]})

    def add(self) -> pa.Table:
        values = [self.parts.read(self.squaring(n).key)["value"][0].as_py() for n in self.recipe.numbers]
        return pa.table({"value": [sum(values)]})

    def finish(self, *, complete: bool) -> None:
        done = [n for n in self.recipe.numbers if self.is_done(self.squaring(n))]
        same, settings = ("toy", "toy", 0, "", "square", ""), content_hash(["square"])
        rows = [
            Record(*same, str(n), self.parts.read(self.squaring(n).key)["value"][0].as_py(), "", "numbers", settings)
            for n in done
        ]
        (self.results / "manifest.json").write_text('{"kind": "toy_recipe"}')
        records.write(self.results / "records.parquet", records.to_table(rows))


@register(RecipeCard("toy_recipe", "Squares of numbers."))
class Toy(Kind[ToyRecipe]):
    """The kind itself."""

    recipe = ToyRecipe

    def job(self, recipe: ToyRecipe, options: RunOptions) -> RecipeJob:
        return ToyJob(recipe, options)
