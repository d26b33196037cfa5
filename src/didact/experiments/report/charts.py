"""Charts as inline SVG: no library, no script, titles to hover over, colours from the page's style sheet.

A chart is drawn for a page that defines the variables of ``didact.render.style`` and the classes of ``STYLE``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from didact.render.markup import html_text
from didact.render.style import level
from didact.types import Floats

COLOURS = 8
"""How many series get a colour and a dash pattern of their own; further ones are thin and grey."""

WIDTH, HEIGHT = 760.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 170.0, 16.0, 46.0


@dataclass(frozen=True)
class Point:
    """One explainer in a scatter chart; ``low`` and ``high`` are the ends of its interval."""

    name: str
    x: float
    y: float
    low: float
    high: float
    front: bool = False
    control: bool = False


@dataclass(frozen=True)
class Series:
    """One line with a band; ``control`` draws it grey and dashed."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    control: bool = False


@dataclass(frozen=True)
class Bar:
    """One row of intervals; ``note`` stands at its end."""

    name: str
    middle: float
    low: float
    high: float
    note: str = ""
    control: bool = False


@dataclass(frozen=True)
class Caption:
    """Words of a chart.

    Attributes:
        key: makes ids unique on the page.
        title: what it shows.
        description: the same for those who cannot see it, with the result where there is a clear one.
        x: the horizontal axis.
        y: the vertical axis.
    """

    key: str
    title: str
    description: str
    x: str = ""
    y: str = ""


def scatter(points: Sequence[Point], caption: Caption, *, higher_is_better: bool = True) -> str:
    """Quality against cost on a logarithmic axis, with the front that no other explainer beats on both."""
    xs = _log_axis([point.x for point in points])
    ys = _axis([value for point in points for value in (point.low, point.high)])
    front = sorted((point for point in points if point.front), key=lambda point: point.x)
    line = " ".join(f"{xs.place(point.x):.1f},{ys.place(point.y):.1f}" for point in front)
    marks = [f'<polyline class="front" points="{line}"/>'] if len(front) > 1 else []
    marks += [_mark(point, xs.place(point.x), ys) for point in points]
    marks += _labels(points, xs, ys)
    better = "better ↖" if higher_is_better else "better ↙"
    corner = ys.end + 14 if higher_is_better else ys.begin - 8
    marks.append(f'<text class="faint" x="{_LEFT + 8}" y="{corner:.1f}">{better}</text>')
    return _chart(caption, _frame(xs, ys, caption) + "".join(marks))


def pareto(points: Sequence[tuple[float, float]], sign: int) -> list[bool]:
    """Which (cost, quality) points no other beats on both; ``sign`` is 1 where more quality is a larger number."""
    return [
        not any(
            cost <= x and sign * quality >= sign * y and (cost < x or sign * quality > sign * y)
            for cost, quality in points
        )
        for x, y in points
    ]


def curves(series: Sequence[Series], caption: Caption, *, percent: bool = True, linear: bool = False) -> str:
    """Lines with bands and a legend beside them; the first ``COLOURS`` real ones in colour.

    The horizontal axis goes from 0 to 100 %, or else as far as the points do, on a logarithmic or a linear scale.
    """
    places = [x for each in series for x in each.xs]
    ticks = _axis([0.0, *places]).ticks if linear else tuple(float(x) for x in range(0, 101, 20))
    xs = _Axis(ticks[0], ticks[-1], ticks, _LEFT, WIDTH - _RIGHT)
    if not percent and not linear:
        xs = replace(_log_axis(places), end=WIDTH - _RIGHT)
    ys = _axis([value for each in series for value in (*each.low, *each.high)])
    order = [each for each in series if not each.control]
    colour = {each.name: number for number, each in enumerate(order[:COLOURS])}
    bands = [_band(each, xs, ys, colour[each.name]) for each in order[:COLOURS]]
    lines = [_line(each, xs, ys, colour.get(each.name), " %" if percent else "") for each in reversed(series)]
    legend = [_legend(each, colour, xs.end + 14, _TOP + 6 + 15.0 * row) for row, each in enumerate(series)]
    room = max(HEIGHT, _TOP + 15.0 * len(series))
    return _chart(caption, _frame(xs, ys, caption) + "".join([*bands, *lines, *legend]), height=room)


