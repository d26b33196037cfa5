"""The report as one HTML file that needs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from didact.experiments.charts import style as chart_style
from didact.experiments.report.anti_gaming import NULLS, MetricVerdict
from didact.experiments.report.assets import SCRIPT, STYLE
from didact.experiments.report.drawing import agreement, cost_chart, erasure_charts, tau_chart
from didact.experiments.report.findings import Findings
from didact.experiments.report.formatting import beaten, interval, number, p_value, settings
from didact.experiments.report.markdown import families
from didact.experiments.report.sentences import caveats, headlines
from didact.experiments.tables import Column, ExplainerInfo
from didact.render import facts
from didact.render.html import fragment
from didact.render.pieces import printable
from didact.render.style import stylesheet


def page(findings: Findings) -> str:
    """The whole page: no network, no fonts or scripts from elsewhere, readable without JavaScript."""
    sections = [
        ("summary", "Summary", _summary(findings)),
        ("differences", "What differs, and from what", _differences(findings)),
        ("cost", "Quality against cost", cost_chart(findings) + _costs(findings)),
        ("curves", "Deletion and insertion", erasure_charts(findings)),
        ("gaming", "Can the metrics be gamed?", _panel(findings)),
        ("agreement", "Do the explainers agree?", agreement(findings)),
        ("rankings", "Do the metrics agree?", tau_chart(findings)),
        ("examples", "Examples side by side", _examples(findings)),
        ("caveats", "Keep in mind", _list(caveats(findings), "notes")),
        ("made", "How it was made", _made(findings)),
    ]
    shown = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown)
    title = _text(f"{findings.run.name}: which explanation to trust")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{title}</title>\n<style>\nbody{{margin:0}}\n{stylesheet()}\n{chart_style()}\n{STYLE.strip()}\n</style>",
            f'</head>\n<body class="didact report">\n<main>\n<h1>{_text(findings.run.name)}</h1>',
            f'<p class="lead">{_lead(findings)}</p>',
            '<section class="short" aria-labelledby="short"><h2 id="short">Which should I trust?</h2>',
            f'{_short(findings)}</section>\n<nav class="jump" aria-label="Sections">{links}</nav>',
            *(f'<section id="{key}"><h2>{title}</h2>{inner}</section>' for key, title, inner in shown),
            f"</main>\n<script>{SCRIPT.strip()}</script>\n</body>\n</html>\n",
        ]
    )


def _lead(findings: Findings) -> str:
    model, data = (findings.run.manifest.get(key) or {} for key in ("model", "data"))
    subjects = findings.run.measured.subjects
    real = sum(not subject.control for subject in subjects)
    told = [
        f"{real} {'explainer' if real == 1 else 'explainers'} and {len(subjects) - real} controls",
        f"on {len(findings.run.measured.examples):,} texts of {data.get('name', 'unknown data')}",
        f"for {model.get('name', 'an unknown model')}",
    ]
    return _text(" ".join(told))


def _short(findings: Findings) -> str:
    items = []
    for line in headlines(findings):
        warning = line.startswith("Warning: ")
        kind = ' class="warning"' if warning else ""
        items.append(f"<li{kind}>{_minus(_text(line))}</li>")
    return f"<ul>{''.join(items)}</ul>"


def _summary(findings: Findings) -> str:
    groups = families(findings)
    heads = "".join(
        f'<th scope="colgroup" colspan="{len(columns)}">{_text(family)}</th>' for family, columns in groups.items()
    )
    columns = [column for family in groups.values() for column in family]
    names = "".join(_head(column) for column in columns)
    shown = [s for s in findings.run.measured.subjects if any(s.label in column.cells for column in columns)]
    real = "".join(_row(findings, s, columns) for s in shown if not s.control)
    controls = "".join(_row(findings, s, columns) for s in shown if s.control)
    below = f'<tbody class="controls">{controls}</tbody>' if controls else ""
    counts = "".join(f"<td>{_counts(column)}</td>" for column in columns)
    return (
        '<p class="key"><span><b class="best-mark">0.42</b> the best mean</span> '
        "<span><b>≈</b> not distinguishable from the best</span> <span>↑ higher is better</span> "
        "<span>↓ lower is better</span> <span>small: 95 % interval</span> "
        '<span><i class="tick-mark"></i> value of random</span> <span>click a name to sort</span></p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Summary table"><table class="numbers sortable">'
        "<caption>Explainers by metrics: mean over texts and its 95 % interval. Controls stand below and cannot win."
        f'</caption><thead><tr><td></td>{heads}</tr><tr><th scope="col"><button type="button">explainer</button></th>'
        f"{names}</tr></thead><tbody>{real}</tbody>{below}"
        f'<tfoot><tr><th scope="row">n</th>{counts}</tr></tfoot></table></div>'
    )


def _head(column: Column) -> str:
    yardstick = column.yardstick
    title = _text(f"{yardstick.summary} {settings(yardstick.parameters)}".strip())
    name = _name(yardstick.label) + yardstick.arrow.replace(" ", "&nbsp;")
    return f'<th scope="col" title="{title}"><button type="button">{name}</button></th>'


def _row(findings: Findings, subject: ExplainerInfo, columns: Sequence[Column]) -> str:
    cells = "".join(_cell(findings, column, subject.label) for column in columns)
    title = _text(f"{subject.summary} {settings(subject.parameters)}".strip())
    return f'<tr><th scope="row" title="{title}">{_name(subject.label)}</th>{cells}</tr>'


def _cell(findings: Findings, column: Column, label: str) -> str:
    cell = column.cells.get(label)
    if cell is None:
        return '<td class="none">–</td>'
    mean = _minus(number(cell.mean, column.largest))
    mark = ' <b title="not distinguishable from the best">≈</b>' if label in column.tied else ""
    shown = f'<b class="best-mark">{mean}</b>' if label == column.best else f"{mean}{mark}"
    others = [other for other in column.cells if other != label]
    title = f"{label}, {column.yardstick.label}: n = {cell.n}"
    if column.yardstick.sign:
        title += f"; better than: {beaten(column.tests.beats(label), others)}"
    bar = _bar(findings, column, label)
    return (
        f'<td data-v="{cell.mean:.6g}" title="{_text(title)}">{shown}'
        f'<span class="ci">{_minus(interval(cell, column.largest)[1:-1])}</span>{bar}</td>'
    )


def _bar(findings: Findings, column: Column, label: str) -> str:
    """The interval among the intervals of its column, with a line where random stands."""
    cell = column.cells[label]
    ends = [
        end for each in column.cells.values() for end in (each.low, each.high, each.mean) if abs(end) < float("inf")
    ]
    if not ends or max(ends) == min(ends) or not all(abs(v) < float("inf") for v in (cell.mean, cell.low, cell.high)):
        return ""
    low, wide = min(ends), max(ends) - min(ends)
    places = {"a": cell.low, "b": cell.high, "m": cell.mean}
    random = column.cells.get(findings.random or "")
    if random is not None and abs(random.mean) < float("inf"):
        places["r"] = random.mean
    return (
        f'<i class="iv" style="{";".join(f"--{key}:{100 * (at - low) / wide:.1f}" for key, at in places.items())}"></i>'
    )


def _counts(column: Column) -> str:
    counts = sorted({cell.n for cell in column.cells.values()})
    lost = max(cell.missing for cell in column.cells.values())
    told = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"
    return f'{told}<span class="ci">up to {lost:,} undefined</span>' if lost else told


def _differences(findings: Findings) -> str:
    columns = [column for column in findings.summary.columns if column.best is not None]
    if not columns:
        return ""
    told = (
        "<p>Every two explainers are compared on the same texts (Wilcoxon's signed-rank test), with Holm's correction "
        "over all pairs of a metric; “better than” lists those that are significantly worse at 5 %.</p>"
    )
    return told + "".join(_difference(column) for column in columns)


def _difference(column: Column) -> str:
    rows = []
    order = sorted(column.cells, key=lambda label: -column.yardstick.sign * column.cells[label].mean)
    for label in order:
        others = [other for other in column.cells if other != label]
        rows.append(
            [
                _name(label),
                _number(column.cells[label].mean, column.largest),
                _text(beaten(column.tests.beats(label), others)),
            ]
        )
    lead = f"<b>{_text(column.yardstick.label)}{column.yardstick.arrow}</b> "
    if column.second is not None and column.best is not None:
        lead += f"{_text(column.best)} before {_text(column.second)}, p {_p(column.p(column.best, column.second))}"
        if column.needed is not None:
            lead += f"; about {column.needed:,} texts would show such a difference"
    return f"<details><summary>{lead}</summary>{_table(('explainer', 'mean', 'better than'), rows)}</details>"


def _costs(findings: Findings) -> str:
    if not findings.run.costs:
        return ""
    rows = []
    for label, spent in findings.run.costs.items():
        seconds = "–" if spent.seconds is None else facts.duration(spent.seconds)
        counts = ("–" if value is None else number(value) for value in (spent.forwards, spent.backwards))
        rows.append([_name(label), *counts, seconds])
    table = _table(("explainer", "forwards", "backwards", "time"), rows)
    return f"<details><summary>Cost per text as numbers</summary>{table}</details>"


def _panel(findings: Findings) -> str:
    if not findings.verdicts:
        return ""
    told = (
        "<p>A metric is worth something when it tells real explanations from ones that say nothing. Here it meets "
        "random scores, a trivial rule, and broken copies of every explanation: its own scores shuffled over the "
        "words, and its scores graded for the label of another text.</p>"
    )
    heads = ("metric", "verdict", "best real", "random", "trivial", "beat their shuffle", "beat other labels")
    rows = [_overview(findings, verdict) for verdict in findings.verdicts]
    table = _scroll(_table(heads, rows), "Verdicts of the anti-gaming panel")
    return f"{told}{table}{_sentences(findings)}{''.join(_verdict(findings, verdict) for verdict in findings.verdicts)}"


def _sentences(findings: Findings, most: int = 8) -> str:
    """What is gamed in sight; further exceptions folded up where there are many."""
    gamed = [sentence for verdict in findings.verdicts if verdict.gamed for sentence in verdict.sentences]
    rest = [sentence for verdict in findings.verdicts if not verdict.gamed for sentence in verdict.sentences]
    if len(gamed) + len(rest) <= most:
        return _list(gamed + rest, "said")
    folded = (
        f"<details><summary>{len(rest)} exceptions in words</summary>{_list(rest, 'said')}</details>" if rest else ""
    )
    return _list(gamed, "said") + folded


def _overview(findings: Findings, verdict: MetricVerdict) -> list[str]:
    column = _column(findings, verdict)
    pill = '<span class="pill bad">can be gamed</span>' if verdict.gamed else '<span class="pill">holds</span>'
    if not verdict.gamed and verdict.sentences:
        pill = '<span class="pill some">with exceptions</span>'
    best = f"{_number(column.cells[column.best].mean, column.largest)} {_text(column.best)}" if column.best else "–"
    controls = [_control(findings, verdict, method) for method in ("random", "trivial")]
    return [
        f"{_name(verdict.yardstick.label)}{verdict.yardstick.arrow}",
        pill,
        best,
        *controls,
        *(_share(verdict, null) for null in NULLS),
    ]


def _control(findings: Findings, verdict: MetricVerdict, method: str) -> str:
    labels = [s.label for s in findings.run.measured.subjects if s.method == method and s.label in verdict.controls]
    return _number(verdict.controls[labels[0]], _column(findings, verdict).largest) if labels else "–"


def _share(verdict: MetricVerdict, null: str) -> str:
    tested = [label for label in verdict.real if null in verdict.checks.get(label, {})]
    return f"{len(tested) - len(verdict.failed(null))} of {len(tested)}" if tested else "–"


def _verdict(findings: Findings, verdict: MetricVerdict) -> str:
    column = _column(findings, verdict)
    nulls = [null for null in NULLS if any(null in checks for checks in verdict.checks.values())]
    rows = []
    for label in column.cells:
        row = [_name(label), _number(column.cells[label].mean, column.largest)]
        for null in nulls:
            check = verdict.checks.get(label, {}).get(null)
            row += (
                ["–", "–"]
                if check is None
                else [_number(check.null, column.largest), _p(check.p) + ("" if check.beats else " ✗")]
            )
        rows.append(row)
    words = {"shuffle": ("shuffled", "p"), "labels": ("other label", "p")}
    heads = ("explainer", "value", *(head for null in nulls for head in words[null]))
    name = f"<b>{_text(verdict.yardstick.label)}{verdict.yardstick.arrow}</b> values beside their nulls"
    return f"<details><summary>{name}</summary>{_scroll(_table(heads, rows), 'Nulls')}</details>"


def _column(findings: Findings, verdict: MetricVerdict) -> Column:
    return next(c for c in findings.summary.columns if c.yardstick.label == verdict.yardstick.label)


def _examples(findings: Findings) -> str:
    shown = []
    for number_, each in enumerate(findings.picks):
        why = _text(each.why[:1].upper() + each.why[1:])
        is_open = "" if number_ else " open"
        shown.append(f'<details class="pick"{is_open}><summary>{why}</summary>{fragment(each.explanations)}</details>')
    return "".join(shown).replace(f"<style>{stylesheet()}</style>", "")  # the page has it already


def _made(findings: Findings) -> str:
    run = findings.run
    used = [[_text(s.label), _text(s.method), _text(settings(s.parameters)) or "–"] for s in run.measured.subjects]
    graded = [
        [_text(y.label), _text(y.summary) or "–", _text(settings(y.parameters)) or "–"] for y in run.measured.yardsticks
    ]
    told = [
        ("Command", str(run.manifest.get("command") or "")),
        ("Model", settings(run.manifest.get("model") or {})),
        ("Data", settings(run.manifest.get("data") or {})),
        ("Seeds", ", ".join(map(str, run.manifest.get("seeds") or []))),
        ("Versions", ", ".join(f"{key} {value}" for key, value in (run.manifest.get("versions") or {}).items())),
    ]
    items = "".join(f"<div><dt>{term}</dt><dd>{_text(fact)}</dd></div>" for term, fact in told if fact)
    tables = (
        ("Explainers", ("label", "method", "settings"), used),
        ("Metrics", ("label", "meaning", "settings"), graded),
    )
    folded = (
        f"<details><summary>{name} and settings</summary>{_table(heads, rows)}</details>"
        for name, heads, rows in tables
    )
    return f'<dl class="facts">{items}</dl>{"".join(folded)}'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table; cells are HTML already."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return f'<table class="numbers plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _scroll(inner: str, label: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}">{inner}</div>'


def _list(lines: Sequence[str], kind: str) -> str:
    items = "".join(f"<li>{_minus(_text(line))}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def _number(value: float, like: float | None = None) -> str:
    return _minus(number(value, like))


def _p(p: float) -> str:
    return escape(p_value(p))


def _text(text: str) -> str:
    return escape(printable(str(text)))


def _name(label: str) -> str:
    """A label that may break at its underscores."""
    return _text(label).replace("_", "_<wbr>")


def _minus(text: str) -> str:
    """Numbers with a real minus sign."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)
