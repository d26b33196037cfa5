"""What every preset is: settings, and a training from a model and texts to an explainer.

This module and those of the presets import torch inside ``train`` alone, so that a command line can list presets and
their settings quickly.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, get_type_hints, runtime_checkable

from didact.errors import ParameterError
from didact.protocols import ExampleLike, Explainer, Model
from didact.registry import Registry
from didact.settings import Configured, allowed, fits
from didact.types import Estimate, Example, Explanation, Level, Scale

if TYPE_CHECKING:
    from didact.store.parts import Parts
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.judging import Judge

Reference = str | Explainer | Sequence[str | Explainer] | None
"""A registered method, an explainer, several of these, or nothing for the preset's own choice."""

Texts = Sequence[ExampleLike] | Sequence[Explanation]


@dataclass(frozen=True)
class PresetCard:
    """What a registered preset is and needs.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: "distillation", "masking", "teaching", ...
        summary: one sentence.
        reference: where it was published.
        shape: the shape it trains.
        signals: the signals it may train it with.
        learns: method and settings of the reference that it learns from when none is given, for presets that learn
            another explainer's scores; None for others, which take no reference.
        learns_if_short: method and settings of a further reference where texts are short, when none is given: the
            average of both is learned.
        needs: capabilities of the explained model.
        tunable: settings from 0 to 1 that weigh the terms of its loss, which a search by a metric may choose.
        examples: command lines for its help.
    """

    name: str
    family: str
    summary: str
    reference: str
    shape: str
    signals: tuple[str, ...]
    learns: tuple[str, Mapping[str, object]] | None = None
    learns_if_short: tuple[str, Mapping[str, object]] | None = None
    needs: frozenset[str] = frozenset()
    tunable: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrainingInput:
    """What a preset trains with, besides its settings.

    Attributes:
        model: the explained model.
        examples: texts or pairs, or explanations of them to learn from.
        reference: explainers to learn from.
        validation: texts that epochs are compared by, or the share of the examples that is taken for it.
        held_out: texts that the result is measured on, or the share of the examples.
        folder: where labels and checkpoints are stored: a killed call resumes there when it is made again.
        parts: where labels are stored, if trainings are to share them; inside ``folder`` when not given.
        data: what the texts are, for the explainer's card.
        judge: grades explanations of the validation texts; the epoch that it rates best is kept.
        panel: metrics by which an explainer that learned another's scores is held against it and against random
            scores, on validation texts to choose the epoch and on held-out texts for its card.
    """

    model: Model
    examples: Texts
    reference: Reference = None
    validation: Sequence[ExampleLike] | float = 0.15
    held_out: Sequence[ExampleLike] | float = 0.15
    folder: Path | None = None
    parts: Parts | None = None
    data: str = ""
    judge: Judge | None = None
    panel: Sequence[Judge] = ()

    @property
    def explained(self) -> Sequence[Explanation]:
        """The examples where these are explanations; empty where they are texts."""
        return [one for one in self.examples if isinstance(one, Explanation)]


class ExplainerPreset(Configured, ABC):
    """A published system; a subclass's dataclass fields are its settings, with one line each under Args."""

    card: ClassVar[PresetCard]

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """A preset with these settings; unknown ones, and values of another type, are named."""
        names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type] # a dataclass
        wrong = next((name for name in settings if name not in names), None)
        if wrong is not None:
            raise ParameterError(f"unknown setting of {cls.card.name}: {wrong!r}; known: {', '.join(names)}")
        hints = get_type_hints(cls)
        for name, value in settings.items():
            if not fits(value, hints[name]):
                raise ParameterError(
                    f"{name} of {cls.card.name} must be {' or '.join(allowed(hints[name]))}, got {value!r}"
                )
        return cls(**settings)

    @abstractmethod
    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Train an explainer of the given model."""


@runtime_checkable
class Estimating(Protocol):
    """A preset that knows beforehand what its training takes."""

    def estimate(self, given: TrainingInput) -> list[Estimate]:
        """A row per part of the training; nothing is trained."""


PRESETS: Registry[ExplainerPreset, PresetCard] = Registry(
    "preset", "didact.trained.presets", [str(Path(__file__).parent)], "didact.presets"
)
register = PRESETS.register


SHORT = 32
"""Units that short texts have at most on average; of longer ones few evaluations say too little of each unit."""
FIRST = 256
"""Texts whose length counts."""


def default_reference(card: PresetCard, **settings: object) -> Explainer:
    """The reference of a preset for texts of any length when none is given; given settings replace its own."""
    if card.learns is None:
        raise ParameterError(f"{card.name} learns from no other explainer")
    return _configured(card.learns, settings)


def default_references(
    card: PresetCard, model: Model, texts: Sequence[Example], level: Level | None = None, scale: Scale | None = None
) -> list[Explainer]:
    """The references of a preset for these texts when none is given."""
    common = {name: value for name, value in (("level", level), ("scale", scale)) if value is not None}
    made = [default_reference(card, **common)]
    if card.learns_if_short is None:
        return made
    units = model.units(texts[:FIRST], level)
    if sum(map(len, units)) > SHORT * len(units):
        return made
    return [*made, _configured(card.learns_if_short, common)]


def _configured(reference: tuple[str, Mapping[str, object]], settings: Mapping[str, object]) -> Explainer:
    from didact.attribution.base import ATTRIBUTIONS

    name, own = reference
    return ATTRIBUTIONS.get(name).configured(**{**own, **settings})


@dataclass(frozen=True)
class PresetSetting:
    """A setting of a preset, as a command line shows it.

    Attributes:
        name: of the field.
        type: its annotation.
        default: its default value.
        help: what the docstring says of it.
    """

    name: str
    type: object
    default: object
    help: str


def settings_of(preset: type[ExplainerPreset]) -> list[PresetSetting]:
    """All settings in the order of their fields; each must be described in the docstring."""
    hints, lines = get_type_hints(preset), _described(preset)
    listed = []
    for item in dataclasses.fields(preset):  # type: ignore[arg-type] # a dataclass
        factory = item.default_factory
        default = item.default if factory is dataclasses.MISSING else factory()
        if item.name not in lines:
            raise ValueError(f"{preset.card.name} does not describe its setting {item.name!r} under Args")
        listed.append(PresetSetting(item.name, hints[item.name], default, lines[item.name]))
    return listed


def _described(preset: type[ExplainerPreset]) -> dict[str, str]:
    """PresetSetting -> its description, from the section Args of the docstring."""
    text = inspect.getdoc(preset) or ""
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n      +.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(words.split()).removesuffix(".") for name, words in entries}
