"""Explained images in a terminal: two pixels a character where there is colour, signs where there is none."""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from didact.render.overlay import blended, picture, reduced
from didact.types import Explanation

LARGEST = 64
"""Pixels of the longer side, at most."""
KEY = {True: "# + support it, = - oppose it, . hardly counts", False: "# + matter, . hardly"}
"""What the signs mean, with and without a sign of the scores."""
_STRONG, _SOME = 0.6, 0.25


class Mosaic:
    """Something ``rich`` can print: the image under the colours of its scores, or a map of signs without colour.

    Args:
        explanation: of an example with an image.
        field: the image's number.
    """

    def __init__(self, explanation: Explanation, field: int) -> None:
        self.explanation = explanation
        self.field = field

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = console.color_system is None or console.no_color
        yield self._signs(options.max_width) if plain else self._colours(options.max_width)

    def _colours(self, width: int) -> Text:
        """The upper half of a character is one pixel, its background the one below."""
        size = self._cells(min(LARGEST, width))
        pixels = blended(*reduced(self.explanation, self.field, *size), self.explanation.signed)
        times = max(1, LARGEST // (2 * max(size)))
        pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
        if len(pixels) % 2:
            pixels = np.concatenate([pixels, pixels[-1:]])
        shown = Text()
        for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
            for above, below in zip(upper, lower, strict=True):
                shown.append("▀", Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
            shown.append("\n")
        return shown

    def _signs(self, width: int) -> Text:
        """Two signs for each cell, which makes it a square."""
        _, strength = reduced(self.explanation, self.field, *self._cells(min(LARGEST, width) // 2))
        lines = ["".join(2 * _sign(value) for value in row) for row in strength.tolist()]
        return Text("\n".join([*lines, KEY[self.explanation.signed], ""]))

    def _cells(self, most: int) -> tuple[int, int]:
        """Columns and rows, in the proportions of the image."""
        width, height = picture(self.explanation, self.field).size
        scale = min(1.0, most / max(width, height))
        return max(1, round(scale * width)), max(1, round(scale * height))


def _sign(strength: float) -> str:
    if np.isnan(strength):
        return " "
    signs = "#+" if strength > 0 else "=-"
    return signs[0] if abs(strength) >= _STRONG else signs[1] if abs(strength) >= _SOME else "."
