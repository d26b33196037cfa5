"""What is known of a learned explainer besides its network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from didact.protocols import Model
from didact.types import JsonValue, Level, Scale


@dataclass(frozen=True, kw_only=True)
class ExplainerMetadata:
    """Where a learned explainer comes from and how good it is.

    Args:
        model: name of the explained model.
        fingerprint: hash of the explained model.
        labels: names of its outputs.
        teacher: whose explanations it learnt from.
        teacher_parameters: the teacher's settings.
        level: whether it scores "word"s or "token"s.
        scale: of the explained number; the model's first one when not given.
        data: what the training texts are.
        data_hash: hash of the training samples.
        scores: measured on held-out texts, by name.
        cost: what training took and how fast it explains, by name with its unit.
        doubt: what ``Doubt.to_dict`` gives; nothing where none was fitted.
    """

    model: str
    fingerprint: str
    labels: tuple[str, ...]
    teacher: str = ""
    teacher_parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    level: Level = "word"
    scale: Scale | None = None
    data: str = ""
    data_hash: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, JsonValue] = field(default_factory=dict)
    doubt: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))

    @classmethod
    def of(cls, model: Model, **facts: Any) -> ExplainerMetadata:
        """About an explainer of this model."""
        return cls(model=model.name, fingerprint=model.fingerprint(), labels=model.labels, **facts)
