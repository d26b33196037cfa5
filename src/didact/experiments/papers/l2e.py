"""Tables and figures of the L2E paper: what was measured here beside what was published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypedDict, cast

import numpy as np

from didact.errors import FormatError, InputError, ParameterError
from didact.experiments.distillation import grading
from didact.experiments.distillation.report import read_summary
from didact.experiments.distillation.summary import (
    RANDOM,
    Grades,
    LearnedVersusReference,
    as_in_the_paper,
    gather,
    spread,
)
from didact.experiments.engine.study import SPLITS
from didact.experiments.papers.cells import shown
from didact.experiments.papers.l2e_published import FIGURES, REFERENCE, SIZES, SPEED, TABLES, L2ETable
from didact.render.markup import markdown_table
from didact.store import records as record_store

FOLDERS = ("docs/results/l2e", "runs/l2e")
"""Where results are looked for when no folder is given."""

ALPHA = 0.05
STATISTICS, SCATTERED = 6, 7
"""Numbers of the table of data sets, and of the figure of precision and recall."""
NAMES = {"movies": "movie_rationales"}
"""Study -> data set, where they are called differently."""

_NOT_HERE = {
    "cola": "CoLA needs a classifier: train one with scripts/train_classifier.py, then run recipes/l2e/cola.toml",
    "movie_rationales": "the film reviews need a classifier that is neutral without the rationale: train it with "
    "--neutral, then run recipes/l2e/movies.toml. The paper's is a Longformer, which reads whole reviews",
}


TextSource = Mapping[str, object]
L2ESpeed = TypedDict(
    "L2ESpeed", {"device": str, "texts at a time": int, "seconds per text": dict[str, float]}, total=False
)


class L2EStudy(TypedDict, total=False):
    """The model that was explained, and the texts of each split."""

    name: str
    model: str
    data: dict[str, TextSource | list[TextSource]]


class L2ESummary(TypedDict, total=False):
    """What summary.json of a study holds."""

    study: L2EStudy
    speed: L2ESpeed
    facts: dict[str, dict[str, int]]
    texts: dict[str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class Results:
    """What a folder holds, by data set.

    Attributes:
        folder: where it was read from.
        grades: data set -> metric -> explainer -> a value per text, averaged over initialisations.
        summaries: data set -> settings and times.
    """

    folder: Path | None
    grades: Mapping[str, Grades] = field(default_factory=dict)
    summaries: Mapping[str, L2ESummary] = field(default_factory=dict)

    @cached_property
    def tests(self) -> dict[tuple[str, str, str, str], LearnedVersusReference]:
        """(data set, metric, learned, teacher) -> how the two compare."""
        rows = {}
        for data, grades in self.grades.items():
            for row in as_in_the_paper(grades):
                rows[data, row.metric, row.learned, row.reference] = row
        return rows


def read(folder: Path | str | None = None) -> Results:
    """Results of the runs in a folder, or in the first usual one that has some."""
    places = [Path(folder)] if folder is not None else [Path(name) for name in FOLDERS]
    if folder is not None and not places[0].is_dir():
        raise InputError(f"there is no folder {folder}")
    for place in places:
        runs = [path.parent for path in sorted([*place.glob("manifest.json"), *place.glob("*/manifest.json")])]
        finished = [run for run in runs if (run / "records.parquet").is_file()]
        if finished:
            return _results(place, finished)
        if any(place.glob("records-*.parquet")):
            raise FormatError(f"{place} was written by an older version; convert it with: didact convert {place}")
    if folder is not None:
        raise InputError(f"{folder} holds no finished run: give the folder of a didact run, or its parent")
    return Results(None)


def table(number: int, results: Results) -> str:
    """One of the paper's tables as Markdown, measured beside published."""
    if number == STATISTICS:
        return _statistics(results)
    if number not in TABLES:
        known = sorted([*TABLES, STATISTICS])
        raise ParameterError(f"table {number} cannot be reproduced; there are {', '.join(map(str, known))}")
    printed = TABLES[number]
    columns = [_column(printed, place) for place in range(len(printed.columns))]
    rows = [_row(printed, results, columns, reference, who) for reference, who in _rows(printed, results)]
    rows = [row for row in rows if row[0] in printed.rows or set(row[2:]) != {"–"}]
    lines = [f"## Table {number}: {printed.title}", "", markdown_table(_heads(printed), rows, "llr")]
    return "\n".join([*lines, "", *_notes(printed, results)]) + "\n"


