"""What is known of a learned explainer besides its network, and how a saved one describes itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from didact.protocols import Model
from didact.types import JsonValue, Level, Scale


@dataclass(frozen=True, kw_only=True)
class ExplainerMetadata:
    """Where a learned explainer comes from and how good it is.

    Args:
        model: name of the explained model.
        fingerprint: hash of the explained model.
        labels: names of its outputs.
        method: the preset that trained it; explanations carry this name.
        reference: the explainer whose scores it learned; empty where it learned from none.
        reference_parameters: the reference's settings.
        level: whether it scores "word"s or "token"s.
        scale: of the explained number; the model's first one when not given.
        data: what the training texts are.
        data_hash: hash of the training samples.
        scores: measured on held-out texts, by name.
        cost: what training took and how fast it explains, by name with its unit.
        disagreement: what ``DisagreementEstimate.to_dict`` gives; None where none was fitted.
        checked: the same for the estimate that a few evaluations of the model enter.
        agreement: what ``HeldOutAgreement.to_dict`` gives; None where there is no reference, or nothing is known.
        panel: what ``HeldOutPanel.to_dict`` gives: several metrics beside the reference and random scores.
        masks: what ``HeldOutMasks.to_dict`` gives, of an explainer that learned to mark what predictions rest on.
        teaching: what ``HeldOutTeaching.to_dict`` gives, of an explainer that learned what students learn from.
    """

    model: str
    fingerprint: str
    labels: tuple[str, ...]
    method: str = "l2e"
    reference: str = ""
    reference_parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    level: Level = "word"
    scale: Scale | None = None
    data: str = ""
    data_hash: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, JsonValue] = field(default_factory=dict)
    disagreement: Mapping[str, object] | None = None
    checked: Mapping[str, object] | None = None
    agreement: Mapping[str, object] | None = None
    panel: Mapping[str, object] | None = None
    masks: Mapping[str, object] | None = None
    teaching: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))

    @classmethod
    def of(cls, model: Model, **facts: object) -> ExplainerMetadata:
        """About an explainer of this model; ``facts`` are further fields."""
        return cls(model=model.name, fingerprint=model.fingerprint(), labels=model.labels, **facts)  # type: ignore[arg-type]

    def origin(self) -> SavedOrigin:
        """What is saved of it beside the explained model, level and scale."""
        return {
            "reference": self.reference,
            "reference_parameters": dict(self.reference_parameters),
            "data": self.data,
            "data_hash": self.data_hash,
            "scores": dict(self.scores),
            "cost": dict(self.cost),
            "disagreement": None if self.disagreement is None else dict(self.disagreement),
            "checked": None if self.checked is None else dict(self.checked),
            "agreement": None if self.agreement is None else dict(self.agreement),
            "panel": None if self.panel is None else dict(self.panel),
            "masks": None if self.masks is None else dict(self.masks),
            "teaching": None if self.teaching is None else dict(self.teaching),
        }


class SavedPart(TypedDict):
    """A registered thing by its name and settings."""

    name: str
    settings: dict[str, object]


class SavedModel(TypedDict):
    """The explained model."""

    name: str
    fingerprint: str
    labels: list[str]


class SavedWeights(TypedDict):
    """The weights of the shape."""

    hash: str
    count: int


class SavedOrigin(TypedDict):
    """The fields of ``ExplainerMetadata`` that have no place of their own."""

    reference: str
    reference_parameters: dict[str, JsonValue]
    data: str
    data_hash: str
    scores: dict[str, float]
    cost: dict[str, JsonValue]
    disagreement: dict[str, object] | None
    agreement: dict[str, object] | None
    checked: NotRequired[dict[str, object] | None]
    panel: NotRequired[dict[str, object] | None]
    masks: NotRequired[dict[str, object] | None]
    teaching: NotRequired[dict[str, object] | None]


class SavedDescription(TypedDict):
    """What an explainer says of itself."""

    didact_explainer: int
    method: str
    explained: SavedModel
    level: Level
    scale: Scale | None
    shape: SavedPart
    signal: SavedPart
    weights: SavedWeights
    about: SavedOrigin
    learned: NotRequired[str]


class SavedConfig(SavedDescription):
    """What ``config.json`` of a folder holds."""

    files: dict[str, str]
    runtimes: dict[str, dict[str, JsonValue]]
    versions: dict[str, str]
