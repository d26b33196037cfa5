"""The report on a study with people as JSON and one HTML page, and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.report import charts
from didact.experiments.report.charts import Bar, Caption
from didact.experiments.report.files import json_text, write_files
from didact.experiments.report.formatting import interval, number, p_value
from didact.experiments.report.page import Page, Section, bullets, facts_list, scrolling
from didact.experiments.report.table import ReportTable, TableCell, TableRow
from didact.experiments.report.terminal import print_report
from didact.render.markup import minus_signs
from didact.stats.agreement import Agreement
from didact.stats.clustered import Estimated
from didact.study.design import CONTROL, NONE
from didact.study.gains import GainResults
from didact.study.rankings import RankResults
from didact.study.results import StudyResults

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("json", "html")
QUESTIONS = {
    "rank": "Which explanations would people give themselves?",
    "simulate": "Do explanations help people to predict the model?",
}
NOTES = {
    "rank": (
        "Worths are log-worths of the Plackett-Luce model with ties, fitted to all rankings at once; a difference of 1 "
        "means that odds are 2.7 times as high. 95 % intervals are over raters and items, p-values corrected by Holm "
        "over all pairs. The place is a range where neighbours are not significantly different.",
        "Ratings (openskill, Plackett-Luce, µ = 0 and σ = 0.5 at first, as SMaT prints them) are updated after every "
        "answer, so the order of answers matters; the range is over random orders of the same answers. No claim rests "
        "on them.",
        "This is plausibility: what people find convincing. It does not show that an explanation is faithful to the "
        "model, nor that it helps anybody; for that there is the other protocol, and results of both are never merged.",
    ),
    "simulate": (
        "A gain is the accuracy after learning less that before, on the same items, without feedback. What counts is "
        "the gain over raters who learned from the same items without explanations; 95 % intervals are over raters "
        "and items, p-values corrected by Holm over explainers.",
        "This is usefulness for predicting the model. Whether people like the explanations is another question, with "
        "another protocol, and results of both are never merged.",
    ),
}


def write_report(results: StudyResults, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the page and the JSON beside it."""
    files = {"json": ("report.json", as_json), "html": ("report.html", page)}
    return write_files(results, folder, files, formats)


def show(results: StudyResults, console: Console) -> None:
    """Print sentences, tables and notes."""
    print_report(console, results.sentences, tables(results), NOTES[results.design.protocol])


def as_json(results: StudyResults) -> str:
    """All that the page shows, as plain values."""
    return json_text(results.to_dict())


def tables(results: StudyResults) -> list[tuple[str, ReportTable]]:
    """All tables that there are numbers for, with their titles."""
    made = [("Raters", rater_table(results))]
    if results.rank is not None:
        made = [("Explainers", rank_table(results, results.rank)), ("Pairs", pair_table(results.rank)), *made]
        if isinstance(results.everyone, RankResults):
            made.append(("With the raters who are left out", rank_table(results, results.everyone)))
    if results.gains is not None:
        made = [("Gains", gain_table(results.gains)), *made]
        if isinstance(results.everyone, GainResults):
            made.append(("With the raters who are left out", gain_table(results.everyone)))
    return [(title, table) for title, table in made if table.rows]


def rank_table(results: StudyResults, ranking: RankResults) -> ReportTable:
    """A row per explainer, the highest worth first."""
    rated = bool(results.skill) and ranking is results.rank
    heads = ["explainer", "place", "worth", "mean rank", "first", *(["rating", "over orders"] if rated else [])]
    rows = []
    for each in ranking.explainers:
        cells: list[TableCell | str | None] = [
            each.name,
            str(each.best) if each.best == each.worst else f"{each.best}–{each.worst}",
            _estimate(each.worth),
            f"{each.mean_rank:.2f}",
            f"{each.first:.0%}",
        ]
        if rated:
            skill = results.skill[each.name]
            cells += [f"{skill.mu:.2f} ± {1.96 * skill.sigma:.2f}", f"{skill.low:.2f} to {skill.high:.2f}"]
        rows.append(TableRow(cells, kind="control" if each.name == CONTROL else "body"))
    return ReportTable.of(heads, rows, "lr")


def pair_table(ranking: RankResults) -> ReportTable:
    """A row per pair of explainers."""
    rows = [
        [
            pair.first,
            pair.second,
            _estimate(pair.difference),
            p_value(pair.adjusted),
            f"{pair.share:.0%}",
            None if pair.significant or pair.raters_needed is None else str(pair.raters_needed),
        ]
        for pair in sorted(ranking.pairs, key=lambda pair: pair.adjusted)
    ]
    heads = ["preferred", "to", "difference of worths", "p, corrected", "stands before", "raters needed to show it"]
    return ReportTable.of(heads, rows, "llr")


