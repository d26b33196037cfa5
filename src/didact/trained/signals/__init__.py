"""What a learned explainer learns from, one file each."""

from __future__ import annotations

from didact.trained._names import defined_in, one_of
from didact.trained.signals.base import Signal


def known() -> dict[str, type[Signal]]:
    """All signals by name."""
    return defined_in(__name__, __path__, Signal)  # type: ignore[type-abstract] # only looked for, never made


def get(name: str) -> type[Signal]:
    """The signal called ``name``."""
    return one_of("signal", name, known())
