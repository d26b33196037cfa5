"""The report on trained explainers as Markdown, JSON, SVG and one HTML page, and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from didact.experiments.report import charts, reliability
from didact.experiments.report.charts import Bar, Caption, Series
from didact.experiments.report.files import json_text, write_files
from didact.experiments.report.formatting import interval, p_value, settings
from didact.experiments.report.markdown import bullets, document
from didact.experiments.report.page import Page, Section, heading, paragraph, scrolling
from didact.experiments.report.page import bullets as html_bullets
from didact.experiments.report.table import ReportTable, TableCell, TableRow, as_markdown
from didact.experiments.report.terminal import print_report
from didact.experiments.scaffolding.curves import DrawnCurve
from didact.experiments.scaffolding.findings import ScaffoldingFindings, TaughtGroup, TaughtRow, used_heads
from didact.render.heads import heads_svg, heads_text
from didact.render.markup import markdown_text
from didact.render.style import stylesheet
from didact.simulation.simulability import NONE
from didact.types import Floats

if TYPE_CHECKING:
    from rich.console import Console

TOPIC = "explainers trained for teaching"
APART = "°"
MARKS = {APART: "quartiles above those of none, without overlap"}
CURVES = "Mean over students of the metric on the test texts; bands from the 25th to the 75th percentile."
NOTES = (
    "Students are fresh: none took part in training an explainer. Each subset has the same training texts, seed and "
    "test texts for every explainer, so differences are paired; 95 % intervals resample students and test texts.",
    "The area is the mean of the learning curve, which is the metric on the test texts at every test on the way. It "
    "is the headline where there are curves; the end stands beside it. Medians and quartiles are over students, as in "
    "SMaT.",
    "Of several channels the one with the best mean counts, for every explainer. The best static explainer is chosen "
    "on the test texts, in its favour. p-values are corrected by Holm over all claims of a measure.",
    "Agreement with people is the area under the ROC curve of the hints' weights, words against the rationale; the "
    "best head and the best layer are chosen with the human labels of the same texts.",
)


def report(folder: Path, formats: Sequence[str] | None, console: Console) -> list[Path]:
    """Print the tables, write the report, and return the files."""
    findings = ScaffoldingFindings.read(folder)
    shown = tables(findings, brief=True)
    print_report(console, findings.sentences, shown, [f"{mark}: {MARKS[mark]}" for mark in MARKS])
    files = {
        "md": ("report.md", markdown),
        "json": ("report.json", as_json),
        "svg": ("curves.svg", picture),
        "html": ("report.html", page),
    }
    drawn = files if findings.curves else {form: file for form, file in files.items() if form != "svg"}
    return write_files(findings, folder, drawn, formats or tuple(drawn))


def tables(findings: ScaffoldingFindings, *, brief: bool = False) -> list[tuple[str, ReportTable]]:
    """All tables that there are numbers for, with their titles; brief ones have the headline measure alone."""
    measures = findings.measures[:1] if brief else findings.measures
    made = [
        *((str(group), taught_table(findings, group, measures)) for group in findings.groups),
        ("Trained explainers against the others", claim_table(findings, measures)),
        ("Agreement with people", agreement_table(findings)),
        ("Heads that are used", heads_table(findings)),
    ]
    return [(title, table) for title, table in made if table.rows]


def taught_table(findings: ScaffoldingFindings, group: TaughtGroup, measures: Sequence[str]) -> ReportTable:
    """Median and quartiles of every explainer's students, and the mean gain over none."""
    none, several = findings.row(group, NONE), len(findings.taught.manifest["channels"]) > 1
    heads = ["explainer", "channel"] if several else ["explainer"]
    for measure in measures:
        heads += [f"{measure}: median [quartiles]", f"{measure} − none"]
    rows = []
    for row in findings.rows[group]:
        cells: list[TableCell | str | None] = [row.method, row.channel] if several else [row.method]
        for measure in measures:
            cells += [_quartiles(findings, row, none, measure), _gain(findings, row, none, measure)]
        rows.append(TableRow(cells, "control" if row.role == "control" else "body"))
    table = ReportTable.of(heads, rows, "llr" if several else "lr")
    return ReportTable(table.columns, table.rows, f"{findings.metric} of {group}", MARKS)


def claim_table(findings: ScaffoldingFindings, measures: Sequence[str]) -> ReportTable:
    """Trained explainers against none and the best static explainer."""
    rows = [
        TableRow(
            [
                *(f"{claim.group.student} {claim.group.size}", claim.method, claim.rival, claim.measure),
                TableCell(findings.points(claim.gain), value=claim.gain.mean, best=claim.holds),
                p_value(claim.adjusted),
            ]
        )
        for claim in findings.claims
        if claim.measure in measures
    ]
    return ReportTable.of(("students", "explainer", "against", "measure", "difference", "p (Holm)"), rows, "llllr")