def gain_table(gains: GainResults) -> ReportTable:
    """A row per arm."""
    rows = [
        TableRow(
            [
                arm.arm,
                str(arm.raters),
                f"{100 * arm.before:.1f}",
                f"{100 * arm.after:.1f}",
                _estimate(arm.gain, 100),
                None if arm.over_none is None else _estimate(arm.over_none, 100),
                None if arm.over_none is None else p_value(arm.adjusted),
            ],
            kind="control" if arm.arm in (NONE, CONTROL) else "body",
        )
        for arm in gains.arms
    ]
    heads = ["learned with", "raters", "before, %", "after, %", "gain, points", "over none", "p, corrected"]
    return ReportTable.of(heads, rows, "lr")


def rater_table(results: StudyResults) -> ReportTable:
    """A row per rater."""
    rows = [
        [
            each.rater,
            each.arm or None,
            f"{each.done} of {each.total}",
            f"{each.passed} of {each.passed + each.failed}",
            None if each.seconds is None else f"{each.seconds:.1f}",
            "yes" if each.kept else "no",
        ]
        for each in results.raters
    ]
    return ReportTable.of(["rater", "arm", "pages", "checks passed", "seconds a page", "counts"], rows, "llr")


def page(results: StudyResults) -> str:
    """One HTML file that needs nothing else."""
    design = results.design
    finished = sum(each.finished for each in results.raters)
    lead = (
        f"{finished} of {design.raters} planned raters have finished; {design.items} items; protocol: {design.protocol}"
    )
    shown = tables(results)
    sections = [
        Section("chart", "At a glance", _chart(results)),
        *(Section(f"table-{at}", title, scrolling(table, title)) for at, (title, table) in enumerate(shown)),
        Section("agreement", "Agreement and quality", facts_list(_agreement(results))),
        Section("registration", "Preregistration", facts_list(_registration(results))),
        Section("notes", "How to read this", bullets(NOTES[design.protocol], "remarks")),
    ]
    return Page(
        design.title, "a study with people", lead, QUESTIONS[design.protocol], results.sentences, sections
    ).html()


def _chart(results: StudyResults) -> str:
    if results.rank is not None:
        bars = [_bar(each.name, each.worth, 1) for each in results.rank.explainers]
        return charts.forest(
            {"Worths": bars}, Caption("worths", "Worths", "Log-worths of explainers", "log-worth, 95 %")
        )
    arms = [] if results.gains is None else results.gains.arms
    bars = [_bar(arm.arm, arm.over_none, 100) for arm in arms if arm.over_none is not None]
    caption = Caption("gains", "Gains", "Gains over raters without explanations", "points over none, 95 %")
    return charts.forest({"Gains over none": bars}, caption) if bars else ""


def _bar(name: str, estimate: Estimated, scale: float) -> Bar:
    ends = (scale * estimate.low, scale * estimate.high)
    return Bar(
        name, scale * estimate.value, *ends, note=minus_signs(_estimate(estimate, scale).text), control=name == CONTROL
    )


def _agreement(results: StudyResults) -> list[tuple[str, str]]:
    if results.rank is not None:
        rank = results.rank
        places = ", ".join(f"{letter} {value:.2f}" for letter, value in zip("ABCDEFGH", rank.places, strict=False))
        within = (
            f"{number(rank.within.mean)} {interval(rank.within.low, rank.within.high)}, {rank.repeats} repeated items"
        )
        return [
            ("between raters, tau-b", _agreed(rank.between)),
            ("of raters with themselves, tau-b", within),
            ("mean rank by place on the page", places),
            ("rankings", str(rank.rankings)),
        ]
    if results.gains is None:
        return []
    return [
        ("between raters before learning, alpha", _agreed(results.gains.before)),
        ("after learning, alpha", _agreed(results.gains.after)),
        ("accuracy of the commonest class", f"{results.gains.chance:.0%}"),
        ("items answered before and after", str(results.gains.answers)),
    ]


def _registration(results: StudyResults) -> list[tuple[str, str]]:
    fixed = results.registration
    if not fixed.digest:
        return [("SHA-256", "not fixed yet: nobody has joined")]
    return [("SHA-256 when the first rater joined", fixed.digest), ("since then", _unchanged(fixed.unchanged))]


def _unchanged(unchanged: bool | None) -> str:
    return "unchanged" if unchanged else "changed; the first text is kept among the events"


def _agreed(agreement: Agreement) -> str:
    return f"{number(agreement.value)} {interval(agreement.low, agreement.high)}, {agreement.comparisons:,} comparisons"


def _estimate(estimate: Estimated, scale: float = 1) -> TableCell:
    decimals = 1 if scale == 100 else 2
    ends = f"[{scale * estimate.low:.{decimals}f}, {scale * estimate.high:.{decimals}f}]"
    return TableCell(
        f"{scale * estimate.value:.{decimals}f}",
        note=ends if estimate.low == estimate.low else "",
        value=scale * estimate.value,
    )
