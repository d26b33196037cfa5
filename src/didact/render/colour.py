"""From scores to colours, the same in every output.

The scores of one explanation are divided by the largest absolute one, so colours compare units within an explanation
and never between two. Blue supports the target, orange opposes it, violet is importance without a sign; blue and
orange stay apart under all common kinds of colour blindness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didact.types import Explanation

FAINT = 0.1
"""Strengths below this are shown like text without a score."""


@dataclass(frozen=True)
class Palette:
    """Colours for one background; ``text`` and ``muted`` are readable on ``page``, ``text`` on every tint.

    Attributes:
        page: the background.
        text: ordinary text.
        muted: text of less importance, and what the model never saw.
        positive: background of the strongest unit for the target.
        negative: background of the strongest unit against it.
        unsigned: background of the strongest unit of a method without signs.
    """

    page: str
    text: str
    muted: str
    positive: str
    negative: str
    unsigned: str


LIGHT = Palette("#ffffff", "#1b1f24", "#5f6873", "#6db3ee", "#f79a5b", "#b99cf0")
DARK = Palette("#14171b", "#f1f3f5", "#98a2ad", "#1967ae", "#a94b12", "#7446c2")


@dataclass(frozen=True)
class Tint:
    """Background and foreground of one unit, as ``#rrggbb``."""

    background: str
    foreground: str


def strengths(explanation: Explanation) -> tuple[float, ...]:
    """Scores divided by the largest absolute one: in [-1, 1], or in [0, 1] where the method has no signs."""
    scores = explanation.array if explanation.signed else np.maximum(explanation.array, 0.0)
    largest = float(np.abs(scores).max(initial=0.0))
    return tuple(float(score) for score in (scores / largest if largest > 0 else scores * 0.0))


def tint(strength: float, *, signed: bool, palette: Palette) -> Tint:
    """Colours of a unit of this strength; strength 0 gives the palette's page and text."""
    strongest = palette.unsigned if not signed else palette.positive if strength > 0 else palette.negative
    return Tint(mix(palette.page, strongest, min(1.0, abs(strength))), palette.text)


def mix(first: str, second: str, share: float) -> str:
    """The colour ``share`` of the way from the first to the second."""
    mixed = (round(a + (b - a) * share) for a, b in zip(channels(first), channels(second), strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of ``#rrggbb``, from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