def forest(groups: Mapping[str, Sequence[Bar]], caption: Caption) -> str:
    """Intervals one below the other, in groups with a heading, and a line at zero."""
    bars = [bar for group in groups.values() for bar in group]
    ends = [end for bar in bars for end in (bar.low, bar.high, bar.middle) if math.isfinite(end)]
    ticks = _axis([0.0, *ends]).ticks
    left, right = 200.0, 150.0
    xs = _Axis(ticks[0], ticks[-1], ticks, left, WIDTH - right)
    rows: list[str] = []
    y = 8.0
    for name, group in groups.items():
        rows.append(f'<text class="on-front" x="4" y="{y + 14:.1f}">{_short(name, 90)}</text>')
        y += 24
        bottom = y + 18 * len(group)
        for tick in ticks:  # beside the intervals alone, so that no line crosses a heading
            kind = "whisker" if tick == 0 else "grid"
            rows.append(f'<path class="{kind}" d="M{xs.place(tick):.1f} {y:.1f}V{bottom:.1f}"/>')
        rows += [_interval(bar, xs, y + 18 * number + 9) for number, bar in enumerate(group)]
        y = bottom + 10
    numbers = "".join(
        f'<text class="tick" x="{xs.place(tick):.1f}" y="{y + 16:.1f}" text-anchor="middle">{_tick(tick)}</text>'
        for tick in ticks
    )
    middle = (xs.begin + xs.end) / 2
    below = f'<text class="faint" x="{middle:.1f}" y="{y + 34:.1f}" text-anchor="middle">{html_text(caption.x)}</text>'
    return _chart(caption, "".join(rows) + numbers + below, height=y + 42)


def standalone(chart: str, style_sheet: str) -> str:
    """A chart as a file of its own; ``style_sheet`` defines the page's colours."""
    head, _, rest = chart.removeprefix('<div class="chart">').removesuffix("</div>").partition(">")
    inner = rest.removesuffix("</svg>")
    name = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" class="didact"', 1)
    # The page's own size of letters would make names longer than their room.
    return f'{name}><style>{style_sheet}\n{style()}</style><g class="chart" style="font-size:12px">{inner}</g></svg>\n'


def heat(labels: Sequence[str], values: Floats, caption: Caption, *, digits: int = 2) -> str:
    """A square matrix of numbers from -1 to 1: blue above 0, orange below, the number in every cell."""
    side, left, top = 46.0, 168.0, 112.0
    width, height = left + side * len(labels) + 60, top + side * 0.62 * len(labels) + 8
    drawn = []
    for row, name in enumerate(labels):
        y = top + row * side * 0.62
        drawn.append(f'<text x="{left - 8:.1f}" y="{y + 18:.1f}" text-anchor="end">{_short(name, 25)}</text>')
        x = left + row * side + side / 2
        drawn.append(f'<text transform="translate({x:.1f} {top - 8:.1f}) rotate(-38)">{_short(name, 22)}</text>')
        for column, other in enumerate(labels):
            drawn.append(_square(float(values[row, column]), name, other, (left + column * side, y, side), digits))
    return _chart(caption, "".join(drawn), width=width, height=height)


STYLE = """
.didact .chart{overflow-x:auto;margin:1.25rem 0 0}
.didact .chart svg{display:block;width:100%;height:auto;font-size:12px;font-family:inherit}
.didact .chart text{fill:var(--text)}
.didact .chart .faint,.didact .chart .tick{fill:var(--muted)}
.didact .chart .grid{stroke:var(--line);stroke-width:1}
.didact .chart .front{fill:none;stroke:var(--p-line);stroke-width:1.5;stroke-dasharray:5 4}
.didact .chart .whisker{stroke:var(--muted);stroke-width:1.25}
.didact .chart .dot{fill:var(--p10);stroke:var(--p-line);stroke-width:1.25}
.didact .chart .on-front{font-weight:650}
.didact .chart .line{fill:none;stroke-width:2;stroke-linejoin:round}
.didact .chart .line:hover,.didact .chart .rest:hover{stroke-width:4}
.didact .chart .band{opacity:.13;stroke:none}
.didact .chart .rest{stroke:var(--muted);stroke-width:1;opacity:.55;fill:none}
.didact .chart .control{stroke:var(--muted);stroke-width:1.5;stroke-dasharray:2 3;fill:none}
.didact .chart .dot.control{fill:var(--page);stroke-dasharray:none}
.didact .chart .halo{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}
.didact .chart .cell{fill:var(--tint,transparent);stroke:var(--page);stroke-width:2}
@media (max-width: 46rem){.didact .chart svg{min-width:min(var(--wide),38rem)}}
"""

_LIGHT_SERIES = ("#0b62b8", "#c2500a", "#1a7f4b", "#8a3ab9", "#b3261e", "#0f7f8c", "#7a5c00", "#c0267e")
_DARK_SERIES = ("#6fb7ff", "#ff9d5c", "#5fd39a", "#c99bff", "#ff8a80", "#5fd0dd", "#e0c04f", "#ff8ccf")
_DASHES = ("", "8 3", "3 3", "10 3 2 3", "", "8 3", "3 3", "10 3 2 3")


