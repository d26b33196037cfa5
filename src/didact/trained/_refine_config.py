"""How far and how fast explanations are refined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, get_type_hints

from didact.errors import ParameterError
from didact.registry import unknown
from didact.settings import allowed, fits, shown
from didact.types import JsonValue

COPIED, CHANGED = 4e-5, 1e-3
"""Usual learning rates of copied matrices and of changes of low rank to them."""


@dataclass(frozen=True, kw_only=True)
class RefineConfig:
    """How far and how fast explanations are refined.

    At least one of ``steps`` and ``seconds`` is given; where both are, refinement ends with the first that is used up.

    Args:
        steps: updates per text; None for as many as ``seconds`` allow.
        learning_rate: of AdamW at the first step; it falls linearly and would reach 0 after the last one. When not
            given, AML's 4e-5, or 1e-3 with a ``rank``.
        seconds: wall time per text; None for no limit. Texts that are refined together share what they have together.
            With a limit the result depends on the machine.
        rows: texts refined together at most; fewer where memory is short. The result does not depend on it.
        rank: learn changes of this rank to the matrices of linear layers instead of copies of them; None for copies.
        weight_decay: of AdamW.
        seed: of the first values of changes of low rank.
    """

    steps: int | None = 10
    learning_rate: float | None = None
    seconds: float | None = None
    rows: int = 32
    rank: int | None = None
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise ParameterError("refinement needs an end, got steps=None and seconds=None; give one of them")
        for name in ("steps", "rows", "rank"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} of refinement must be at least 1, got {value!r}")
        for name in ("learning_rate", "seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ParameterError(f"{name} of refinement must be above 0 and finite, got {value!r}")
        for name in ("weight_decay", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ParameterError(f"{name} of refinement must not be negative, got {getattr(self, name)!r}")

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """An instance with these settings; the error for an unknown one, or one of another type, names it."""
        hints = get_type_hints(cls)
        for name, value in settings.items():
            if name not in hints:
                raise ParameterError(unknown("setting of refinement", name, list(hints)))
            if not fits(value, hints[name]):
                kinds = " or ".join(allowed(hints[name]))
                raise ParameterError(f"{name} of refinement must be {kinds}, got {shown(value)}")
        return cls(**settings)  # type: ignore[arg-type] # checked above

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """What decides the result, as plain values."""
        return {
            "steps": self.steps,
            "learning_rate": self.rate,
            "seconds": self.seconds,
            "rank": self.rank,
            "weight_decay": self.weight_decay,
            "seed": self.seed,
        }

    @property
    def rate(self) -> float:
        """The learning rate of the first step."""
        if self.learning_rate is not None:
            return self.learning_rate
        return COPIED if self.rank is None else CHANGED

    def done(self, steps: int, seconds: float) -> float:
        """The share of the budget, from 0 to 1, that is used up after so many steps and seconds per text."""
        by_steps = 0.0 if self.steps is None else steps / self.steps
        by_seconds = 0.0 if self.seconds is None else seconds / self.seconds
        return min(1.0, max(by_steps, by_seconds))
