"""The report as Markdown that renders on GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from didact.experiments.report.anti_gaming import NULLS, MetricVerdict
from didact.experiments.report.findings import Findings
from didact.experiments.report.formatting import beaten, interval, number, p_value, settings
from didact.experiments.report.sentences import caveats, headlines
from didact.experiments.tables import Column
from didact.render import facts
from didact.render.pieces import name, printable

LEGEND = (
    "Mean over texts with its 95 % interval. ↑ higher is better, ↓ lower is better. **Bold**: the best mean; ≈: not "
    "distinguishable from the best. Controls, which cannot win, stand below the line."
)


def markdown(findings: Findings) -> str:
    """The whole report."""
    run = findings.run
    parts = [
        f"# {_text(run.name)}",
        _bullets(_lead(findings)),
        "## In short",
        _bullets(_text(line) for line in headlines(findings)),
        "## Summary",
        LEGEND,
        *(_family(findings, family, columns) for family, columns in families(findings).items()),
        "## What differs significantly, and from what",
        *(_differences(column) for column in findings.summary.columns if column.best is not None),
    ]
    parts += _taus(findings) + _costs(findings) + _panel(findings) + _picks(findings)
    parts += ["## Keep in mind", _bullets(_text(line) for line in caveats(findings)), *_made(findings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def families(findings: Findings) -> dict[str, list[Column]]:
    """Columns by the family of their metric, in order of appearance."""
    found: dict[str, list[Column]] = {}
    for column in findings.summary.columns:
        found.setdefault(column.yardstick.family, []).append(column)
    return found


def _lead(findings: Findings) -> list[str]:
    model, data = (findings.run.manifest.get(key) or {} for key in ("model", "data"))
    texts = f"{len(findings.run.measured.examples):,} texts"
    place = ", ".join(str(part) for part in (data.get("name"), data.get("split")) if part)
    return [f"model: {_text(str(model.get('name', 'unknown')))}", f"data: {_text(place or 'unknown')}, {texts}"]


def _family(findings: Findings, family: str, columns: Sequence[Column]) -> str:
    head = ["explainer", *(f"{column.yardstick.label}{column.yardstick.arrow}" for column in columns)]
    subjects = [s for s in findings.run.measured.subjects if any(s.label in column.cells for column in columns)]
    rows = [
        [_control(subject.label, subject.control), *(_cell(column, subject.label) for column in columns)]
        for subject in sorted(subjects, key=lambda subject: subject.control)
    ]
    rows.append(["*n*", *(_counts(column) for column in columns)])
    return f"### {_text(family.capitalize())}\n\n{_table(head, rows)}"


def _cell(column: Column, label: str) -> str:
    cell = column.cells.get(label)
    if cell is None:
        return ""
    plain = number(cell.mean, column.largest)
    mean = f"**{plain}**" if label == column.best else plain
    return f"{mean}{' ≈' if label in column.tied else ''} {_text(interval(cell, column.largest))}"


def _control(label: str, control: bool) -> str:
    return f"*{_text(label)}*" if control else _text(label)


def _counts(column: Column) -> str:
    counts = sorted({cell.n for cell in column.cells.values()})
    lost = max(cell.missing for cell in column.cells.values())
    told = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"
    return f"{told} (up to {lost:,} undefined)" if lost else told


def _differences(column: Column) -> str:
    others = list(column.cells)
    rows = [
        [_text(label), _text(beaten(column.tests.beats(label), [other for other in others if other != label]))]
        for label in others
    ]
    head = f"**{_text(column.yardstick.label)}**"
    if column.second is not None:
        p = p_value(column.p(str(column.best), column.second))
        head += f": {_text(str(column.best))} against {_text(column.second)}, p = {_text(p)}"
        if column.needed is not None:
            head += f"; about {column.needed:,} texts would tell them apart"
    return f"{head}\n\n{_folded('better than', _table(['explainer', 'better than'], rows, align='---'))}"


def _taus(findings: Findings) -> list[str]:
    labels, taus = findings.summary.tau_labels, findings.summary.taus.tolist()
    if len(labels) < 2:
        return []
    rows = [[_text(label), *(number(value) for value in row)] for label, row in zip(labels, taus, strict=True)]
    told = "Kendall's τ between the orders in which the metrics put the explainers (controls left out)."
    return ["## Do the metrics agree?", told, _table(["", *labels], rows)]


def _costs(findings: Findings) -> list[str]:
    if not findings.run.costs:
        return []
    rows = []
    for label, spent in findings.run.costs.items():
        seconds = "" if spent.seconds is None else facts.duration(spent.seconds)
        counts = ("" if value is None else number(value) for value in (spent.forwards, spent.backwards))
        rows.append([_text(label), *counts, seconds])
    return ["## Cost per text", _table(["explainer", "forwards", "backwards", "time"], rows)]


def _panel(findings: Findings) -> list[str]:
    if not findings.verdicts:
        return []
    told = (
        "Broken copies of every explanation are graded beside it: its scores shuffled over the words, and its scores "
        "graded for another text's label. p: Wilcoxon, Holm over the metric. ✗: not significantly better."
    )
    return ["## Can the metrics be gamed?", told, *(_verdict(findings, verdict) for verdict in findings.verdicts)]


def _verdict(findings: Findings, verdict: MetricVerdict) -> str:
    nulls = [null for null in NULLS if any(null in checks for checks in verdict.checks.values())]
    column = next(c for c in findings.summary.columns if c.yardstick.label == verdict.yardstick.label)
    rows = []
    for subject in findings.run.measured.subjects:
        if subject.label in column.cells:
            row = [_control(subject.label, subject.control), number(column.cells[subject.label].mean, column.largest)]
            for null in nulls:
                check = verdict.checks.get(subject.label, {}).get(null)
                mark = "" if check is None or check.beats else " ✗"
                row.append(
                    "" if check is None else f"{number(check.null, column.largest)} (p {_text(p_value(check.p))}){mark}"
                )
            rows.append(row)
    said = " ".join(verdict.sentences) or verdict.praise
    head = f"**{_text(verdict.yardstick.label)}{verdict.yardstick.arrow}**: {_text(said)}"
    return f"{head}\n\n{_folded('numbers', _table(['explainer', 'value', *nulls], rows))}"


def _picks(findings: Findings) -> list[str]:
    if not findings.picks:
        return []
    parts = ["## Examples", "The strongest words by each explainer; the HTML report has the whole texts in colour."]
    for pick in findings.picks:
        rows = [
            [_text(each.method), ", ".join(f"{_text(word)} {score}" for word, score in facts.strongest(each, 5))]
            for each in pick.explanations
        ]
        first = pick.explanations[0]
        gold = "" if first.example.label is None else f", gold label {first.example.label}"
        said = f"predicted {first.prediction.label} ({facts.certainty(first)}{gold})"
        text = name(" / ".join(first.example.texts), 300)
        table = _table(["explainer", "words"], rows, align="---")
        parts.append(f"**{_text(pick.why)}**: {_text(said)}\n\n> {_text(text)}\n\n{table}")
    return parts


def _made(findings: Findings) -> list[str]:
    run = findings.run
    used = [[_text(s.label), _text(s.method), _text(settings(s.parameters))] for s in run.measured.subjects]
    used += [[_text(y.label), _text(y.metric), _text(settings(y.parameters))] for y in run.measured.yardsticks]
    lines = ["## How it was made", _table(["label", "registered name", "settings"], used, align="---")]
    command, versions = run.manifest.get("command"), run.manifest.get("versions") or {}
    told = []
    if command:
        told.append(f"command: {_text(str(command))}")
    if versions:
        told.append(_text("versions: " + ", ".join(f"{key} {value}" for key, value in versions.items())))
    return [*lines, _bullets(told)]


def _folded(title: str, inner: str) -> str:
    """Folded up, as GitHub shows it."""
    return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "---:") -> str:
    heads = [_text(cell) for cell in head]
    lines = [f"| {' | '.join(heads)} |", "|---" + f"|{align}" * (len(heads) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _text(text: str) -> str:
    """The text as Markdown shows it literally, in one line."""
    flat = " ".join(printable(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|#~$&!@])", r"\\\1", flat)