def agreement_table(findings: ScaffoldingFindings) -> ReportTable:
    """Mean AUC of every explainer and oracle, a column per data and side."""
    sides = findings.rated_sides
    labels = dict.fromkeys(label for data, _ in sides for label in findings.rated[data].get("explainers", {}))
    rows = [TableRow([label, *(_agreement(findings, data, side, label) for data, side in sides)]) for label in labels]
    for oracle in ("best layer", "best head"):
        cells = [_agreement(findings, data, side, oracle) for data, side in sides]
        if any(cells):
            rows.append(TableRow([f"{oracle} (chosen with the labels)", *cells], "control"))
    return ReportTable.of(("explainer", *(_side(*pair) for pair in sides)), rows, "lr")


def heads_table(findings: ScaffoldingFindings) -> ReportTable:
    """How many heads each trained explainer uses, and the heaviest of them."""
    rows = []
    for label, facts in findings.trainings["explainers"].items():
        heads = used_heads(facts)
        if heads:
            first = ", ".join(f"{layer}.{head} ({weight:.2f})" for layer, head, weight in heads[:8])
            rows.append([label, f"{len(heads)}", first])
    return ReportTable.of(("explainer", "heads", "the heaviest: layer.head (weight)"), rows, "lrl")


def heads_maps(findings: ScaffoldingFindings) -> list[tuple[str, Sequence[int], Floats]]:
    """Explainer, its layers, and the weights of their heads (layers, heads), where it is a mix of heads."""
    known = {label: facts["heads"] for label, facts in findings.trainings["explainers"].items() if facts["heads"]}
    return [(label, heads["layers"], np.array(heads["weights"])) for label, heads in known.items()]


def markdown(findings: ScaffoldingFindings) -> str:
    """The whole report as Markdown."""
    parts = [f"# {markdown_text(findings.name)}: {TOPIC}", bullets(map(markdown_text, findings.sentences))]
    for title, table in tables(findings):
        parts += [f"## {markdown_text(title)}", as_markdown(table)]
    for label, layers, weights in heads_maps(findings):
        parts += [f"### Weights of heads in hundredths: {markdown_text(label)}"]
        parts += [f"```\n{heads_text(weights, layers)}\n```"]
    made = bullets(markdown_text(f"{name}: {value}") for name, value in _made(findings))
    return document([*parts, "## Keep in mind", bullets(notes(findings)), "## How it was made", made])


def as_json(findings: ScaffoldingFindings) -> str:
    """All numbers as JSON."""
    taught = [
        {
            **asdict(group),
            "method": row.method,
            "role": row.role,
            "channel": row.channel,
            **{measure: {"mean": row.mean(measure), **asdict(row.quartiles(measure))} for measure in findings.measures},
        }
        for group, rows in findings.rows.items()
        for row in rows
    ]
    claims = [
        {**asdict(one.group), "method": one.method, "against": one.rival, "measure": one.measure}
        | {**asdict(one.gain), "adjusted": one.adjusted}
        for one in findings.claims
    ]
    agreed = [
        {"data": data, "side": side, "explainer": label, **asdict(own)}
        for data, side in findings.rated_sides
        for label, own in findings.agreements(data, side).items()
    ]
    values = {"name": findings.name, "sentences": findings.sentences, "taught": taught, "claims": claims}
    values |= {"agreement": agreed, "curves": [_plain_curve(one) for one in findings.curves]}
    return json_text(values | {"explainers": findings.trainings, "manifest": dict(findings.taught.manifest)})


def notes(findings: ScaffoldingFindings) -> list[str]:
    """How to read the numbers, and how well agreement with people ranks explanations of known quality."""
    return [*NOTES, *(reliability.notes(["rationale_auc"]) if findings.rated_sides else ())]


def picture(findings: ScaffoldingFindings) -> str:
    """The learning curves of the first group that has any, as an SVG file."""
    drawn = (_curve_chart(findings, group) for group in findings.groups)
    return charts.standalone(next(filter(None, drawn)), stylesheet())


def page(findings: ScaffoldingFindings) -> str:
    """The whole page."""
    named = tables(findings)
    drawn = "".join(heading(str(group)) + _captioned_curves(findings, group) for group in findings.groups)
    maps = "".join(heads_svg(weights, layers, title=label) for label, layers, weights in heads_maps(findings))
    sections = [
        Section("claims", "Differences", _claim_chart(findings)),
        Section("curves", "Learning curves", drawn if findings.curves else ""),
        Section("sizes", "More training texts", "".join(map(partial(_size_chart, findings), _students(findings)))),
        *(Section(f"table-{at}", title, scrolling(table, title)) for at, (title, table) in enumerate(named)),
        Section("heads", "Weights of heads", maps),
        Section("notes", "Keep in mind", html_bullets(notes(findings), "notes")),
        Section("made", "How it was made", scrolling(ReportTable.of(("what", ""), _made(findings)), "Settings")),
    ]
    lead = f"Explainers are trained to teach, then fresh students learn from them, scored by {findings.metric}."
    return Page(
        findings.name, TOPIC, lead, "Do trained explanations teach better?", findings.sentences, sections
    ).html()


