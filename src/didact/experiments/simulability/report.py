"""The report on a simulation as Markdown, JSON, SVG and one HTML page."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from didact.experiments.report import charts, reliability
from didact.experiments.report.charts import Bar, Caption, Series
from didact.experiments.report.files import json_text, without_nan, write_files
from didact.experiments.report.formatting import p_value, plural, settings, two_decimals, versions
from didact.experiments.report.markdown import bullets, document
from didact.experiments.report.page import Page, Section, heading, paragraph, scrolling
from didact.experiments.report.page import bullets as html_bullets
from didact.experiments.report.table import ReportTable, as_markdown
from didact.experiments.simulability.findings import NoiseCurve, SimulabilityFindings, setting_label
from didact.render.markup import markdown_text
from didact.render.style import stylesheet
from didact.simulation.gains import Gain
from didact.simulation.simulability import NONE, Setting

TOPIC = "which explanation teaches best"
HEADS = ("method", "score", "gain", "95 % interval", "p (Holm)", "error reduction", "students")
NOTES = (
    "A gain is the mean difference from students trained without explanations, on the same training texts, seed and "
    "test texts; its 95 % interval, of this gain alone, resamples subsets of training texts and test texts in pairs. "
    "p-values are corrected by Holm over all claims of this report: that an explanation or control differs from none, "
    "that an explanation helps, and that it teaches best, in all settings (family-wise error rate 5 %).",
    "An explanation helps when it is significantly better than none and than every control; it teaches best when it is "
    "also significantly better than every other. The average rank is a description, and is not tested.",
    "Controls explain nothing: random words, words whose place codes the label (trivial), the hint of another text "
    "with the same label (label_leak), and the hint at other places (shuffled_positions).",
    "Students imitate the model's predictions, not gold labels, unless people are the teacher; test texts come without "
    "hints.",
)
OVERLAP = "Overlap of the hints"


def write(findings: SimulabilityFindings, formats: Sequence[str] = ("md", "json", "svg", "html")) -> list[Path]:
    """Write the report into the run's folder and return the paths; the page comes last."""
    files = {
        "md": ("report.md", markdown),
        "json": ("report.json", as_json),
        "svg": ("gains.svg", picture),
        "html": ("report.html", page),
    }
    return write_files(findings, findings.folder, files, formats)


def markdown(findings: SimulabilityFindings) -> str:
    """The whole report as Markdown."""
    parts = [f"# {_text(findings.name)}: {TOPIC}", _text(_lead(findings)), bullets(map(_text, findings.sentences))]
    for title, table in (*_gain_tables(findings), *_tables(findings)):
        parts += [f"## {_text(title)}", as_markdown(table, _text)]
    made = bullets(_text(f"{name}: {value}") for name, value in _made(findings))
    return document([*parts, "## Keep in mind", bullets(map(_text, notes(findings))), "## How it was made", made])


def as_json(findings: SimulabilityFindings) -> str:
    """All numbers as JSON."""
    return json_text(plain(findings))


def plain(findings: SimulabilityFindings) -> dict[str, object]:
    """All numbers as plain values; None where a number is not defined."""
    values = {
        "name": findings.name,
        "sentences": findings.sentences,
        **findings.verdict.to_dict(),
        "further": [verdict.to_dict() for verdict in findings.further],
        "noise": [_curve(curve) for curve in findings.noise],
        "bits": [_curve(curve) for curve in findings.bits],
        "metrics": [vars(row) for row in findings.metrics],
        "overlap": findings.extras.get("overlap", {}),
        "troubles": [
            {**vars(failure.setting), "method": failure.method, "subset": failure.subset, "why": failure.why}
            for failure in findings.simulation.failures
        ],
        "manifest": dict(findings.manifest),
    }
    return {name: without_nan(value) for name, value in values.items()}


def notes(findings: SimulabilityFindings) -> list[str]:
    """How to read the numbers, and how well the metrics beside them rank explanations of known quality."""
    return [*NOTES, *reliability.notes(row.metric for row in findings.metrics)]


