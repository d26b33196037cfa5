"""A number for each attention head as a map of layers and heads: a picture (SVG) or lines of characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from didact.render.colour import DARK, LIGHT, Palette, mix
from didact.render.markup import html_text

CELL = 26
"""Width and height of a head's square in the picture."""
_LEFT, _TOP, _EDGE = 64, 46, 12


def heads_svg(
    values: NDArray[np.float64],
    layers: Sequence[int] | None = None,
    *,
    title: str = "Weights of heads",
    low: float = 0,
) -> str:
    """A heat map as a picture of its own, for light and dark pages, with hundredths in its squares.

    Args:
        values: (layers, heads).
        layers: numbers of the layers; from 0 on when not given.
        title: stands above the map.
        low: the value without colour, such as 0.5 for areas under a curve; values below it are orange.
    """
    rows = _checked(values, layers)
    width, height = _LEFT + CELL * values.shape[1] + _EDGE, _TOP + CELL * len(rows) + 20 + _EDGE
    marks = [
        _square(value, (layer, head), (_LEFT + CELL * head, _TOP + CELL * place), _strength(value, values, low))
        for place, (layer, line) in enumerate(rows)
        for head, value in enumerate(line)
    ]
    names = [
        *(_text(str(layer), _LEFT - 8, _TOP + CELL * (n + 0.65), "end") for n, (layer, _) in enumerate(rows)),
        *(
            _text(str(head), _LEFT + CELL * (head + 0.5), height - _EDGE - 4, "middle")
            for head in range(values.shape[1])
        ),
        _text("layer", 8, _TOP + CELL * 0.65, "start"),
        _text("head", 8, height - _EDGE - 4, "start"),
        _text(title, 8, 24, "start"),
    ]
    return (
        f'<svg class="didact-heads" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html_text(title)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="system-ui,sans-serif" '
        f'font-size="12">{_style()}<rect class="page" width="{width}" height="{height}"/>{"".join(marks + names)}</svg>'
    )


def heads_text(values: NDArray[np.float64], layers: Sequence[int] | None = None) -> str:
    """The same in characters: a line per layer, hundredths per head, a dot for 0."""
    rows = _checked(values, layers)
    cells = [[_hundredths(value) for value in line] for _, line in rows]
    wide = 2 + max(2, *(len(cell) for line in cells for cell in line))
    head = "layer" + "".join(f"{number:>{wide}}" for number in range(values.shape[1]))
    lines = [
        f"{layer:>5}" + "".join(f"{cell:>{wide}}" for cell in line)
        for (layer, _), line in zip(rows, cells, strict=True)
    ]
    return "\n".join([head, *lines])


def _checked(values: NDArray[np.float64], layers: Sequence[int] | None) -> list[tuple[int, list[float]]]:
    """Number and values of each layer."""
    numbers = range(len(values)) if layers is None else layers
    return list(zip(numbers, np.asarray(values, dtype=float).tolist(), strict=True))


def _hundredths(value: float) -> str:
    if value == 0:
        return "."
    return "<1" if 0 < value < 0.005 else f"{100 * value:.0f}"


def _strength(value: float, values: NDArray[np.float64], low: float) -> float:
    """From -1 to 1: the distance to ``low``, as a share of the largest."""
    largest = float(np.nanmax(np.abs(values - low), initial=0.0))
    return (value - low) / largest if largest > 0 and np.isfinite(value) else 0.0


def _square(value: float, head: tuple[int, int], place: tuple[float, float], strength: float) -> str:
    side, step = ("p" if strength >= 0 else "n"), round(10 * abs(strength))
    name = f"layer {head[0]}, head {head[1]}: {value:.3g}"
    number = "" if not step else _text(_hundredths(value), place[0] + CELL / 2, place[1] + CELL * 0.64, "middle", 10)
    return (
        f'<rect class="{side}{step}" x="{place[0] + 1:g}" y="{place[1] + 1:g}" width="{CELL - 2}" height="{CELL - 2}" '
        f'rx="3"><title>{name}</title></rect>{number}'
    )


def _text(text: str, x: float, y: float, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{html_text(text)}</text>'


def _style() -> str:
    return f"<style>{_rules(LIGHT)}@media (prefers-color-scheme: dark){{{_rules(DARK)}}}</style>"


def _rules(palette: Palette) -> str:
    empty = mix(palette.page, palette.text, 0.06)
    tints = [
        f".didact-heads .{side}{step}{{fill:{mix(empty, strongest, step / 10)}}}"
        for side, strongest in (("p", palette.positive), ("n", palette.negative))
        for step in range(11)
    ]
    return f".didact-heads .page{{fill:{palette.page}}}.didact-heads text{{fill:{palette.text}}}" + "".join(tints)
