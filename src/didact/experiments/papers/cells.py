"""Cells of printed tables: a mean, or a mean and half of its 95 % interval; None where a paper leaves it empty."""

from __future__ import annotations

Cell = tuple[float, float | None] | None


def cells(text: str) -> tuple[Cell, ...]:
    """``"3.69±1.2 - 81"`` -> ((3.69, 1.2), None, (81.0, None))."""
    row: list[Cell] = []
    for word in text.split():
        mean, _, half = word.partition("±")
        row.append(None if word == "-" else (float(mean), float(half) if half else None))
    return tuple(row)


def shown(cell: Cell) -> str:
    """As the paper prints it; a dash where it is empty."""
    return "–" if cell is None else f"{cell[0]:g}" if cell[1] is None else f"{cell[0]:g} ± {cell[1]:g}"
