"""The grading report as one HTML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from didact.experiments.grading.report.anti_gaming import BLIND, MetricVerdict
from didact.experiments.grading.report.drawing import agreement, cost_chart, erasure_charts, tau_chart
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.sentences import TESTS, caveats, headlines
from didact.experiments.grading.report.tables import cost_table, difference_table, null_table, summary_table
from didact.experiments.grading.summary import NULLS, Column
from didact.experiments.report.formatting import number, p_value, settings, versions
from didact.experiments.report.page import Page, Section, bullets, facts_list, folded, paragraph, scrolling
from didact.experiments.report.table import ReportTable, TableCell, as_html
from didact.render.html import fragment
from didact.render.markup import html_text as text
from didact.render.style import stylesheet

KEY = (
    '<p class="key"><span><b class="best-mark">0.42</b> the best mean, significantly before others</span> '
    "<span><b>≈</b> not significantly different from the best</span> <span>↑ higher is better</span> "
    "<span>↓ lower is better</span> <span>small: 95 % interval</span> "
    '<span><i class="tick-mark"></i> value of random</span> <span>click a name to sort</span></p>'
)
CAPTION = "Explainers by metrics: mean over texts and its 95 % interval. Controls stand below and cannot win."
PANEL = (
    "A metric is worth something when it separates real explanations from uninformative ones. Here it meets random "
    "scores, a trivial rule, and a broken copy of every explanation: its own scores shuffled over the words."
)
PANEL_HEADS = ("metric", "verdict", "best real", *BLIND, "beat their shuffle")


def page(findings: GradingFindings) -> str:
    """The whole page."""
    sections = [
        Section("summary", "Summary", _summary(findings)),
        Section("differences", "What differs, and from what", _differences(findings)),
        Section("cost", "Quality against cost", cost_chart(findings) + _costs(findings)),
        Section("curves", "Deletion and insertion", erasure_charts(findings)),
        Section("gaming", "Can the metrics be gamed?", _panel(findings)),
        Section("agreement", "Do the explainers agree?", agreement(findings)),
        Section("rankings", "Do the metrics agree?", tau_chart(findings)),
        Section("examples", "Examples side by side", _examples(findings)),
        Section("caveats", "Keep in mind", bullets(caveats(findings), "notes")),
        Section("made", "How it was made", _made(findings)),
    ]
    return Page(
        findings.run.name,
        "which explanation to trust",
        _lead(findings),
        "Which should I trust?",
        headlines(findings),
        sections,
    ).html()


def _lead(findings: GradingFindings) -> str:
    manifest = findings.run.manifest
    model, data = manifest.get("model") or {}, manifest.get("data") or {}
    explainers = findings.run.measured.explainers
    real = sum(not info.control for info in explainers)
    return (
        f"{real} {'explainer' if real == 1 else 'explainers'} and {len(explainers) - real} controls "
        f"on {findings.run.texts} of {data.get('name', 'unknown data')} "
        f"for {model.get('name', 'an unknown model')}"
    )


def _summary(findings: GradingFindings) -> str:
    columns = [column for family in findings.families.values() for column in family]
    table = dataclasses.replace(summary_table(findings, columns, counts=True), caption=CAPTION, sortable=True)
    return KEY + scrolling(table, "Summary table")


def _differences(findings: GradingFindings) -> str:
    columns = [column for column in findings.summary.columns if column.best is not None]
    summary = findings.summary
    tested = TESTS.format(tests=summary.tests, fewest=summary.fewest)
    return paragraph(tested) + "".join(map(_difference, columns)) if columns else ""


def _difference(column: Column) -> str:
    lead = f"<b>{text(column.metric.head)}</b> "
    if column.second is not None and column.best is not None:
        p = p_value(column.p(column.best, column.second))
        lead += text(f"{column.best} against {column.second}, p {p}")
        if column.needed is not None:
            lead += f"; n for 80 % power: about {column.needed:,} texts"
    return folded(lead, as_html(difference_table(column, means=True)))


def _costs(findings: GradingFindings) -> str:
    table = cost_table(findings)
    return "" if table is None else folded("Cost per text as numbers", as_html(table))


def _panel(findings: GradingFindings) -> str:
    if not findings.verdicts:
        return ""
    table = ReportTable.of(PANEL_HEADS, [_overview(findings, verdict) for verdict in findings.verdicts], "llr")
    nulls = "".join(_nulls(findings, verdict) for verdict in findings.verdicts)
    return f"{paragraph(PANEL)}{scrolling(table, 'Verdicts of the anti-gaming panel')}{_exceptions(findings)}{nulls}"


def _exceptions(findings: GradingFindings, most: int = 8) -> str:
    """What does not count in sight; further exceptions folded up where there are many."""
    gamed = [sentence for verdict in findings.verdicts if not verdict.sound for sentence in verdict.sentences]
    rest = [sentence for verdict in findings.verdicts if verdict.sound for sentence in verdict.sentences]
    if len(gamed) + len(rest) <= most:
        return bullets(gamed + rest, "remarks")
    return bullets(gamed, "remarks") + (
        folded(f"{len(rest)} exceptions in words", bullets(rest, "remarks")) if rest else ""
    )


def _overview(findings: GradingFindings, verdict: MetricVerdict) -> Sequence[TableCell | str | None]:
    column = findings.column(verdict)
    badge = TableCell(verdict.words, badge="bad" if verdict.gamed else "some" if verdict.sentences else "good")
    best = f"{number(column.cells[column.best].mean, column.largest)} {column.best}" if column.best else None
    controls = (_control(findings, verdict, method) for method in BLIND)
    return [verdict.metric.head, badge, best, *controls, *(_share(verdict, null) for null in NULLS)]


def _control(findings: GradingFindings, verdict: MetricVerdict, method: str) -> str | None:
    labels = [i.label for i in findings.run.measured.explainers if i.method == method and i.label in verdict.controls]
    return number(verdict.controls[labels[0]], findings.column(verdict).largest) if labels else None


def _share(verdict: MetricVerdict, null: str) -> str | None:
    tested = [label for label in verdict.real if null in verdict.checks.get(label, {})]
    return f"{len(tested) - len(verdict.failed(null))} of {len(tested)}" if tested else None


def _nulls(findings: GradingFindings, verdict: MetricVerdict) -> str:
    name = f"<b>{text(verdict.metric.head)}</b> values beside their nulls"
    return folded(name, scrolling(null_table(findings, verdict, split=True), "Nulls"))


def _examples(findings: GradingFindings) -> str:
    shown = [
        folded(
            text(each.why[:1].upper() + each.why[1:]),
            fragment(each.explanations, foreign=False),
            ' class="pick"' + (" open" if not number_ else ""),
        )
        for number_, each in enumerate(findings.picks)
    ]
    return "".join(shown).replace(f"<style>{stylesheet()}</style>", "")  # the page has it already


def _made(findings: GradingFindings) -> str:
    run, heads = findings.run, ("label", "method", "settings")
    used = [[info.label, info.method, settings(info.parameters) or None] for info in run.measured.explainers]
    graded = [[info.label, info.summary or None, settings(info.parameters) or None] for info in run.measured.metrics]
    facts = [
        ("Command", str(run.manifest.get("command") or "")),
        ("Model", settings(run.manifest.get("model") or {})),
        ("Data", settings(run.manifest.get("data") or {})),
        ("Seeds", ", ".join(map(str, run.manifest.get("seeds") or []))),
        ("Versions", versions(run.manifest)),
    ]
    return (
        facts_list(facts)
        + folded("Explainers and settings", as_html(ReportTable.of(heads, used)))
        + folded("Metrics and settings", as_html(ReportTable.of(("label", "meaning", "settings"), graded)))
    )
