"""The sentences of a grading report: which explainers to trust, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from didact.experiments.grading.report.anti_gaming import MetricVerdict
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.gold import gold_lines
from didact.experiments.grading.summary import Column
from didact.experiments.report import reliability
from didact.experiments.report.formatting import interval, listed, number, plural
from didact.render.facts import duration, percent

FEW = 30
"""Below so many examples the report warns."""

TESTS = (
    "Explainers are compared in pairs on the same texts, and with their own scores shuffled, by a test of the mean "
    "difference (studentised bootstrap). p-values are corrected over all {tests:,} comparisons of this report "
    "(step-down max-T, family-wise error rate 5 %); with so many, a verdict needs at least {fewest} texts. That a "
    "difference is not significant does not show that there is none."
)
"""What was tested, and how."""

FAMILIES = ("faithfulness", "plausibility", "stability")


def headlines(findings: GradingFindings) -> list[str]:
    """The answer to "which should I trust?" in a few lines, the most important first.

    No explainer is put before another without a difference that is significant over the whole report.
    """
    if not findings.verdicts:
        return ["No metric here judges quality, so there is nothing to recommend; add one of faithfulness."]
    if not any(verdict.enough for verdict in findings.verdicts):
        return [_too_few(findings)]
    return [_overall(findings), *_families(findings), *_cheapest(findings), *_warnings(findings)]


def caveats(findings: GradingFindings) -> list[str]:
    """What the numbers do not say, and what they rest on."""
    measured, lines = findings.run.measured, []
    texts = len(measured.examples)
    seeds = findings.run.manifest.get("seeds") or [0]
    count = findings.run.texts
    if findings.run.wanted is not None:
        count += ", as many as fitted into the time budget (--minutes)"
    if len(seeds) > 1:
        count += f"; values of {len(seeds)} seeds are averaged per text first"
    lines.append(
        f"{count}. Intervals are 95 % intervals of one mean over texts each (studentised bootstrap; of shares "
        "Jeffreys'), not corrected for their number. Where none stands there are not enough texts for one, or it is a "
        "time, which texts that are explained together share."
    )
    lines.append(TESTS.format(tests=findings.summary.tests, fewest=findings.summary.fewest))
    if texts < FEW:
        lines.append(f"{texts} texts are few: only large differences can show.")
    lines += _needed(findings)
    lines += [*_undefined(findings), *gold_lines(findings)]
    lines += reliability.notes(info.metric for info in measured.metrics)
    cut = findings.run.kept.truncated if findings.run.kept is not None else 0.0
    if cut:
        lines.append(
            f"{percent(cut)} of the texts were cut off by the model's length limit; words beyond it have no score."
        )
    return lines


def _too_few(findings: GradingFindings) -> str:
    texts, summary = len(findings.run.measured.examples), findings.summary
    return (
        f"Not enough texts for a verdict: {texts:,} {plural(texts, 'was', 'were')} graded, and with {summary.tests:,} "
        f"{plural(summary.tests, 'comparison', 'comparisons')} at least {summary.fewest} are needed. Nothing is "
        "recommended."
    )


def _overall(findings: GradingFindings) -> str:
    sound, judging = findings.sound, len(findings.verdicts)
    if not sound:
        return (
            "On no metric here are real explanations shown to be better than random or trivial ones: this run does "
            "not show which explainer to trust."
        )
    top = findings.recommended
    if not top:
        return (
            "No explainer can be recommended: on some metric that counts, each is not shown to be better than random "
            "scores or than its own scores shuffled."
        )
    real = [info.label for info in findings.run.measured.explainers if not info.control]
    if len(top) == len(real) > 1:
        return (
            f"No explainer is shown to be better than the others: {listed(top)} are all better than random on the "
            f"{len(sound)} of {judging} quality metrics that count, and none leads over all of them."
        )
    wins = sorted({findings.wins(label) for label in top})
    count = f"{wins[0]} to {wins[-1]}" if len(wins) > 1 else f"{wins[0]}"
    metrics = "the only quality metric" if judging == 1 else f"{count} of {judging} quality metrics"
    line = f"Trust {listed(top)} first: best, or not significantly different from the best, on {metrics}"
    if len(sound) < judging:
        lost = judging - len(sound)
        line += f" ({lost} of them {plural(lost, 'does', 'do')} not count here, see the warnings)"
    return f"{line}."


def _families(findings: GradingFindings) -> list[str]:
    lines = []
    for family in FAMILIES:
        mine = [column for column in findings.sound if column.metric.family == family]
        if mine:
            column = findings.quality if findings.quality in mine else mine[0]
            lines.append(f"{family.capitalize()}: {_lead(findings, column)}")
    return lines


def _lead(findings: GradingFindings, column: Column) -> str:
    best = str(column.best)
    cell, random = column.cells[best], column.cells.get(findings.random or "")
    beside = f", random {number(random.mean, column.largest)}" if random is not None else ""
    known = f" {interval(cell.low, cell.high, column.largest)}" if isfinite(cell.low) else ""
    value = f"{number(cell.mean, column.largest)}{known} (n = {cell.n}{beside})"
    if column.second is None:
        return f"{best} has {value} on {column.metric.label}."
    if not column.tied:
        return f"{best} leads on {column.metric.label} with {value}, significantly ahead of all others."
    among = f"{best} and {listed(column.tied)}" if len(column.tied) == 1 else f"{best}, {listed(column.tied)}"
    return f"no significant difference on {column.metric.label} between {among}; the first has {value}."


def _cheapest(findings: GradingFindings) -> list[str]:
    column, costs = findings.quality, findings.run.costs
    if column is None or not findings.is_sound(column):
        return []
    trusted = [label for label in column.leaders if label not in findings.doubtful]
    unit = "seconds" if all(costs.get(label) and costs[label].seconds for label in trusted) else "forwards"
    spent = {label: getattr(costs[label], unit) for label in trusted if label in costs}
    known = {label: value for label, value in spent.items() if value}
    if len(known) < 2:
        return []
    label, dearest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    if known[label] == known[dearest]:
        return []

    def shown(value: float) -> str:
        return duration(value) if unit == "seconds" else f"{number(value)} forwards"

    return [
        f"Cheapest of the best group on {column.metric.label}: {label}, {shown(known[label])} per text "
        f"({dearest}: {shown(known[dearest])})."
    ]


def _warnings(findings: GradingFindings) -> list[str]:
    lines = []
    gamed = [verdict for verdict in findings.verdicts if verdict.gamed]
    unclear = [verdict for verdict in findings.verdicts if verdict.enough and verdict.unbeaten and not verdict.gamed]
    few = [verdict for verdict in findings.verdicts if not verdict.enough]
    if gamed:
        who = listed(sorted({label for verdict in gamed for label in verdict.gamed_by}))
        lines.append(
            f"Warning: do not read {_named(gamed)} as quality here: uninformative explanations ({who}) are "
            "significantly better than the best real ones."
        )
    if unclear:
        who = listed(sorted({label for verdict in unclear for label in verdict.unbeaten}))
        lines.append(
            f"Warning: {_named(unclear)} {plural(unclear, 'does', 'do')} not count: the best real explanations are not "
            f"shown to be better than uninformative ones ({who})."
        )
    if few:
        lines.append(
            f"Not enough texts for a verdict on {_named(few)}: fewer than {findings.summary.fewest} have a value."
        )
    if findings.doubtful:
        counts = [f"{name} ({count} {plural(count, 'metric', 'metrics')})" for name, count in findings.doubtful.items()]
        lines.append(
            "Warning: not shown to be better than random scores or their own scores shuffled over the words: "
            f"{listed(counts)}."
        )
    return lines


def _named(verdicts: Sequence[MetricVerdict]) -> str:
    return listed([verdict.metric.label for verdict in verdicts])


def _needed(findings: GradingFindings) -> list[str]:
    """How many texts would tell the best from the second, where the run could not."""
    needed = [
        f"{column.metric.label} about {column.needed:,} ({column.best} against {column.second})"
        for column in findings.summary.columns
        if column.metric.judges and column.second in column.tied and column.needed is not None
    ]
    if not needed:
        return []
    return [f"n for 80 % power between the best and the second, uncorrected: {'; '.join(needed)}."]


def _undefined(findings: GradingFindings) -> list[str]:
    lines = []
    for column in findings.summary.columns:
        worst = max(column.cells, key=lambda label: column.cells[label].missing)
        cell = column.cells[worst]
        if cell.missing:
            lines.append(
                f"{column.metric.label} is undefined for up to {cell.missing:,} of {cell.missing + cell.n:,} texts "
                f"({percent(cell.missing / (cell.missing + cell.n))}, {worst}); these are left out."
            )
    return lines