def figure(number: int, results: Results) -> str:
    """Inference times, or precision and recall, which the paper shows as charts, as a table."""
    if number == SCATTERED:
        return _scattered(results)
    if number not in FIGURES:
        known = [*FIGURES, SCATTERED]
        raise ParameterError(f"figure {number} cannot be reproduced; there are {', '.join(map(str, known))}")
    data = FIGURES[number]
    lines = [f"## Figure {number}: seconds per text on {data}", "", f"{REFERENCE}: {SPEED}", ""]
    speed = results.summaries.get(data, {}).get("speed", {})
    times: Mapping[str, float] = speed.get("seconds per text", {})
    own = [seconds for name, seconds in times.items() if name.startswith("l2e ") and "one text" not in name]
    if not own:
        return "\n".join([*lines, _missing(data, results)]) + "\n"
    lines += [
        f"Measured here ({speed.get('device', 'device not recorded')}), {speed.get('texts at a time')} at a time:"
    ]
    rows = [[name, f"{seconds:.3g}", f"{seconds / min(own):,.1f}"] for name, seconds in times.items()]
    lines += ["", markdown_table(("explainer", "seconds per text", "times L2E"), rows, "lr")]
    return "\n".join(lines) + "\n"


def everything(results: Results) -> str:
    """All tables and figures."""
    tables = [table(number, results) for number in sorted([*TABLES, STATISTICS])]
    return "\n".join([*tables, *(figure(number, results) for number in (*FIGURES, SCATTERED))])


def _statistics(results: Results) -> str:
    """Table 6: texts of every split and words of a text, of the paper and of the studies here."""
    heads = [f"{what}: {side}" for what in ("train", "validation", "test", "words") for side in ("paper", "here")]
    rows = []
    for data, published in SIZES.items():
        known = results.summaries.get(data, {}).get("texts", {})
        here = [known.get(split, {}).get("texts") for split in SPLITS] + [known.get("test", {}).get("words")]
        cells = [text for pair in zip(published, here, strict=True) for text in (f"{pair[0]:,}", _count(pair[1]))]
        rows.append([data, *cells])
    note = f"Paper: {REFERENCE}. Here: texts that a study learned from, chose by and was graded on; – where none ran."
    made = markdown_table(("data", *heads), rows, "lr")
    return "\n".join([f"## Table {STATISTICS}: sizes of the data sets", "", made, "", note]) + "\n"


def _count(value: float | None) -> str:
    return "–" if value is None else f"**{value:,g}**"


def _scattered(results: Results) -> str:
    """Figure 7: precision and recall of the words of positive reviews against human rationales."""
    lines = [f"## Figure {SCATTERED}: precision and recall on positive film reviews that are classified rightly", ""]
    lines += [
        f"{REFERENCE}: a chart; its text says that learned explainers are mostly better than references.",
        "",
    ]
    printed = TABLES[4]
    columns = [_column(printed, place) for place in range(len(printed.columns))]
    rows = [_row(printed, results, columns, reference, who)[:6] for reference, who in _rows(printed, results)]
    rows = [row for row in rows if "–" not in (row[3], row[5])]
    if not rows:
        return "\n".join([*lines, _missing("movie_rationales", results)]) + "\n"
    heads = ("reference", "", *(f"{name}: {side}" for _, name in printed.columns[:2] for side in ("Table 4", "here")))
    return "\n".join([*lines, markdown_table(heads, rows, "llr")]) + "\n"


@dataclass(frozen=True)
class _Column:
    """Where the numbers of a printed column come from.

    Attributes:
        data: the data set.
        signal: how the learned explainer learnt.
        metric: what is measured.
        both: the metric of the row "Both".
        scale: 100 where the paper prints percents.
    """

    data: str
    signal: str
    metric: str
    both: str = ""
    scale: float = 1.0


_TABLE_METRICS = {2: grading.POSITIVE, 8: grading.NEGATIVE, 9: grading.LOG_ODDS}
_IOU = {3: "semantic", 7: "lexical"}
_OF_CHANCE = {
    grading.POSITIVE: grading.LOG_ODDS,
    grading.NEGATIVE: grading.LOG_ODDS,
    grading.LABELLED_AGREEMENT: grading.AGREEMENT,
}
"""Random scores label no words; where labelled words are selected, they are graded by the top 30 % of their order."""


def _column(printed: L2ETable, place: int) -> _Column:
    group, name = printed.columns[place]
    if printed.number in (4, 5):
        metric = f"rationale {group} {name}" if printed.number == 4 else f"iou {name}"
        return _Column("movie_rationales", "labelling", metric, scale=100)
    if printed.number == 1:
        ranking = group == "ranking"
        metric = grading.AGREEMENT if ranking else grading.LABELLED_AGREEMENT
        return _Column(name, group, metric, grading.BOTH if ranking else grading.LABELLED_BOTH, 100)
    if printed.number in _IOU:
        return _Column(name, group, f"iou_{_IOU[printed.number]}_{'top' if group == 'ranking' else 'labels'}", "", 100)
    return _Column(name, group, _TABLE_METRICS[printed.number])


