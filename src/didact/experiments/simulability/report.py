"""The report on a simulation as Markdown, JSON, SVG and one HTML page."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from didact.experiments import charts
from didact.experiments.charts import Bar, Caption, Series
from didact.experiments.files import write_files
from didact.experiments.report.assets import STYLE
from didact.experiments.report.formatting import p_value, plural
from didact.experiments.simulability.findings import Findings, NoiseCurve, told
from didact.render.pieces import printable
from didact.render.style import stylesheet
from didact.simulation.gains import Gain, SettingAgreement
from didact.simulation.simulability import NONE, Setting

HEADS = ("method", "score", "gain", "95 % interval", "p (Holm)", "of the room left", "students")
NOTES = (
    "A gain is the mean difference from students who were told nothing, on the same lessons, seed and exam texts; its "
    "interval resamples lessons' subsets and exam texts in pairs. p-values are corrected by Holm within a table.",
    "Controls explain nothing: random words, words whose place codes the label (trivial), the hint of another text "
    "with the same label (label_leak), and the hint at other places (shuffled_positions).",
    "The teacher's predictions are imitated, not gold labels, unless people are the teacher; the exam is taken "
    "without hints.",
)


def write(findings: Findings, formats: Sequence[str] = ("md", "json", "svg", "html")) -> list[Path]:
    """Write the report into the run's folder; the page comes last."""
    files = {
        "md": ("report.md", markdown),
        "json": ("report.json", as_json),
        "svg": ("gains.svg", picture),
        "html": ("report.html", page),
    }
    return write_files(findings, findings.folder, files, formats)


def markdown(findings: Findings) -> str:
    """Tables that read well as text."""
    lines = [f"# {findings.name}: which explanation teaches best", "", _lead(findings), ""]
    lines += [f"- {sentence}" for sentence in findings.sentences]
    for setting in findings.verdict.settings:
        lines += ["", f"## {told(setting)}", "", *_markdown_table(HEADS, _rows(findings, setting))]
    for title, heads, rows in _tables(findings):
        lines += ["", f"## {title}", "", *_markdown_table(heads, rows)]
    lines += ["", "## Keep in mind", "", *(f"- {note}" for note in NOTES)]
    lines += ["", "## How it was made", "", *(f"- {name}: {value}" for name, value in _made(findings))]
    return "\n".join(lines) + "\n"


def as_json(findings: Findings) -> str:
    """All numbers."""
    return json.dumps(plain(findings), indent=1, ensure_ascii=False) + "\n"


def plain(findings: Findings) -> dict[str, Any]:
    """All numbers as plain values; None where there is none."""
    return {
        "name": findings.name,
        "sentences": findings.sentences,
        **findings.verdict.to_dict(),
        "further": [verdict.to_dict() for verdict in findings.further],
        "noise": [_curve(curve) for curve in findings.noise],
        "bits": [_curve(curve) for curve in findings.bits],
        "metrics": [{**vars(one), "tau": _known(one.tau), "p": _known(one.p)} for one in findings.metrics],
        "overlap": findings.extras.get("overlap", {}),
        "troubles": [
            {**vars(one.setting), "method": one.method, "subset": one.subset, "why": one.why}
            for one in findings.simulation.failures
        ],
        "manifest": dict(findings.manifest),
    }


def picture(findings: Findings) -> str:
    """The gains with their intervals as a file of its own."""
    return charts.standalone(_gain_chart(findings), stylesheet())


def page(findings: Findings) -> str:
    """The whole page: nothing from elsewhere, readable without JavaScript."""
    sections = [("gains", "Gains", _gain_chart(findings))]
    tables = "".join(
        f"<h3>{_text(told(setting))}</h3>{_html_table(HEADS, _rows(findings, setting))}"
        for setting in findings.verdict.settings
    )
    sections.append(("tables", "The numbers", tables))
    sections += [("noise", "Noise", _noise_chart(findings)), ("bits", "Gain against bits", _bits_chart(findings))]
    sections.append(("overlap", "How alike are the hints?", _overlap_chart(findings)))
    drawn = ("Overlap of the hints",)
    for number, (title, heads, rows) in enumerate(table for table in _tables(findings) if table[0] not in drawn):
        sections.append((f"more-{number}", title, _html_table(heads, rows)))
    notes = "".join(f"<li>{_text(note)}</li>" for note in NOTES)
    sections.append(("notes", "Keep in mind", f'<ul class="notes">{notes}</ul>'))
    sections.append(("made", "How it was made", _html_table(("what", ""), [list(row) for row in _made(findings)])))
    shown = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{key}">{_text(title)}</a>' for key, title, _ in shown)
    warning = ' class="warning"'
    said = "".join(
        f"<li{warning if line.startswith('Warning: ') else ''}>{_text(line)}</li>" for line in findings.sentences
    )
    title = _text(f"{findings.name}: which explanation teaches best")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{title}</title>\n<style>\nbody{{margin:0}}\n{stylesheet()}\n{charts.style()}\n{STYLE.strip()}\n</style>",
            f'</head>\n<body class="didact report">\n<main>\n<h1>{_text(findings.name)}</h1>',
            f'<p class="lead">{_text(_lead(findings))}</p>',
            '<section class="short" aria-labelledby="short"><h2 id="short">Which explanation teaches best?</h2>',
            f'<ul>{said}</ul></section>\n<nav class="jump" aria-label="Sections">{links}</nav>',
            *(f'<section id="{key}"><h2>{_text(title)}</h2>{inner}</section>' for key, title, inner in shown),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _lead(findings: Findings) -> str:
    manifest = findings.manifest
    teacher, data, exam = (manifest.get(key) or {} for key in ("teacher", "data", "exam"))
    kinds, settings = len(manifest.get("students", {})), len(findings.verdict.settings)
    return (
        f"Students of {kinds} {plural(kinds, 'kind', 'kinds')} learn to imitate {teacher.get('name', 'the teacher')} "
        f"from texts of {data.get('name', 'unknown data')} ({data.get('split')}) and are asked about "
        f"{exam.get('examples', 0):,} others ({exam.get('split')}): {settings} "
        f"{plural(settings, 'setting', 'settings')}, scored by {findings.verdict.metric}."
    )


