"""Tables of the SMaT paper: what was measured here beside what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from didact.errors import ParameterError
from didact.experiments.papers.runs import finished_runs
from didact.experiments.papers.smat_published import EXPLAINERS, PLAUSIBILITY, REFERENCE, SIMULABILITY, Spread
from didact.experiments.scaffolding.curves import AREA, END
from didact.experiments.scaffolding.findings import ScaffoldingFindings, TaughtGroup, TaughtRow
from didact.experiments.scaffolding.recipe import SMAT, ScaffoldingRecipe
from didact.experiments.scaffolding.report import heads_maps
from didact.render.heads import heads_text
from didact.render.markup import markdown_table, markdown_text
from didact.simulation.simulability import NONE

FOLDERS = ("docs/results/smat", "runs/smat")
"""Where results are looked for when no folder is given."""

TITLES = {
    1: "Simulability, film reviews (accuracy, %)",
    2: "Plausibility, film reviews (AUC)",
    3: "Simulability, images (accuracy, %)",
    5: "Simulability, quality of translations (Pearson)",
    6: "Plausibility, quality of translations: source / translation (AUC)",
    7: "Simulability by the normaliser of the heads' weights",
}
FIGURES = {5: "Weights of the heads"}
RECIPES = {1: "imdb", 2: "plausibility", 3: "images", 5: "mlqe", 6: "mlqe", 7: "normalisers"}
"""Table -> the recipe that measures it."""

OVERALL = "overall"


@dataclass(frozen=True, eq=False)
class ScaffoldingRuns:
    """Finished runs of a folder.

    Attributes:
        folder: where they were read from; None where there are none.
        runs: by name.
    """

    folder: Path | None
    runs: Mapping[str, ScaffoldingFindings] = field(default_factory=dict)

    def filling(self, table: int) -> dict[str, ScaffoldingFindings]:
        """The runs that say that they fill a table."""
        return {name: run for name, run in self.runs.items() if table in run.recipe.tables}


def read(folder: Path | str | None = None) -> ScaffoldingRuns:
    """Runs in a folder, or in the first usual one that has some."""
    place, finished = finished_runs(folder, FOLDERS, ScaffoldingRecipe.kind)
    runs = [ScaffoldingFindings.read(run) for run in finished]
    return ScaffoldingRuns(place, {run.name: run for run in runs})


def table(number: int, measured: ScaffoldingRuns) -> str:
    """One of the paper's tables as Markdown, measured beside published."""
    if number not in TITLES:
        raise ParameterError(f"table {number} cannot be reproduced; there are {', '.join(map(str, TITLES))}")
    body = _plausibility(number, measured) if number in PLAUSIBILITY else _simulability(number, measured)
    return "\n".join([f"## Table {number}: {TITLES[number]}", "", *body, *_notes(number, measured)]).rstrip() + "\n"


def figure(number: int, measured: ScaffoldingRuns) -> str:
    """One of the paper's figures as Markdown."""
    if number not in FIGURES:
        raise ParameterError(f"figure {number} cannot be reproduced; there is {', '.join(map(str, FIGURES))}")
    maps = [
        f"### {markdown_text(name)}: {markdown_text(label)}\n\n```\n{heads_text(weights, layers)}\n```\n"
        for name, run in measured.runs.items()
        for label, layers, weights in heads_maps(run)
    ]
    words = "In hundredths; the paper draws its own as a picture."
    return (
        "\n".join([f"## Figure {number}: {FIGURES[number]}", "", words, "", *(maps or [_missing(1, measured)])]) + "\n"
    )


def everything(measured: ScaffoldingRuns) -> str:
    """All tables and figures."""
    return "\n".join(
        [*(table(number, measured) for number in TITLES), *(figure(number, measured) for number in FIGURES)]
    )


def _simulability(number: int, measured: ScaffoldingRuns) -> Iterator[str]:
    """Medians and quartiles by the number of texts, or by the normaliser; printed, then the end and the area here."""
    printed, runs = SIMULABILITY[number], measured.filling(number)
    for name, run in runs.items() or [("", None)]:
        columns = list(printed[SMAT])
        if run is not None and number != 7:
            columns = sorted({*columns, *(str(group.size) for group in _first_student(run))}, key=int)
        labels = dict.fromkeys([*printed, *([] if run is None else _methods(run, number))])
        sides = ["paper", "end here"] + (["area here"] if run is not None and AREA in run.measures else [])
        heads = [f"{column}: {side}" for column in columns for side in sides]
        rows = [
            [_title(label), *(text for column in columns for text in _cells(number, run, label, column))]
            for label in labels
        ]
        if len(runs) > 1:
            yield f"### {markdown_text(name)}"
            yield ""
        yield markdown_table(["explainer", *heads], rows, "lr")
        yield ""
    if not runs:
        yield _missing(number, measured)
        yield ""


