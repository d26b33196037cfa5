"""Numbers and lists as every form of the report writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from didact.experiments.tables import Cell


def number(value: float, like: float | None = None) -> str:
    """About three figures; a dash where there is no number.

    Args:
        value: the number.
        like: the largest number it stands beside, so that a column has as many decimals everywhere.
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if math.isnan(value):
        return "–"
    size = abs(value if like is None else like)
    if size >= 1e6:
        return f"{value / 1e6:,.1f}M"
    decimals = 0 if size >= 1000 else 1 if size >= 10 else 3 if size >= 0.0995 or size == 0 else _decimals(size)
    return f"{value:.1e}" if decimals > 6 else f"{value:,.{decimals}f}"


def interval(cell: Cell, like: float | None = None) -> str:
    """The mean's 95 % interval."""
    return f"[{number(cell.low, like)}, {number(cell.high, like)}]"


def p_value(p: float) -> str:
    """A p for people."""
    if not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names as in a sentence, the rest counted."""
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1] if shown else "none"


def plural(things: Sequence[object] | int, one: str, many: str) -> str:
    """The form that goes with so many things."""
    return one if (things if isinstance(things, int) else len(things)) == 1 else many


def beaten(better_than: Sequence[str], all_others: Sequence[str]) -> str:
    """Whom an explainer beats, in the shorter of two forms."""
    rest = [label for label in all_others if label not in better_than]
    if not better_than:
        return "none"
    if not rest:
        return "all others"
    if len(rest) < len(better_than) / 2:
        return f"all but {', '.join(rest)}"
    return ", ".join(better_than)


def settings(parameters: Mapping[str, object]) -> str:
    """Settings as name=value."""
    return ", ".join(f"{key}={_setting(value)}" for key, value in parameters.items())


def _setting(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _decimals(size: float) -> int:
    """As many as two figures need."""
    return 1 - math.floor(math.log10(size))
