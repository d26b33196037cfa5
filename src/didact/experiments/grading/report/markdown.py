"""The grading report as Markdown that renders on GitHub."""

from __future__ import annotations

from didact.experiments.grading.report.anti_gaming import MetricVerdict
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.sentences import caveats, headlines
from didact.experiments.grading.report.tables import cost_table, difference_table, null_table, summary_table
from didact.experiments.grading.summary import Column
from didact.experiments.report.formatting import number, p_value, settings, versions
from didact.experiments.report.markdown import bullets, document, folded
from didact.experiments.report.table import ReportTable, as_markdown
from didact.render import answers, facts
from didact.render.markup import markdown_text as text
from didact.render.pieces import name

LEGEND = (
    "Mean over texts with its 95 % interval. ↑ higher is better, ↓ lower is better. **Bold**: the best mean, where it "
    "is significantly better than another; ≈: not significantly different from the best. Controls, which cannot "
    "win, stand below the line."
)


def markdown(findings: GradingFindings) -> str:
    """The whole report."""
    parts = [
        f"# {text(findings.run.name)}",
        "## In short",
        bullets(map(text, headlines(findings))),
        bullets(_lead(findings)),
        "## Summary",
        LEGEND,
        *(
            f"### {text(family.capitalize())}\n\n{as_markdown(summary_table(findings, columns, counts=True))}"
            for family, columns in findings.families.items()
        ),
        "## What differs significantly, and from what",
        *(_differences(column) for column in findings.summary.columns if column.best is not None),
    ]
    parts += _taus(findings) + _costs(findings) + _panel(findings) + _picks(findings)
    return document([*parts, "## Keep in mind", bullets(map(text, caveats(findings))), *_made(findings)])


def _lead(findings: GradingFindings) -> list[str]:
    manifest = findings.run.manifest
    model, data = manifest.get("model") or {}, manifest.get("data") or {}
    place = ", ".join(str(part) for part in (data.get("name"), data.get("split")) if part)
    return [
        f"model: {text(str(model.get('name', 'unknown')))}",
        f"data: {text(place or 'unknown')}, {findings.run.texts}",
    ]


def _differences(column: Column) -> str:
    head = f"**{text(column.metric.label)}**"
    if column.second is not None:
        p = p_value(column.p(str(column.best), column.second))
        head += f": {text(str(column.best))} against {text(column.second)}, p = {text(p)}"
        if column.needed is not None:
            head += f"; n for 80 % power: about {column.needed:,} texts"
    return f"{head}\n\n{folded('better than', as_markdown(difference_table(column)))}"


def _taus(findings: GradingFindings) -> list[str]:
    labels, taus = findings.summary.tau_labels, findings.summary.taus.tolist()
    if len(labels) < 2:
        return []
    rows = [[label, *(number(value) for value in row)] for label, row in zip(labels, taus, strict=True)]
    lead = "Kendall's τ between the orders in which the metrics put the explainers (controls left out)."
    return ["## Do the metrics agree?", lead, as_markdown(ReportTable.of(["", *labels], rows, "lr"))]


def _costs(findings: GradingFindings) -> list[str]:
    table = cost_table(findings)
    return [] if table is None else ["## Cost per text", as_markdown(table)]


def _panel(findings: GradingFindings) -> list[str]:
    if not findings.verdicts:
        return []
    lead = (
        "A broken copy of every explanation is graded beside it: its scores shuffled over the words. p: of the mean "
        "difference, corrected over the whole report. ✗: not significantly better."
    )
    return ["## Can the metrics be gamed?", lead, *(_verdict(findings, verdict) for verdict in findings.verdicts)]


def _verdict(findings: GradingFindings, verdict: MetricVerdict) -> str:
    summary = " ".join(verdict.sentences) or verdict.praise
    head = f"**{text(verdict.metric.head)}**: {text(summary)}"
    return f"{head}\n\n{folded('numbers', as_markdown(null_table(findings, verdict)))}"


def _picks(findings: GradingFindings) -> list[str]:
    if not findings.picks:
        return []
    parts = ["## Examples", "The strongest words by each explainer; the HTML report has the whole texts in colour."]
    for pick in findings.picks:
        rows = [
            [each.method, ", ".join(f"{word} {score}" for word, score in facts.strongest(each, 5))]
            for each in pick.explanations
        ]
        first = pick.explanations[0]
        gold = "" if first.example.label is None else f", gold label {answers.gold(first.example)}"
        predicted = f"predicted {answers.predicted(first)} ({facts.certainty(first)}{gold})"
        source = name(" / ".join(map(str, first.example.fields)), 300)
        table = as_markdown(ReportTable.of(("explainer", "words"), rows))
        parts.append(f"**{text(pick.why)}**: {text(predicted)}\n\n> {text(source)}\n\n{table}")
    return parts


def _made(findings: GradingFindings) -> list[str]:
    run = findings.run
    rows = [[info.label, info.method, settings(info.parameters)] for info in run.measured.explainers]
    rows += [[info.label, info.metric, settings(info.parameters)] for info in run.measured.metrics]
    lines = [("command", str(run.manifest.get("command") or "")), ("versions", versions(run.manifest))]
    table = as_markdown(ReportTable.of(("label", "registered name", "settings"), rows))
    return ["## How it was made", table, bullets(text(f"{term}: {fact}") for term, fact in lines if fact)]