def picture(findings: SimulabilityFindings) -> str:
    """The gains with their intervals as an SVG file."""
    return charts.standalone(_gain_chart(findings), stylesheet())


def page(findings: SimulabilityFindings) -> str:
    """The whole page."""
    tables = "".join(heading(title) + scrolling(table, title) for title, table in _gain_tables(findings))
    further = [(title, table) for title, table in _tables(findings) if title != OVERLAP]  # drawn as a chart
    sections = [
        Section("gains", "Gains", _gain_chart(findings)),
        Section("tables", "The numbers", tables),
        Section("noise", "Noise", _noise_chart(findings)),
        Section("bits", "Gain against bits", _bits_chart(findings)),
        Section("overlap", "How alike are the hints?", _overlap_chart(findings)),
        *(Section(f"more-{at}", title, scrolling(table, title)) for at, (title, table) in enumerate(further)),
        Section("notes", "Keep in mind", html_bullets(notes(findings), "notes")),
        Section("made", "How it was made", scrolling(ReportTable.of(("what", ""), _made(findings)), "Settings")),
    ]
    question = f"{TOPIC[0].upper()}{TOPIC[1:]}?"
    return Page(findings.name, TOPIC, _lead(findings), question, findings.sentences, sections).html()


def _lead(findings: SimulabilityFindings) -> str:
    manifest = findings.manifest
    teacher, data = (manifest.get(key) or {} for key in ("teacher", "data"))
    tests = manifest.get("test") or manifest.get("exam") or {}  # the second is the name that older runs have
    kinds, many = len(manifest.get("students", {})), len(findings.verdict.settings)
    return (
        f"Students of {kinds} {plural(kinds, 'kind', 'kinds')} learn to imitate {teacher.get('name', 'the teacher')} "
        f"from texts of {data.get('name', 'unknown data')} ({data.get('split')}) and are tested on "
        f"{tests.get('examples', 0):,} others ({tests.get('split')}): {many} "
        f"{plural(many, 'setting', 'settings')}, scored by {findings.verdict.metric}."
    )


def _gain_tables(findings: SimulabilityFindings) -> list[tuple[str, ReportTable]]:
    """Score and gain of every method, a table per setting."""
    tables = []
    for setting in findings.verdict.settings:
        rows = (findings.verdict.of(setting)[0], *in_order(findings, setting))
        table = ReportTable.of(HEADS, [_row(findings, row) for row in rows], "lr")
        tables.append((setting_label(setting), table))
    return tables


def in_order(findings: SimulabilityFindings, setting: Setting) -> list[Gain]:
    """The methods of a setting, the best first; controls after them, and more noise after less."""
    noise = {arm["label"]: arm.get("noise", 0.0) for arm in findings.manifest.get("arms", ())}
    return sorted(
        findings.verdict.of(setting)[1:],
        key=lambda row: (row.control, noise.get(row.method, 0.0), -row.gain if math.isfinite(row.gain) else math.inf),
    )


def _row(findings: SimulabilityFindings, row: Gain) -> list[str]:
    score = f"{findings.number(row.score)} [{findings.number(row.score_low)}, {findings.number(row.score_high)}]"
    count = f"{row.subsets}" + (f" ({row.dropped} left out)" if row.dropped else "")
    name = f"{row.method} (control)" if row.control else row.method
    if row.method == NONE:
        return [name, score, "", "", "", "", count]
    mark = " *" if row.helps else ""
    interval = f"[{findings.number(row.low, sign=True)}, {findings.number(row.high, sign=True)}]"
    room = "–" if not math.isfinite(row.normalised) else f"{round(100 * row.normalised)} %".replace("-", "−")
    return [name, score, findings.number(row.gain, sign=True) + mark, interval, p_value(row.adjusted), room, count]