def _rows(printed: L2ETable, results: Results) -> Iterable[tuple[str, str]]:
    """Printed rows in their order, then references that were measured only."""
    for reference, lines in printed.rows.items():
        yield from ((reference, who) for who in lines)
    data = {_column(printed, place).data for place in range(len(printed.columns))}
    extra: dict[str, None] = {}
    for name in sorted(data & results.grades.keys()):
        for rows in results.grades[name].values():
            extra |= {label: None for label in sorted(rows) if label not in printed.rows and label.isidentifier()}
    for reference in extra:
        yield from ((reference, who) for who in ("A", "L2E"))


def _row(printed: L2ETable, results: Results, columns: Sequence[_Column], reference: str, who: str) -> list[str]:
    cells = [reference, who]
    published = printed.rows.get(reference, {}).get(who, (None,) * len(columns))
    for column, cell in zip(columns, published, strict=True):
        cells += [shown(cell), _measured(results, column, reference, who)]
    return cells


def _measured(results: Results, column: _Column, reference: str, who: str) -> str:
    metric = column.both if who == "Both" else column.metric
    learned = f"l2e {column.signal}({reference})"
    label, other = (reference, learned) if who == "A" else (learned, reference)
    if reference == RANDOM:
        metric = _OF_CHANCE.get(metric, metric)
    rows = results.grades.get(column.data, {}).get(metric, {})
    if label not in rows:
        return "–"
    compared = np.isfinite(rows[other]) if other in rows else True
    mean, half, n = spread(np.where(compared, rows[label], np.nan))
    if not n:
        return "–"
    test = results.tests.get((column.data, metric, label, reference))
    mark = "*" if who == "L2E" and test is not None and test.adjusted < ALPHA else ""
    count = f" ({n:,})" if n < len(rows[label]) else ""
    return _number(mean * column.scale, half * column.scale) + mark + count


def _number(mean: float, half: float) -> str:
    return f"**{mean:.2f} ± {half:.2f}**" if half == half else f"**{mean:.2f}**"


def _heads(printed: L2ETable) -> list[str]:
    names = [f"{group}, {name}: {side}" for group, name in printed.columns for side in ("paper", "here")]
    return [f"reference ({printed.unit})" if printed.unit else "reference", "", *names]


def _notes(printed: L2ETable, results: Results) -> list[str]:
    lines = [
        f"Paper: {REFERENCE}. Here: mean ± 1.96 standard errors over the test texts on which both A and L2E are "
        "defined, initialisations averaged; (n): how many these are, where some are left out; * differs from A "
        "(Wilcoxon, Holm). Models, texts and sample sizes are not the paper's: compare rows, not numbers."
    ]
    columns = [_column(printed, place) for place in range(len(printed.columns))]
    if any(column.metric in _OF_CHANCE for column in columns):
        lines.append("random: random scores label no words, so these are the top 30 % of their order.")
    for name in dict.fromkeys(column.data for column in columns):
        if name not in results.grades:
            lines.append(_missing(name, results))
        elif name in results.summaries:
            lines.append(_source(name, results.summaries[name]))
    return [line for text in lines for line in (text, "")][:-1]


def _source(data: str, summary: L2ESummary) -> str:
    """The model, how many texts there were, and from how many of them, at most, each reference was learnt."""
    study = summary.get("study", {})
    texts = ", ".join(f"{_limits(given)} {split}" for split, given in study.get("data", {}).items())
    learnt_from: dict[str, int] = {}
    for name, facts in summary.get("facts", {}).items():
        if "texts" in facts:
            reference = name.split("/")[1]
            learnt_from[reference] = max(facts["texts"], learnt_from.get(reference, 0))
    labelled = ", ".join(f"{reference} {count}" for reference, count in learnt_from.items())
    learnt = f" (labelled to learn from: {labelled})" if labelled else ""
    return f"{data}: {study.get('model', 'model not recorded')}; texts: {texts}{learnt}."


def _limits(given: TextSource | Sequence[TextSource]) -> str:
    sources = [given] if isinstance(given, Mapping) else given
    return " + ".join(str(source.get("limit", "all")) for source in sources)


def _missing(data: str, results: Results) -> str:
    where = f"in {results.folder}" if results.folder else f"in {' or '.join(FOLDERS)}"
    how = _NOT_HERE.get(data, f"didact run recipes/l2e/{data}.toml --out runs/l2e/{data}")
    return f"{data}: nothing was measured {where}; {how}."


def _results(place: Path, runs: Sequence[Path]) -> Results:
    grades: dict[str, Grades] = {}
    summaries: dict[str, L2ESummary] = {}
    for run in runs:
        summary = cast("L2ESummary", read_summary(run))
        name = str(summary["study"]["name"])
        data = NAMES.get(name, name)
        if data not in SIZES:
            continue  # of no table of the paper
        grades[data] = gather(record_store.read(run / "records.parquet"))
        summaries[data] = summary
    return Results(place, grades, summaries)