def _rows(findings: Findings, setting: Setting) -> list[list[str]]:
    return [_row(findings, one) for one in (findings.verdict.of(setting)[0], *_in_order(findings, setting))]


def _in_order(findings: Findings, setting: Setting) -> list[Gain]:
    """The methods of a setting, the best first; controls after them, and more noise after less."""
    noise = {arm["label"]: arm.get("noise", 0.0) for arm in findings.manifest.get("arms", ())}
    return sorted(
        findings.verdict.of(setting)[1:],
        key=lambda one: (one.control, noise.get(one.method, 0.0), -one.gain if math.isfinite(one.gain) else math.inf),
    )


def _row(findings: Findings, one: Gain) -> list[str]:
    score = f"{findings.number(one.score)} [{findings.number(one.score_low)}, {findings.number(one.score_high)}]"
    count = f"{one.subsets}" + (f" ({one.dropped} left out)" if one.dropped else "")
    name = f"{one.method} (control)" if one.control else one.method
    if one.method == NONE:
        return [name, score, "", "", "", "", count]
    mark = " *" if one.helps else ""
    interval = f"[{findings.number(one.low, sign=True)}, {findings.number(one.high, sign=True)}]"
    room = "–" if not math.isfinite(one.normalised) else f"{round(100 * one.normalised)} %".replace("-", "−")
    return [name, score, findings.number(one.gain, sign=True) + mark, interval, p_value(one.adjusted), room, count]


def _tables(findings: Findings) -> list[tuple[str, tuple[str, ...], list[list[str]]]]:
    """Further tables, as far as there is something in them."""
    found: list[tuple[str, tuple[str, ...], list[list[str]]]] = []
    ranks = sorted(findings.verdict.ranks.items(), key=lambda item: (math.isnan(item[1]), item[1]))
    if len(ranks) > 1:
        found.append(
            ("Average rank over settings", ("method", "rank"), [[name, f"{rank:.2f}"] for name, rank in ranks])
        )
    if findings.verdict.agreements:
        rows = [_agreement(one) for one in findings.verdict.agreements if one.methods > 1]
        heads = ("setting", "and setting", "Kendall's τ", "95 % interval")
        found.append(("Do the settings rank explanations alike?", heads, rows))
    for verdict in findings.further:
        rows = [
            [told(one.setting), one.method, f"{one.score:.3f}", _plain_number(one.gain), p_value(one.adjusted)]
            for one in verdict.gains
        ]
        found.append((f"By {verdict.metric}", ("setting", "method", verdict.metric, "gain", "p (Holm)"), rows))
    for title, curves in (("Score against noise", findings.noise), ("Gain against bits", findings.bits)):
        rows = [
            [told(one.setting), one.explainer, _levels(findings, one), _plain_number(one.pearson)] for one in curves
        ]
        found.append((title, ("setting", "explainer", "level: mean", "correlation over students"), rows))
    rows = [
        [one.metric, one.setting, _plain_number(one.tau), p_value(one.p), str(one.methods)] for one in findings.metrics
    ]
    found.append(("Do metrics rank explanations as students do?", ("metric", "setting", "τ", "p", "explainers"), rows))
    found.append(("Overlap of the hints", *_overlap_table(findings)))
    rows = [[told(one.setting), one.method, str(one.subset), one.why] for one in findings.simulation.failures]
    found.append(("Students that were left out", ("setting", "method", "subset", "why"), rows))
    return [table for table in found if table[2]]


def _agreement(one: SettingAgreement) -> list[str]:
    interval = f"[{_plain_number(one.low)}, {_plain_number(one.high)}]"
    return [told(one.first), told(one.second), _plain_number(one.tau), interval]