def _tables(findings: SimulabilityFindings) -> list[tuple[str, ReportTable]]:
    """Further tables, as far as they have rows."""
    tables = [
        ("Average rank over settings", _rank_table(findings)),
        ("Do the settings rank explanations alike?", _agreement_table(findings)),
        *((f"By {verdict.metric}", _score_table(verdict.metric, verdict.gains)) for verdict in findings.further),
        ("Score against noise", _curve_table(findings, findings.noise)),
        ("Gain against bits", _curve_table(findings, findings.bits)),
        ("Do metrics rank explanations as students do?", _metric_table(findings)),
        (OVERLAP, overlap_table(findings, "share in common")),
        ("Students that were left out", _failure_table(findings)),
    ]
    return [(title, table) for title, table in tables if table.rows]


def _rank_table(findings: SimulabilityFindings) -> ReportTable:
    ranks = sorted(findings.verdict.ranks.items(), key=lambda item: (math.isnan(item[1]), item[1]))
    rows = [[name, f"{rank:.2f}"] for name, rank in ranks] if len(ranks) > 1 else []
    return ReportTable.of(("method", "rank"), rows, "lr")


def _agreement_table(findings: SimulabilityFindings) -> ReportTable:
    pairs = [pair for pair in findings.verdict.agreements if pair.methods > 1]
    intervals = [f"[{two_decimals(pair.low)}, {two_decimals(pair.high)}]" for pair in pairs]
    rows = [
        [setting_label(pair.first), setting_label(pair.second), two_decimals(pair.tau), interval]
        for pair, interval in zip(pairs, intervals, strict=True)
    ]
    return ReportTable.of(("setting", "and setting", "Kendall's τ", "95 % interval"), rows, "llr")


def _score_table(metric: str, gains: Iterable[Gain]) -> ReportTable:
    rows = [
        [setting_label(row.setting), row.method, f"{row.score:.3f}", two_decimals(row.gain), p_value(row.adjusted)]
        for row in gains
    ]
    return ReportTable.of(("setting", "method", metric, "gain", "p (Holm)"), rows, "llr")


def _curve_table(findings: SimulabilityFindings, curves: Iterable[NoiseCurve]) -> ReportTable:
    rows = []
    for curve in curves:
        levels = ", ".join(f"{level.at:.3g}: {findings.number(level.mean)}" for level in curve.levels)
        rows.append([setting_label(curve.setting), curve.explainer, levels, two_decimals(curve.pearson)])
    return ReportTable.of(("setting", "explainer", "level: mean", "correlation over students"), rows, "lllr")


def _metric_table(findings: SimulabilityFindings) -> ReportTable:
    rows = [
        [row.metric, row.setting, two_decimals(row.tau), p_value(row.p), str(row.methods)] for row in findings.metrics
    ]
    return ReportTable.of(("metric", "setting", "τ", "p", "explainers"), rows, "llr")


def overlap_table(findings: SimulabilityFindings, corner: str) -> ReportTable:
    """Share of the marked words that every two methods have in common; no rows where there are not two methods."""
    overlap = findings.extras.get("overlap") or {"names": [], "matrix": []}
    rows = [
        [name, *("–" if value is None else f"{value:.2f}" for value in row)]
        for name, row in zip(overlap["names"], overlap["matrix"], strict=True)
    ]
    return ReportTable.of((corner, *overlap["names"]), rows if len(rows) > 1 else [], "lr")


def _failure_table(findings: SimulabilityFindings) -> ReportTable:
    rows = [
        [setting_label(failure.setting), failure.method, str(failure.subset), failure.why]
        for failure in findings.simulation.failures
    ]
    return ReportTable.of(("setting", "method", "subset", "why"), rows, "llrl")


def _made(findings: SimulabilityFindings) -> list[tuple[str, str]]:
    manifest = findings.manifest
    facts = [("command", str(manifest.get("command") or "–"))]
    for kind in ("students", "channels", "explainers"):
        entries: Mapping[str, Mapping[str, object]] = manifest.get(kind, {})
        for label, entry in entries.items():
            weight = f"weight {entry['weight']:g}; " if "weight" in entry else ""
            facts.append((f"{kind[:-1]} {label}", f"{weight}{_settings(entry.get('parameters')) or 'no settings'}"))
    return [*facts, ("versions", versions(manifest))]


