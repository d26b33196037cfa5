"""The sentences of a grading report: which explainers to trust, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Sequence

from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.gold import gold_lines
from didact.experiments.grading.summary import Column
from didact.experiments.report.formatting import interval, listed, number, plural
from didact.render.facts import duration, percent

FEW = 30
"""Below so many examples the report warns."""

FAMILIES = ("faithfulness", "plausibility", "stability")


def headlines(findings: GradingFindings) -> list[str]:
    """The answer to "which should I trust?" in a few lines, the most important first."""
    judging = [column for column in findings.summary.columns if column.metric.judges and column.best is not None]
    if not judging:
        return ["No metric here judges quality, so there is nothing to recommend; add one of faithfulness."]
    sound = [column for column in judging if not findings.is_gamed(column)]
    lines = [_overall(findings, sound, len(judging))]
    lines += _families(findings, sound)
    lines += _cheapest(findings)
    lines += _warnings(findings)
    return lines


def caveats(findings: GradingFindings) -> list[str]:
    """What the numbers do not say, and what they rest on."""
    measured, lines = findings.run.measured, []
    texts = len(measured.examples)
    seeds = findings.run.manifest.get("seeds") or [0]
    count = f"{texts:,} {plural(texts, 'text', 'texts')}"
    if len(seeds) > 1:
        count += f"; values of {len(seeds)} seeds are averaged per text first"
    lines.append(f"{count}. Intervals are 95 % bootstrap intervals of the mean over texts.")
    lines.append(
        "Explainers are compared in pairs on the same texts (Wilcoxon's signed-rank test), with Holm's correction over "
        "all pairs of a metric. That a difference is not significant does not show that there is none."
    )
    if texts < FEW:
        lines.append(f"{texts} texts are few: only large differences can show.")
    lines += _needed(findings)
    lines += [*_undefined(findings), *gold_lines(findings)]
    cut = findings.run.kept.truncated if findings.run.kept is not None else 0.0
    if cut:
        lines.append(
            f"{percent(cut)} of the texts were cut off by the model's length limit; words beyond it have no score."
        )
    if findings.run.measured.values.keys() & {"labels"}:
        lines.append(
            "The label null takes the target of another text; where both have the same label nothing changes, so with "
            "two classes about half of the pairs say nothing."
        )
    return lines


def _overall(findings: GradingFindings, sound: Sequence[Column], judging: int) -> str:
    if not sound:
        return (
            "On no metric here are real explanations better than random or trivial ones: nothing in this run tells "
            "which explainer to trust."
        )
    real = [explainer.label for explainer in findings.run.measured.explainers if not explainer.control]
    wins = {label: sum(label in column.leaders for column in sound) for label in real}
    most = max(wins.values())
    top = [label for label in real if wins[label] == most]
    metrics = "the only quality metric" if judging == 1 else f"{most} of {judging} quality metrics"
    line = f"Trust {listed(top)} first: best, or not distinguishable from the best, on {metrics}"
    if len(sound) < judging:
        lost = judging - len(sound)
        line += f" ({lost} of them can be gamed here and {plural(lost, 'does', 'do')} not count)"
    following = sorted((label for label in real if 0 < wins[label] < most), key=lambda label: -wins[label])[:2]
    after = "; next: " + ", ".join(f"{label} ({wins[label]})" for label in following) if following else ""
    return f"{line}{after}."


def _families(findings: GradingFindings, sound: Sequence[Column]) -> list[str]:
    lines = []
    present = [family for family in FAMILIES if any(column.metric.family == family for column in sound)]
    for family in present:
        mine = [column for column in sound if column.metric.family == family]
        column = findings.quality if findings.quality in mine else mine[0]
        lines.append(f"{family.capitalize()}: {_lead(findings, column)}")
    return lines


def _lead(findings: GradingFindings, column: Column | None) -> str:
    if column is None or column.best is None:
        return "nothing to compare."
    cell = column.cells[column.best]
    random = column.cells.get(findings.random or "")
    beside = f", random {number(random.mean, column.largest)}" if random is not None else ""
    value = f"{number(cell.mean, column.largest)} {interval(cell.low, cell.high, column.largest)}"
    line = f"{column.best} leads on {column.metric.label} with {value} (n = {cell.n}{beside})"
    if column.tied:
        return f"{line}; {listed(column.tied)} cannot be distinguished from it."
    return f"{line}, significantly ahead of all others." if column.second else f"{line}."


def _cheapest(findings: GradingFindings) -> list[str]:
    column, costs = findings.quality, findings.run.costs
    if column is None or findings.is_gamed(column) or len(column.leaders) < 2:
        return []
    unit = "seconds" if all(costs.get(label) and costs[label].seconds for label in column.leaders) else "forwards"
    spent = {label: getattr(costs[label], unit) for label in column.leaders if label in costs}
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
    gamed = [verdict for verdict in findings.verdicts if verdict.gamed]
    lines = []
    if gamed:
        names = listed([verdict.metric.label for verdict in gamed])
        who = listed(sorted({label for verdict in gamed for label in verdict.gamed_by}))
        lines.append(
            f"Warning: do not read {names} as quality here: explanations that say nothing ({who}) are not "
            "significantly worse than the best real ones."
        )
    failing: dict[str, int] = {}
    for verdict in findings.verdicts:
        for label in verdict.failed("shuffle") if not verdict.gamed else ():
            failing[label] = failing.get(label, 0) + 1
    if failing:
        names = listed([f"{label} ({count} {plural(count, 'metric', 'metrics')})" for label, count in failing.items()])
        lines.append(f"Warning: no better than their own scores shuffled over the words: {names}.")
    return lines


def _needed(findings: GradingFindings) -> list[str]:
    """How many texts would tell the best from the second, where the run could not."""
    needed = [
        f"{column.metric.label} about {column.needed:,} ({column.best} from {column.second})"
        for column in findings.summary.columns
        if column.metric.judges and column.second in column.tied and column.needed is not None
    ]
    if not needed:
        return []
    return [f"Texts needed to tell the best from the second, with power 0.8 and no correction: {'; '.join(needed)}."]


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