def _overlap_table(findings: Findings) -> tuple[tuple[str, ...], list[list[str]]]:
    given = findings.extras.get("overlap") or {"names": [], "matrix": []}
    rows = [
        [name, *("–" if value is None else f"{value:.2f}" for value in row)]
        for name, row in zip(given["names"], given["matrix"], strict=True)
    ]
    return ("share in common", *given["names"]), rows if len(rows) > 1 else []


def _made(findings: Findings) -> list[tuple[str, str]]:
    manifest = findings.manifest
    told_rows = [("command", str(manifest.get("command") or "–"))]
    for kind in ("students", "channels"):
        for label, given in manifest.get(kind, {}).items():
            settings = ", ".join(f"{key}={value}" for key, value in given.get("parameters", {}).items())
            weight = f"weight {given['weight']:g}; " if "weight" in given else ""
            told_rows.append((f"{kind[:-1]} {label}", f"{weight}{settings or 'no settings'}"))
    for label, given in manifest.get("explainers", {}).items():
        settings = ", ".join(f"{key}={value}" for key, value in given.get("parameters", {}).items())
        told_rows.append((f"explainer {label}", settings or "no settings"))
    told_rows.append(("versions", ", ".join(f"{key} {value}" for key, value in manifest.get("versions", {}).items())))
    return told_rows


def _gain_chart(findings: Findings) -> str:
    groups: dict[str, list[Bar]] = {}
    scale = findings.scale
    for setting in findings.verdict.settings:
        rows = findings.verdict.of(setting)
        heading = f"{told(setting)} (none: {findings.number(rows[0].score)})"
        groups[heading] = [
            Bar(one.method, scale * one.gain, scale * one.low, scale * one.high, findings.points(one), one.control)
            for one in _in_order(findings, setting)
        ]
    unit = "points of " if scale == 100 else ""
    caption = Caption(
        "gain-chart",
        "Gains over students who were told nothing",
        " ".join(findings.sentences[:2]),
        f"gain in {unit}{findings.verdict.metric}; whiskers: 95 % intervals; hollow: controls",
    )
    return charts.forest(groups, caption) if any(groups.values()) else ""


def _noise_chart(findings: Findings) -> str:
    series = _drawable(_series(_legend(findings, one), one, 100.0, findings.scale) for one in findings.noise)
    if not series:
        return ""
    words = "Score when marked words are lost at random; bands are 95 % intervals."
    caption = Caption(
        "noise-chart", "Score against noise", words, "marked words that are lost (%)", findings.verdict.metric
    )
    return f"<p>{_text(words)}</p>" + charts.curves(series, caption)


def _bits_chart(findings: Findings) -> str:
    told_something = [
        dataclasses.replace(one, levels=tuple(level for level in one.levels if level.at > 0)) for one in findings.bits
    ]
    series = _drawable(_series(_legend(findings, one), one, 1.0, findings.scale) for one in told_something)
    if not series:
        return ""
    text = "How much a hint tells of a text, and what students gain from it; bands are 95 % intervals."
    caption = Caption("bits-chart", "Gain against bits", text, "bits per text (logarithmic)", "gain")
    return f"<p>{_text(text)}</p>" + charts.curves(series, caption, percent=False)


def _overlap_chart(findings: Findings) -> str:
    given = findings.extras.get("overlap") or {"names": []}
    if len(given["names"]) < 2:
        return ""
    matrix = np.array([[math.nan if value is None else value for value in row] for row in given["matrix"]])
    text = "Share of the marked words that two methods have in common, as a mean over texts."
    return f"<p>{text}</p>" + charts.heat(
        given["names"], matrix, Caption("overlap-chart", "Overlap of the hints", text)
    )


def _legend(findings: Findings, curve: NoiseCurve) -> str:
    """A curve's name; the setting only where there are several."""
    several = len(findings.verdict.settings) > 1
    return f"{curve.explainer}: {told(curve.setting)}" if several else curve.explainer


def _series(name: str, curve: NoiseCurve, stretch: float, scale: float) -> Series:
    levels = [level for level in curve.levels if math.isfinite(level.mean)]
    low = [scale * (level.low if math.isfinite(level.low) else level.mean) for level in levels]
    high = [scale * (level.high if math.isfinite(level.high) else level.mean) for level in levels]
    return Series(name, [stretch * level.at for level in levels], [scale * level.mean for level in levels], low, high)


def _drawable(series: Iterable[Series]) -> list[Series]:
    return [one for one in series if one.xs]


def _levels(findings: Findings, curve: NoiseCurve) -> str:
    return ", ".join(f"{level.at:.3g}: {findings.number(level.mean)}" for level in curve.levels)


def _curve(curve: NoiseCurve) -> dict[str, Any]:
    return {
        **vars(curve.setting),
        "explainer": curve.explainer,
        "levels": [{name: _known(value) for name, value in vars(level).items()} for level in curve.levels],
        "pearson": _known(curve.pearson),
        "pearson_of_means": _known(curve.pearson_of_means),
    }


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *(f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows),
    ]


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain_number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "–"


def _text(text: str) -> str:
    return escape(printable(text))