def _cells(number: int, run: ScaffoldingFindings | None, label: str, column: str) -> Iterator[str]:
    published = SIMULABILITY[number].get(label, {}).get(column)
    yield "–" if published is None else _printed(published)
    row = None if run is None else _row(number, run, label, column)
    for measure in (END, AREA):
        if run is None and measure == END:
            yield "–"
        elif run is not None and measure in run.measures:
            yield "–" if row is None else f"**{run.spread(row.quartiles(measure))}**"


def _row(number: int, run: ScaffoldingFindings, label: str, column: str) -> TaughtRow | None:
    """The students of a column: of so many texts, or of the channel that is called as the normaliser."""
    if number != 7:
        group = next((group for group in _first_student(run) if str(group.size) == column), None)
        return None if group is None else run.row(group, label)
    own = next((one.label for one in run.recipe.trained if one.settings.get("normalise", "sparsemax") == column), None)
    method = own if label == SMAT else label
    group = _first_student(run)[0]
    return None if method is None else run.row_of(group, method, column)


def _first_student(run: ScaffoldingFindings) -> list[TaughtGroup]:
    """The groups of the first kind of student: others are in the run's own report."""
    return [group for group in run.groups if group.student == run.groups[0].student]


def _methods(run: ScaffoldingFindings, number: int) -> list[str]:
    """Rows of a run, without those of Table 7 that stand in a column of their own."""
    methods = [NONE, *run.simulation.methods]
    return methods if number != 7 else [one for one in methods if run.role(one) != "trained"]


def _plausibility(number: int, measured: ScaffoldingRuns) -> Iterator[str]:
    """Areas under the ROC curve by data, printed and here."""
    printed, runs = PLAUSIBILITY[number], measured.filling(number)
    columns = list(printed[SMAT])
    labels = dict.fromkeys([*printed, *(label for run in runs.values() for label in _rated(run))])
    rows = [
        [_title(label), *(text for data in columns for text in _areas(printed, list(runs.values()), label, data))]
        for label in labels
    ]
    heads = [f"{data}: {side}" for data in columns for side in ("paper", "here")]
    yield markdown_table(["explainer", *heads], rows, "lr")
    yield ""
    if not runs:
        yield _missing(number, measured)
        yield ""


def _areas(
    printed: Mapping[str, Mapping[str, Sequence[float]]], runs: Sequence[ScaffoldingFindings], label: str, data: str
) -> tuple[str, str]:
    published = printed.get(label, {}).get(data)
    run = next((one for one in runs if data in one.rated or (data == OVERALL and len(one.rated) > 1)), None)
    here = [] if run is None else _means(run, label, data)
    return (
        "–" if published is None else " / ".join(f"{value:.2f}" for value in published),
        "**" + " / ".join(f"{value:.3f}" for value in here) + "**" if here else "–",
    )


def _means(run: ScaffoldingFindings, label: str, data: str) -> list[float]:
    """Mean AUC of every side of the data; overall the mean over all data."""
    names = list(run.rated) if data == OVERALL else [data]
    sides = list(dict.fromkeys(side for name, side in run.rated_sides if name in names))
    means = []
    for side in sides:
        areas = [own for name in names if (own := run.areas(name, side, label)) is not None]
        values = [float(own[~np.isnan(own)].mean()) for own in areas]
        if values:
            means.append(float(np.mean(values)))
    return means


def _rated(run: ScaffoldingFindings) -> list[str]:
    return list(dict.fromkeys(label for known in run.rated.values() for label in known.get("explainers", {})))


def _title(label: str) -> str:
    """The printed name of an explainer, or its label."""
    return markdown_text(next((name for name, own in EXPLAINERS.items() if own == label), label))


def _printed(spread: Spread) -> str:
    decimals = 2 if spread.median > 1 else 4
    return f"{spread.median:.{decimals}f} [{spread.low:.{decimals}f}:{spread.high:.{decimals}f}]"


def _notes(number: int, measured: ScaffoldingRuns) -> Iterator[str]:
    yield (
        f"Paper: {REFERENCE}. Here: models, texts and students are not the paper's, and students are fresh ones that "
        "learn from frozen explanations: compare rows, not numbers."
    )
    for name, run in measured.filling(number).items():
        for claim in run.claims:
            if claim.measure == run.measures[0] and number in SIMULABILITY:
                sure = "significant" if claim.holds else "not significantly better"
                yield ""
                yield (
                    f"{markdown_text(name)}, {claim.group}: {markdown_text(claim.method)} − "
                    f"{markdown_text(claim.rival)}, {claim.measure}: {run.points(claim.gain)}, {sure}."
                )


def _missing(number: int, measured: ScaffoldingRuns) -> str:
    where = f"in {measured.folder}" if measured.folder else f"in {' or '.join(FOLDERS)}"
    how = f"didact reproduce smat --recipe recipes/smat/{RECIPES[number]}.toml --out runs/smat"
    return f"Nothing was measured {where}; {how}."
