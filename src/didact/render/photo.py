"""Explained images in HTML: the photo once for all methods, and the units of each drawn over it."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Sequence

from didact.render.colour import strengths
from didact.render.overlay import AGAINST, DENSITY, FOR, UNSIGNED, picture
from didact.render.png import png
from didact.render.style import LEVELS, level
from didact.types import Box, Example, Explanation, Image, Mask, Region

SHOWN = 300
"""Pixels that an image is shown across at least."""
_SQUARES = 100


def photo_rules(examples: Iterable[Example]) -> str:
    """CSS that holds each image and its size once, however many methods explain it."""
    images = {field.fingerprint: field for each in examples for field in each.fields if isinstance(field, Image)}
    return "\n".join(
        f".didact .{_name(image)}{{background-image:url({_data(image)})}}.didact .{_frame(image)}{{{_size(image)}}}"
        for image in images.values()
    )


def photo_styles() -> str:
    """CSS of photos and of the units over them; blue, orange and violet as in the .png overlays."""
    colours = {"p": FOR, "n": AGAINST, "u": UNSIGNED}
    fills = (
        f".didact .picture .{side}{step}{{fill:{colour};fill-opacity:{DENSITY * step / LEVELS:.3f}}}"
        for side, colour in colours.items()
        for step in range(1, LEVELS + 1)
    )
    return "\n".join([_RULES.strip(), *fills])


def photo(image: Image, label: str) -> str:
    """The image as it is."""
    inner = f'<div class="photo {_name(image)}" role="img" aria-label="{label}"></div>'
    return f'<div class="picture {_frame(image)}">{inner}</div>'


def explained_photo(explanation: Explanation, field: int, label: str, titles: Sequence[str]) -> str:
    """The image faded, and over it every unit in the colour of its score; ``titles`` name them."""
    image = picture(explanation, field)
    width, height = image.size
    shapes = "".join(
        f'<path class="{classes}" d="{_outline(region)}"><title>{title}</title></path>'
        for region, classes, title in zip(explanation.units.regions, _classes(explanation), titles, strict=True)
        if region.field == field
    )
    return (
        f'<div class="picture {_frame(image)}"><div class="photo faded {_name(image)}"></div>'
        f'<svg viewBox="0 0 {width} {height}" shape-rendering="crispEdges" role="img" aria-label="{label}">'
        f"{shapes}</svg></div>"
    )


def _classes(explanation: Explanation) -> list[str]:
    steps = (level(strength, explanation.signed) for strength in strengths(explanation))
    return [f"u {step}" if step else "unit" for step in steps]


def _outline(region: Region) -> str:
    """The pixels of a region as a path of rectangles."""
    if isinstance(region, Box):
        return _rectangle(region.left, region.top, region.right - region.left, region.bottom - region.top)
    if not isinstance(region, Mask):
        return ""
    width = region.size[0]
    parts = []
    ends = itertools.accumulate(region.runs)
    for end, length in itertools.islice(zip(ends, region.runs, strict=True), 1, None, 3):
        start = end - length
        while start < end:  # a run may go on in the next row
            row, column = divmod(start, width)
            whole = (end - start) // width if column == 0 else 0
            across = width if whole else min(end - start, width - column)
            parts.append(_rectangle(column, row, across, whole or 1))
            start += across * (whole or 1)
    return "".join(parts)


def _rectangle(left: int, top: int, width: int, height: int) -> str:
    return f"M{left} {top}h{width}v{height}h-{width}z"


def _frame(image: Image) -> str:
    return f"frame-{image.fingerprint}"


def _size(image: Image) -> str:
    width, height = image.size
    squares = ";image-rendering:pixelated" if width <= _SQUARES else ""  # of a tiny image
    return f"width:{max(width, SHOWN)}px;aspect-ratio:{width}/{height}{squares}"


def _name(image: Image) -> str:
    return f"photo-{image.fingerprint}"


def _data(image: Image) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image.pixels)).decode("ascii")


_RULES = """
.didact .picture{position:relative;max-width:100%;background:#fff;overflow:hidden;print-color-adjust:exact}
.didact .photo{position:absolute;inset:0;background-size:100% 100%}
.didact .faded{filter:grayscale(1);opacity:.55}
.didact .picture:hover .faded{filter:none;opacity:1}
.didact .picture svg{position:absolute;inset:0;width:100%;height:100%;display:block}
.didact .picture .unit{fill:transparent}
.didact .picture .u.off{fill:transparent}
.didact .picture:hover .u:not(:hover){fill-opacity:.12}
.didact .picture path:hover{stroke:#000;stroke-width:2px;vector-effect:non-scaling-stroke}
.didact .tiles>tbody{display:flex;flex-wrap:wrap;gap:0 2.25rem}
.didact .methods.tiles>tbody>tr{display:flex;flex-direction:column-reverse;justify-content:flex-end;max-width:100%;
 border:0}
.didact .methods.tiles>tbody>tr>th,.didact .methods.tiles>tbody>tr>td{display:block;width:auto;max-width:35rem;
 padding:.5rem 0 0}
.didact .methods.tiles>tbody>tr>td{padding:1.1rem 0 0}
.didact .methods.tiles>tbody>tr>th{padding-bottom:1rem;contain:inline-size}
"""