def style() -> str:
    """The style sheet of the charts; the colours of lines are readable on the page, light and dark."""
    light = ";".join(f"--s{number}:{colour}" for number, colour in enumerate(_LIGHT_SERIES))
    dark = ";".join(f"--s{number}:{colour}" for number, colour in enumerate(_DARK_SERIES))
    rules = "\n".join(
        f".didact .chart .s{number}{{stroke:var(--s{number});stroke-dasharray:{dash or 'none'}}}"
        f".didact .chart .band.s{number}{{fill:var(--s{number});stroke:none}}"
        for number, dash in enumerate(_DASHES)
    )
    return (
        f".didact{{{light}}}\n@media (prefers-color-scheme: dark){{.didact{{{dark}}}}}\n"
        f"@media print{{.didact.didact{{{light}}}}}\n{STYLE.strip()}\n{rules}"
    )


@dataclass(frozen=True)
class _Axis:
    """Values from ``low`` to ``high`` laid between the pixels ``begin`` and ``end``."""

    low: float
    high: float
    ticks: tuple[float, ...]
    begin: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.begin + (at - low) / (high - low) * (self.end - self.begin)


def _axis(values: Sequence[float]) -> _Axis:
    """A vertical axis with round ticks round the values."""
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return _Axis(ticks[0], ticks[-1], ticks, HEIGHT - _BOTTOM, _TOP)


def _log_axis(values: Sequence[float]) -> _Axis:
    low, high = min(values) / 1.4, max(values) * 1.4
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    ticks = [nice * 10.0**power for power in powers for nice in steps]
    inside = tuple(tick for tick in ticks if low <= tick <= high)
    return _Axis(low, high, inside, _LEFT, WIDTH - _RIGHT + 110, log=True)


def _frame(xs: _Axis, ys: _Axis, caption: Caption) -> str:
    lines = [
        f'<path class="grid" d="M{xs.begin:.1f} {ys.place(tick):.1f}H{xs.end:.1f}"/>'
        f'<text class="tick" x="{xs.begin - 8:.1f}" y="{ys.place(tick) + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        for tick in ys.ticks
    ]
    lines += [
        f'<path class="grid" d="M{xs.place(tick):.1f} {ys.begin:.1f}v5"/>'
        f'<text class="tick" x="{xs.place(tick):.1f}" y="{ys.begin + 19:.1f}" text-anchor="middle">{_tick(tick)}</text>'
        for tick in xs.ticks
    ]
    middle = (xs.begin + xs.end) / 2
    lines.append(
        f'<text class="faint" x="{middle:.1f}" y="{HEIGHT - 6:.1f}" text-anchor="middle">{html_text(caption.x)}</text>'
    )
    lines.append(
        f'<text class="faint" transform="translate(13 {(ys.begin + ys.end) / 2:.1f}) rotate(-90)" '
        f'text-anchor="middle">{html_text(caption.y)}</text>'
    )
    return "".join(lines)


def _mark(point: Point, x: float, ys: _Axis) -> str:
    kind = " control" if point.control else ""
    title = f"{point.name}: {point.y:.4g} [{point.low:.4g}, {point.high:.4g}] at {point.x:.4g}"
    return (
        f"<g><title>{html_text(title)}</title>"
        f'<path class="whisker" d="M{x:.1f} {ys.place(point.low):.1f}V{ys.place(point.high):.1f}"/>'
        f'<circle class="dot{kind}" cx="{x:.1f}" cy="{ys.place(point.y):.1f}" r="5"/></g>'
    )


def _labels(points: Sequence[Point], xs: _Axis, ys: _Axis) -> list[str]:
    """A name beside every dot, where it covers no other name; the front's names are placed first."""
    taken = [_box(xs.place(point.x) - 6, ys.place(point.y) + 6, 12, 12) for point in points]
    labels = []
    for point in sorted(points, key=lambda each: (not each.front, each.control, each.x)):
        name = _clip(point.name, 26)
        x, y, wide = xs.place(point.x), ys.place(point.y), 6.6 * len(name)
        spots = [
            (x + dx if side > 0 else x - dx - wide, y + dy)
            for dy in (4, -9, 17, -22, 30, -35, 43)
            for dx, side in ((9, 1), (9, -1))
        ]
        free = [spot for spot in spots if _fits(_box(*spot, wide, 12), taken, xs, ys)]
        left, base = free[0] if free else spots[0]
        taken.append(_box(left, base, wide, 12))
        kind = "halo on-front" if point.front else "halo faint" if point.control else "halo"
        labels.append(f'<text class="{kind}" x="{left:.1f}" y="{base:.1f}">{html_text(name)}</text>')
    return labels