def _quartiles(findings: ScaffoldingFindings, row: TaughtRow, none: TaughtRow | None, measure: str) -> TableCell | None:
    own = row.quartiles(measure)
    if not math.isfinite(own.median):
        return None
    apart = none is not None and row is not none and own.low > none.quartiles(measure).high
    return TableCell(findings.spread(own), mark=APART if apart else "", value=own.median)


def _gain(findings: ScaffoldingFindings, row: TaughtRow, none: TaughtRow | None, measure: str) -> TableCell | None:
    if none is None or row is none:
        return None
    gain = row.over(none, measure)
    return TableCell(findings.points(gain), value=gain.mean) if math.isfinite(gain.mean) else None


def _agreement(findings: ScaffoldingFindings, data: str, side: str, label: str) -> TableCell | None:
    own = findings.agreement(data, side, label)
    if own is None:
        return None
    ends = interval(own.low, own.high, 0.5) if math.isfinite(own.low) else ""
    return TableCell(f"{own.mean:.3f}", ends, title=f"{own.n} texts", value=own.mean)


def _side(data: str, side: str) -> str:
    return data if side == "all" else f"{data}: {side}"


def _made(findings: ScaffoldingFindings) -> list[tuple[str, str]]:
    facts = [("command", str(findings.taught.manifest.get("command") or "–"))]
    for label, own in findings.trainings["explainers"].items():
        facts.append((f"trained {label}", f"{own['preset']}: {settings(own['settings']) or 'as it is'}"))
        facts.append((f"training of {label}", settings(own["cost"])))
    return facts


def _claim_chart(findings: ScaffoldingFindings) -> str:
    groups: dict[str, list[Bar]] = {}
    measure = findings.measures[0]
    for claim in findings.claims:
        if claim.measure == measure and math.isfinite(claim.gain.low):
            middle, low, high = (findings.scale * one for one in (claim.gain.mean, claim.gain.low, claim.gain.high))
            bar = Bar(f"{claim.method} − {claim.rival}", middle, low, high, findings.points(claim.gain))
            groups.setdefault(str(claim.group), []).append(bar)
    caption = Caption(
        "claim-chart",
        "Trained explainers against none and the best static explainer",
        " ".join(findings.sentences[:2]),
        f"difference in {measure} ({findings.metric}); whiskers: 95 % intervals",
    )
    return charts.forest(groups, caption) if groups else ""


def _curve_chart(findings: ScaffoldingFindings, group: TaughtGroup) -> str:
    """Curves of the channel that counts for each explainer."""
    rows = {(row.method, row.channel): row for row in findings.rows[group]}
    series = [
        _series(curve, findings.scale, control=row.role == "control")
        for curve in findings.curves
        if (curve.setting.student, curve.setting.size) == (group.student, group.size)
        for row in [rows.get((curve.method, "" if curve.method == NONE else curve.setting.channel))]
        if row is not None
    ]
    distinct = list({one.name: one for one in series}.values())
    caption = Caption(f"curves-{findings.groups.index(group)}", f"{group}", CURVES, "epochs", findings.metric)
    return charts.curves(distinct, caption, percent=False, linear=True) if distinct else ""


def _captioned_curves(findings: ScaffoldingFindings, group: TaughtGroup) -> str:
    chart = _curve_chart(findings, group)
    return paragraph(CURVES) + chart if chart else ""


def _students(findings: ScaffoldingFindings) -> list[str]:
    """Kinds of students that learned from several numbers of texts."""
    kinds = [group.student for group in findings.groups]
    return [kind for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]


def _size_chart(findings: ScaffoldingFindings, student: str) -> str:
    """The headline measure by the number of training texts."""
    measure, groups = findings.measures[0], [group for group in findings.groups if group.student == student]
    drawn: dict[str, list[TaughtRow]] = {}
    for row in (row for group in groups for row in findings.rows[group] if math.isfinite(row.mean(measure))):
        drawn.setdefault(row.method, []).append(row)
    series = [_size_series(findings, method, rows) for method, rows in drawn.items()]
    words = f"Median {measure} of the students; bands from the 25th to the 75th percentile."
    axes = ("training texts (logarithmic)", findings.metric)
    caption = Caption(f"sizes-{_students(findings).index(student)}", student, words, *axes)
    return heading(student) + paragraph(words) + charts.curves(series, caption, percent=False)


def _size_series(findings: ScaffoldingFindings, method: str, rows: Sequence[TaughtRow]) -> Series:
    own = [row.quartiles(findings.measures[0]) for row in rows]
    names = ("median", "low", "high")
    middle, low, high = ([findings.scale * getattr(one, name) for one in own] for name in names)
    return Series(method, [row.group.size for row in rows], middle, low, high, rows[0].role == "control")


def _series(curve: DrawnCurve, scale: float, *, control: bool) -> Series:
    means, low, high = ([scale * one for one in some] for some in (curve.means, curve.low, curve.high))
    return Series(curve.method, curve.epochs, means, low, high, control)


def _plain_curve(curve: DrawnCurve) -> dict[str, object]:
    return {**vars(curve.setting), **{name: value for name, value in vars(curve).items() if name != "setting"}}