def _gain_chart(findings: SimulabilityFindings) -> str:
    groups: dict[str, list[Bar]] = {}
    scale = findings.scale
    for setting in findings.verdict.settings:
        rows = findings.verdict.of(setting)
        title = f"{setting_label(setting)} (none: {findings.number(rows[0].score)})"
        groups[title] = [
            Bar(row.method, scale * row.gain, scale * row.low, scale * row.high, findings.points(row), row.control)
            for row in in_order(findings, setting)
        ]
    unit = "points of " if scale == 100 else ""
    caption = Caption(
        "gain-chart",
        "Gains over students trained without explanations",
        " ".join(findings.sentences[:2]),
        f"gain in {unit}{findings.verdict.metric}; whiskers: 95 % intervals; hollow: controls",
    )
    return charts.forest(groups, caption) if any(groups.values()) else ""


def _noise_chart(findings: SimulabilityFindings) -> str:
    words = "Score when marked words are lost at random; bands are 95 % intervals."
    caption = Caption(
        "noise-chart", "Score against noise", words, "marked words that are lost (%)", findings.verdict.metric
    )
    return _curve_chart(findings, findings.noise, caption, percent=True)


def _bits_chart(findings: SimulabilityFindings) -> str:
    words = "How much information a hint has about a text, and what students gain from it; bands are 95 % intervals."
    caption = Caption("bits-chart", "Gain against bits", words, "bits per text (logarithmic)", "gain")
    curves = [
        dataclasses.replace(curve, levels=tuple(level for level in curve.levels if level.at > 0))
        for curve in findings.bits
    ]
    return _curve_chart(findings, curves, caption, percent=False)


def _curve_chart(
    findings: SimulabilityFindings, curves: Iterable[NoiseCurve], caption: Caption, *, percent: bool
) -> str:
    series = [_series(findings, curve, 100.0 if percent else 1.0) for curve in curves]
    drawable = [each for each in series if each.xs]
    return paragraph(caption.description) + charts.curves(drawable, caption, percent=percent) if drawable else ""


def _series(findings: SimulabilityFindings, curve: NoiseCurve, stretch: float) -> Series:
    """A curve to draw; its name has the setting only where there are several."""
    several, scale = len(findings.verdict.settings) > 1, findings.scale
    name = f"{curve.explainer}: {setting_label(curve.setting)}" if several else curve.explainer
    levels = [level for level in curve.levels if math.isfinite(level.mean)]
    low = [scale * (level.low if math.isfinite(level.low) else level.mean) for level in levels]
    high = [scale * (level.high if math.isfinite(level.high) else level.mean) for level in levels]
    return Series(name, [stretch * level.at for level in levels], [scale * level.mean for level in levels], low, high)


def _overlap_chart(findings: SimulabilityFindings) -> str:
    overlap = findings.extras.get("overlap") or {"names": []}
    if len(overlap["names"]) < 2:
        return ""
    matrix = np.array([[math.nan if value is None else value for value in row] for row in overlap["matrix"]])
    words = "Share of the marked words that two methods have in common, as a mean over texts."
    return paragraph(words) + charts.heat(overlap["names"], matrix, Caption("overlap-chart", OVERLAP, words))


def _curve(curve: NoiseCurve) -> dict[str, object]:
    return {
        **vars(curve.setting),
        "explainer": curve.explainer,
        "levels": [vars(level) for level in curve.levels],
        "pearson": curve.pearson,
        "pearson_of_means": curve.pearson_of_means,
    }


def _settings(parameters: object) -> str:
    return settings(parameters) if isinstance(parameters, Mapping) else ""


def _text(text: str) -> str:
    """The text as Markdown shows it, with what cannot act left as it is: names like_this, intervals, a last star."""
    safe = re.sub(r"(?<=\w)\\_(?=\w)", "_", markdown_text(text))
    return re.sub(r"(?<= )\\\*$", "*", re.sub(r"\\\[([-+−\d., ]+)\\\](?!\()", r"[\1]", safe))