def _box(left: float, base: float, wide: float, high: float) -> tuple[float, float, float, float]:
    return left, base - high, left + wide, base


def _fits(
    box: tuple[float, float, float, float], taken: Sequence[tuple[float, float, float, float]], xs: _Axis, ys: _Axis
) -> bool:
    inside = box[0] >= xs.begin and box[2] <= WIDTH and box[1] >= ys.end - 12 and box[3] <= ys.begin
    return inside and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
    )


def _interval(bar: Bar, xs: _Axis, y: float) -> str:
    kind = " control" if bar.control else ""
    text = "faint" if bar.control else ""
    label = (
        f'<text class="{text}" x="{xs.begin - 12:.1f}" y="{y + 4:.1f}" text-anchor="end">{_short(bar.name, 28)}</text>'
    )
    end = f'<text class="faint" x="{xs.end + 12:.1f}" y="{y + 4:.1f}">{_short(bar.note, 24)}</text>'
    if not math.isfinite(bar.middle):
        return label + end
    whisker = ""
    if math.isfinite(bar.low + bar.high):
        whisker = f'<path class="whisker" d="M{xs.place(bar.low):.1f} {y:.1f}H{xs.place(bar.high):.1f}"/>'
    title = f"{bar.name}: {bar.middle:.3g} [{bar.low:.3g}, {bar.high:.3g}]"
    dot = f'<circle class="dot{kind}" cx="{xs.place(bar.middle):.1f}" cy="{y:.1f}" r="4"/>'
    return f"<g><title>{html_text(title)}</title>{whisker}{dot}</g>{label}{end}"


def _band(series: Series, xs: _Axis, ys: _Axis, number: int) -> str:
    upper = [f"{xs.place(x):.1f},{ys.place(y):.1f}" for x, y in zip(series.xs, series.high, strict=True)]
    lower = [f"{xs.place(x):.1f},{ys.place(y):.1f}" for x, y in zip(series.xs, series.low, strict=True)]
    return f'<polygon class="band s{number}" points="{" ".join(upper + lower[::-1])}"/>'


def _line(series: Series, xs: _Axis, ys: _Axis, number: int | None, unit: str) -> str:
    at = " ".join(f"{xs.place(x):.1f},{ys.place(y):.1f}" for x, y in zip(series.xs, series.ys, strict=True))
    kind = "control" if series.control else "rest" if number is None else f"line s{number}"
    title = ", ".join(f"{x:.4g}{unit}: {y:.3g}" for x, y in zip(series.xs, series.ys, strict=True))
    return f'<polyline class="{kind}" points="{at}"><title>{html_text(series.name)}: {title}</title></polyline>'


def _class(series: Series, colour: dict[str, int]) -> str:
    return "control" if series.control else f"s{colour[series.name]}" if series.name in colour else "rest"


def _legend(series: Series, colour: dict[str, int], x: float, y: float) -> str:
    kind = _class(series, colour)
    return (
        f'<path class="{"line " if kind.startswith("s") else ""}{kind}" d="M{x:.1f} {y:.1f}h20"/>'
        f'<text x="{x + 26:.1f}" y="{y + 4:.1f}">{_short(series.name, 20)}</text>'
    )


def _square(value: float, row: str, column: str, place: tuple[float, float, float], digits: int) -> str:
    x, y, side = place
    known = math.isfinite(value)
    title = f"{row} and {column}: {value:.{digits}f}" if known else f"{row} and {column}: not defined"
    shade = level(max(-1.0, min(1.0, value)), signed=True) if known else ""
    shown = f"{value:.{digits}f}".replace("-", "−") if known else "–"
    return (
        f"<g><title>{html_text(title)}</title>"
        f'<rect class="cell {shade}" x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side * 0.62:.1f}"/>'
        f'<text x="{x + side / 2:.1f}" y="{y + 18:.1f}" text-anchor="middle">{shown}</text></g>'
    )


def _chart(caption: Caption, inner: str, *, width: float = WIDTH, height: float = HEIGHT) -> str:
    ids = f"{caption.key}-title {caption.key}-desc"
    return (
        f'<div class="chart"><svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="{ids}" '
        f'style="--wide:{width:.0f}px;max-width:{width:.0f}px">'
        f'<title id="{caption.key}-title">{html_text(caption.title)}</title>'
        f'<desc id="{caption.key}-desc">{html_text(caption.description)}</desc>{inner}</svg></div>'
    )


def _tick(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e-0", "e−").replace("e+0", "e")
    return f"{value:.4g}".replace("-", "−")


def _short(name: str, longest: int) -> str:
    return html_text(_clip(name, longest))


def _clip(name: str, longest: int) -> str:
    flat = " ".join(name.split()) or "(blank)"
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"
