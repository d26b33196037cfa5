"""An image with the scores of its parts laid over it, at its own resolution or smaller.

The image fades to light gray, so that its own colours are not taken for scores: blue supports the target, orange
against it, violet is importance without a sign, as in every other output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.render.colour import channels, strengths
from didact.render.png import png
from didact.types import Box, Explanation, Floats, Image, Mask

Pixels = NDArray[np.uint8]

FOR, AGAINST, UNSIGNED = "#0a5fc0", "#d95205", "#6a2fc4"
"""Colours of the strongest parts, deep enough to be seen on a photo."""
DENSITY = 0.78
"""How much of the strongest part's colour hides the image."""
_FADED = 0.45
_BAND = 256


def overlay_png(explanations: Sequence[Explanation]) -> bytes:
    """The overlay of one explanation of an image as a PNG file of the image's own size.

    Raises:
        InputError: there is not exactly one explanation, or it has no image.
    """
    if len(explanations) != 1:
        raise InputError(
            f"a .png shows one explanation of an image, and there are {len(explanations)}; .html shows them all"
        )
    fields = [number for number, field in enumerate(explanations[0].example.fields) if isinstance(field, Image)]
    if not fields:
        raise InputError("a .png shows an explained image, and this example is text; write .html, .svg, .tex or .txt")
    return png(overlay(explanations[0], fields[0]))


def overlay(explanation: Explanation, field: int = 0) -> Pixels:
    """The image of one field under the colours of its scores: (height, width, 3)."""
    pixels, strength = picture(explanation, field).pixels, heat(explanation, field)
    bands = [slice(top, top + _BAND) for top in range(0, len(pixels), _BAND)]  # which spares memory
    return np.concatenate([blended(pixels[band], strength[band], explanation.signed) for band in bands])


def picture(explanation: Explanation, field: int = 0) -> Image:
    """The image of one field."""
    image = explanation.example.fields[field]
    if not isinstance(image, Image):
        raise InputError(f"field {field} of this example is a text, and an image is needed here")
    return image


def heat(explanation: Explanation, field: int = 0) -> Floats:
    """Strength of every pixel, the sum over the units that cover it within [-1, 1]; NaN where none does."""
    width, height = picture(explanation, field).size
    total, covered = np.zeros((height, width)), np.zeros((height, width), dtype=np.bool_)
    for region, strength in zip(explanation.units.regions, strengths(explanation), strict=True):
        if region.field != field:
            continue
        if isinstance(region, Box):
            total[region.top : region.bottom, region.left : region.right] += strength
            covered[region.top : region.bottom, region.left : region.right] = True
        elif isinstance(region, Mask):
            total[region.pixels] += strength
            covered[region.pixels] = True
    return np.where(covered, np.clip(total, -1, 1), np.nan)


def reduced(explanation: Explanation, field: int, columns: int, rows: int) -> tuple[Pixels, Floats]:
    """Image and strengths as means over ``columns`` x ``rows`` cells, for outputs with few of them."""
    pixels, strength = picture(explanation, field).pixels, heat(explanation, field)
    down, across = _cuts(len(pixels), rows), _cuts(pixels.shape[1], columns)
    mean = _means(pixels, down, across)
    seen = _means(~np.isnan(strength)[..., None], down, across)[..., 0]
    total = _means(np.nan_to_num(strength)[..., None], down, across)[..., 0]
    return np.round(mean).astype(np.uint8), np.where(seen > 0, total / np.maximum(seen, 1e-9), np.nan)


def blended(pixels: Pixels, strength: Floats, signed: bool) -> Pixels:
    """Pixels faded to gray under the colours of their strengths; what has no score is darkened."""
    gray = pixels @ np.array([0.299, 0.587, 0.114])
    base = np.repeat((gray * (1 - _FADED) + 255 * _FADED)[..., None], 3, axis=2)
    base[np.isnan(strength)] *= 0.5
    power = np.nan_to_num(strength)
    hues = np.array([channels(colour) for colour in ((FOR, AGAINST) if signed else (UNSIGNED, UNSIGNED))], dtype=float)
    density = DENSITY * np.abs(power)[..., None]
    return np.round(base * (1 - density) + hues[(power < 0).astype(np.intp)] * density).astype(np.uint8)


def _cuts(length: int, parts: int) -> NDArray[np.intp]:
    """Where each of at most ``parts`` equal parts begins."""
    return np.unique(np.arange(parts) * length // parts)


def _means(values: NDArray[Any], down: NDArray[np.intp], across: NDArray[np.intp]) -> Floats:
    sums = np.add.reduceat(np.add.reduceat(values, down, axis=0, dtype=np.float64), across, axis=1)
    heights, widths = np.diff([*down, values.shape[0]]), np.diff([*across, values.shape[1]])
    return np.asarray(sums / (heights[:, None, None] * widths[None, :, None]))
