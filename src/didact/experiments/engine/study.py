"""What recipes of studies share that train explainers: a model, and texts of three splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from didact.errors import FormatError
from didact.experiments.engine.tables import ModelTable, StudyTable, check_table
from didact.experiments.engine.toml import Options, Plain, TomlRecipe

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class StudyData:
    """``[data]``: a source, or several, for every split."""

    train: Options | Sequence[Options]
    validation: Options | Sequence[Options]
    test: Options | Sequence[Options]


@dataclass(frozen=True)
class StudyRecipe(TomlRecipe):
    """A recipe with ``[model]`` and with sources for every split.

    Args:
        name: of the study, and of its folder.
        model: source of the explained model, and how it is loaded.
        data: split -> sources whose texts follow each other.
    """

    needed: ClassVar[tuple[str, ...]] = ("model", "data")
    """Entries that have no default."""

    name: str
    model: Options
    data: Mapping[str, Sequence[Options]]

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """Fields from plain values; every split becomes a list of sources."""
        lacking = [name for name in cls.needed if name not in data]
        if lacking:
            raise FormatError(f"{where}: {', '.join(lacking)} must be given")
        check_table(StudyData, data["data"], f"{where}, [data]", needed=SPLITS)
        data = super().parsed(data, where)
        data["data"] = {split: [one] if isinstance(one, dict) else one for split, one in data["data"].items()}
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run, before anything is loaded."""
        super().check(where)
        check_table(ModelTable, self.model, f"{where}, [model]", needed=["source"])
        for split, sources in self.data.items():
            if not sources:
                raise FormatError(f"{where}, [data] {split} is empty; name at least one source")
            for one in sources:
                check_table(StudyTable, one, f"{where}, [data] {split}", needed=["source"])
