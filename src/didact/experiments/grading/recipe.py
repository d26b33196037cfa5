"""A recipe of grading: which model, data, explainers, metrics and seeds make an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from didact.errors import FormatError
from didact.experiments.engine.tables import Count, DataTable, ModelTable, Seed, SurrogateTable, check_table
from didact.experiments.engine.toml import GRADING, Entry, Options, TomlRecipe, check_choice

Null = Literal["shuffle"]
NULLS: tuple[Null, ...] = get_args(Null)

ALL = "all"
"""Instead of a list: everything registered that the model and the data allow."""

DEFAULT = "default"
"""Instead of a list: a few methods, or metrics, of each family that the model and the data allow."""


@dataclass(frozen=True)
class GradingRecipe(TomlRecipe):
    """What an experiment is made of.

    Attributes:
        name: of the experiment; its folder is called so unless another is given.
        model: "source" (anything ``load_model`` reads from a string) and options of ``load_model``.
        data: "source" and options of ``load_data`` (split, limit, seed, fields).
        explainers: what is graded; "all" for every method that model and data allow, "default" for a few of them.
        metrics: what grades it; "default" or "all".
        seeds: seeded explainers are run once with each.
        nulls: broken copies of every explanation that are graded beside it; none to leave them out.
        chunk: examples that are explained or graded together; at most one chunk is lost when a run is killed.
        surrogate: data on which the surrogate of robust metrics is fine-tuned, and options of its training.
        cut_from: how many examples were wanted, where fewer fit into the time budget.
    """

    kind: ClassVar[str] = GRADING
    entry_fields: ClassVar[Mapping[str, str]] = {"explainers": "method", "metrics": "metric"}
    source_fields: ClassVar[tuple[str, ...]] = ("model", "data", "surrogate")
    list_fields: ClassVar[tuple[str, ...]] = ("seeds", "nulls")
    descriptive: ClassVar[tuple[str, ...]] = ("name", "tables", "figures", "cut_from")
    tables_of: ClassVar[Mapping[str, type]] = {"model": ModelTable, "data": DataTable, "surrogate": SurrogateTable}

    name: str = "evaluation"
    model: Options = field(default_factory=lambda: {"source": "default"})
    data: Options = field(default_factory=lambda: {"source": "corpus"})
    explainers: tuple[Entry, ...] | str = ALL
    metrics: tuple[Entry, ...] | str = DEFAULT
    seeds: tuple[Seed, ...] = (0,)
    nulls: tuple[str, ...] = NULLS
    chunk: Count = 32
    surrogate: Options = field(default_factory=dict)
    cut_from: Count | None = None

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        for name in self.entry_fields:
            value = getattr(self, name)
            if isinstance(value, str) and value not in (ALL, DEFAULT):
                raise FormatError(f"{where}: {name} must be a list or {ALL!r} or {DEFAULT!r}, got {value!r}")
            if not value:
                raise FormatError(f"{where}: {name} is empty; name at least one")
        super().check(where)
        if not self.seeds:
            raise FormatError(f"{where}: seeds is empty; name at least one")
        for null in self.nulls:
            check_choice("null", null, NULLS, where)
        check_table(DataTable, self.data, f"{where}, [data]", needed=["source"])
