"""A recipe of scaffolding: a simulation some of whose explainers are trained first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from didact.errors import DidactError, FormatError
from didact.experiments.engine.tables import Count, DataTable, check_table
from didact.experiments.engine.toml import Entry, Options, Plain, check_choice, check_labels, checked_label, source_of
from didact.experiments.simulability.recipe import Format, SimulabilityRecipe
from didact.settings import Between
from didact.simulation.hints import HintFormat
from didact.simulation.simulability import NONE, Choice, Plan
from didact.trained.presets.base import PRESETS

SMAT = "smat"


@dataclass(frozen=True)
class PlausibilityTable(DataTable):
    """``[[plausibility]]``: data with human rationales, and how explanations are compared with them.

    Attributes:
        label: what it is called in records.
        sides: names of an example's fields, each judged by itself; together when empty.
    """

    source: str = ""
    label: str = ""
    sides: Sequence[str] = ()


@dataclass(frozen=True)
class ScaffoldingRecipe(SimulabilityRecipe):
    """What an experiment with trained explainers is made of, besides what a simulation has.

    Students are fresh: none of them took part in the training of an explainer.

    Attributes:
        explainers: static rivals.
        trained: presets with their settings; each is trained once, under its label.
        curve: students are tested after every so many epochs; 0 tests them at the end alone.
        choose: which test counts as a student's end: the "last", or the "best" on the validation texts, as in SMaT.
        train: texts that explainers are trained on: "source" and options of ``load_data``; the pool when not given.
        validation: texts that choose among their epochs or candidates; a share of ``train`` when not given.
        reach: explainer -> the channels that carry its hints; all of them where it is not listed. Gradients and
            attention had different weights in SMaT.
        formats: explainer -> labels of the formats of its hints; the first format where it is not listed. Scores of
            different size need different temperatures.
        plausibility: data with human rationales that explanations are compared with.
        oracles: whether every head and every layer of the model is compared with the rationales too; the best of them
            is a ceiling that uses human labels.
    """

    kind: ClassVar[str] = "scaffolding"
    entry_fields: ClassVar[Mapping[str, str]] = {**SimulabilityRecipe.entry_fields, "trained": "preset"}
    source_fields: ClassVar[tuple[str, ...]] = (*SimulabilityRecipe.source_fields, "train", "validation")

    name: str = "scaffolding"
    explainers: tuple[Entry, ...] = ()
    trained: tuple[Entry, ...] = (Entry(SMAT, SMAT),)
    curve: Annotated[int, Between(0, 100_000)] = 0
    choose: Choice = "last"
    train: Options = field(default_factory=dict)
    validation: Options = field(default_factory=dict)
    reach: Mapping[str, Sequence[str]] = field(default_factory=dict)
    formats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    plausibility: tuple[Options, ...] = ()
    oracles: bool = True
    controls: tuple[str, ...] = ("random",)
    hints: tuple[Format, ...] = (Format("softmax", HintFormat(kind="softmax")),)
    chunk: Count = 64

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """Fields from plain values."""
        data = super().parsed(data, where)
        given = data.get("plausibility")
        if isinstance(given, (list, tuple)):
            data["plausibility"] = tuple(source_of(one, f"{where}, [[plausibility]]") for one in given)
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run, before anything is loaded."""
        if self.teacher != "model":
            raise FormatError(f"{where}: explainers are trained for a model; leave out teacher = {self.teacher!r}")
        if not self.trained:
            raise FormatError(f"{where}: trained is empty; name a preset, or use kind = 'simulability'")
        if self.choose == "best" and not self.validation:
            raise FormatError(f"{where}: choose = 'best' compares epochs on validation texts; give [validation]")
        super().check(where)
        for name in ("train", "validation"):
            check_table(DataTable, getattr(self, name), f"{where}, [{name}]")
        self._check_trained(where)
        self._check_chosen(where)
        self._check_plausibility(where)

    def plan(self) -> Plan:
        """How many students are trained, and when they are tested."""
        return replace(super().plan(), curve=self.curve, choose=self.choose)

    def formats_of(self, explainer: str) -> tuple[Format, ...]:
        """The formats in which an explainer's explanations are shown."""
        labels = self.formats.get(explainer, (self.hints[0].label,))
        return tuple(one for one in self.hints if one.label in labels)

    def needed_lists(self) -> tuple[str, ...]:
        """Lists that must not be empty; explainers may all be trained."""
        return tuple(name for name in super().needed_lists() if name != "explainers")

    def _check_trained(self, where: str) -> None:
        check_labels((*self.explainers, *self.trained), f"{where}, explainers and trained")
        for one in self.trained:
            if one.label == NONE:
                raise FormatError(f"{where}: {NONE!r} is the name of students without hints; choose another label")
            try:
                PRESETS.get(one.name).configured(**one.settings)
            except DidactError as problem:
                raise FormatError(f"{where}, trained {one.label}: {problem}") from None

    def _check_chosen(self, where: str) -> None:
        """What ``reach`` and ``formats`` name must be there."""
        labels = [one.label for one in (*self.explainers, *self.trained)]
        known = {"reach": [one.label for one in self.channels], "formats": [one.label for one in self.hints]}
        for name, choices in known.items():
            for label, chosen in getattr(self, name).items():
                check_choice("explainer", label, labels, f"{where}, [{name}]")
                if not chosen:
                    raise FormatError(f"{where}, [{name}]: {label} has an empty list; name one, or leave out the entry")
                for one in chosen:
                    check_choice(name.rstrip("s"), one, choices, f"{where}, [{name}] {label}")

    def _check_plausibility(self, where: str) -> None:
        for one in self.plausibility:
            check_table(PlausibilityTable, one, f"{where}, [[plausibility]]", needed=["source"])
        check_labels([Entry(rated_label(one, where), "") for one in self.plausibility], f"{where}, [[plausibility]]")

    def to_dict(self) -> Plain:
        """Plain values, as in the file; what was left out stays out."""
        chosen = {
            name: {label: list(labels) for label, labels in getattr(self, name).items()}
            for name in ("reach", "formats")
        }
        return super().to_dict() | chosen | {"plausibility": [dict(one) for one in self.plausibility]}


def rated_label(table: Options, where: str = "recipe") -> str:
    """What data with rationales are called: their label, or their source."""
    return checked_label(table.get("label") or table["source"], where)
