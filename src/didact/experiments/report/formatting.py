"""Numbers, names and settings as every report and every format writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


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


def interval(low: float, high: float, like: float | None = None) -> str:
    """A 95 % interval in brackets; ``like`` as for ``number``."""
    return f"[{number(low, like)}, {number(high, like)}]"


def p_value(p: float) -> str:
    """A p-value with three decimals."""
    if not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names as in a sentence: the first ``most`` of them, the others as a count."""
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1] if shown else "none"


def plural(things: Sequence[object] | int, one: str, many: str) -> str:
    """``one`` for a single thing, ``many`` for any other number."""
    return one if (things if isinstance(things, int) else len(things)) == 1 else many


def settings(parameters: Mapping[str, object]) -> str:
    """Settings as name=value."""
    return ", ".join(f"{key}={_setting(value)}" for key, value in parameters.items())


def versions(manifest: Mapping[str, object]) -> str:
    """The versions that a run's manifest records, as name version."""
    recorded = manifest.get("versions")
    return ", ".join(f"{key} {value}" for key, value in recorded.items()) if isinstance(recorded, Mapping) else ""


def two_decimals(value: float) -> str:
    """A correlation; a dash where it is undefined."""
    return f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "–"


def _setting(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _decimals(size: float) -> int:
    """Decimals that show two figures of a number below 0.1."""
    return 1 - math.floor(math.log10(size))
