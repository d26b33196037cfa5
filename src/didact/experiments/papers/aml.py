"""Tables of the AML paper: what was measured here beside what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from didact.errors import ParameterError
from didact.experiments.distillation.summary import spread
from didact.experiments.masking.findings import MaskingFindings
from didact.experiments.masking.recipe import RANDOM, trained_label
from didact.experiments.papers.aml_published import (
    ABLATION,
    FAITHFULNESS,
    HUMAN,
    METRICS,
    MODELS,
    REFERENCE,
    RUNTIME,
)
from didact.experiments.papers.runs import finished_runs
from didact.render.markup import markdown_table, markdown_text

FOLDERS = ("docs/results/aml", "runs/aml")
"""Where results are looked for when no folder is given."""

TITLES = {
    1: "Faithfulness, encoders",
    2: "Faithfulness, prompted language models",
    3: "Agreement with the rationales of film reviews: F1 of the top 25 tokens",
    4: "Without a term of the loss",
    5: "Time per text",
}
_STAGES = ("faml", "paml")
_NAMES = {"sst2": "SST-2", "rotten_tomatoes": "Rotten Tomatoes", "imdb": "IMDB", "emotion": "Emotion"}
_F1 = "rationale_f1"


@dataclass(frozen=True, eq=False)
class Measured:
    """Runs of a folder by their names, which are those of data sets in Tables 1 and 2.

    Attributes:
        folder: where they were read from; None where there are none.
        runs: name -> what the run shows.
    """

    folder: Path | None
    runs: Mapping[str, MaskingFindings] = field(default_factory=dict)

    def filling(self, table: int) -> dict[str, MaskingFindings]:
        """The runs that say that they fill a table."""
        return {name: run for name, run in self.runs.items() if table in run.recipe.tables}


def read(folder: Path | str | None = None) -> Measured:
    """Runs in a folder, or in the first usual one that has some."""
    place, finished = finished_runs(folder, FOLDERS, "masking")
    runs = [MaskingFindings.read(run) for run in finished]
    return Measured(place, {run.name: run for run in runs})


def table(number: int, measured: Measured) -> str:
    """One of the paper's tables as Markdown, measured beside published."""
    if number not in TITLES:
        raise ParameterError(f"table {number} cannot be reproduced; there are {', '.join(map(str, TITLES))}")
    writers = {1: _faithfulness, 2: _faithfulness, 3: _human, 4: _ablation, 5: _runtime}
    body = writers[number](number, measured)
    return "\n".join([f"## Table {number}: {TITLES[number]}", "", *body, *_notes(number, measured)]).rstrip() + "\n"


def everything(measured: Measured) -> str:
    """All tables."""
    return "\n".join(table(number, measured) for number in TITLES)


def _faithfulness(number: int, measured: Measured) -> Iterator[str]:
    """A table per data set: printed numbers of all models in one cell, what was measured in the next."""
    printed, here = FAITHFULNESS[number], measured.filling(number)
    for data in dict.fromkeys([*printed, *(_data(name) for name in here)]):
        run = next((one for name, one in here.items() if _data(name) == data), None)
        rows = printed.get(data, {})
        heads = [f"{head}: {side}" for head in METRICS.values() for side in ("paper", "here")]
        labels = dict.fromkeys([*rows, *([] if run is None else run.rows)])
        lines = [[markdown_text(label), *_pairs(label, rows.get(label, {}), run)] for label in labels]
        yield f"### {_NAMES.get(data, data)}"
        yield ""
        yield markdown_table(["explainer", *heads], lines, "lr")
        yield ""
        if run is None:
            yield _missing(data, number, measured)
            yield ""


def _pairs(label: str, printed: Mapping[str, Sequence[float]], run: MaskingFindings | None) -> Iterator[str]:
    for metric in METRICS:
        yield " / ".join(f"{value:.3f}" for value in printed[metric]) if metric in printed else "–"
        values = None if run is None or label not in run.rows else run.values(label, metric)
        yield "–" if values is None else _mean(*spread(values)[:2])


def _human(number: int, measured: Measured) -> Iterator[str]:
    """Macro and micro F1; explainers are those trained for A-C, as in the paper."""
    run = next(iter(measured.filling(number).values()), None)
    labels = list(HUMAN) if run is None else dict.fromkeys([*HUMAN, *(one.label for one in run.recipe.rivals), RANDOM])
    rows = []
    for label in labels:
        own = trained_label(label, "aopc_comp") if label in _STAGES else label
        macro = "–" if run is None else _mean(*run.mean(own, _F1))
        micro = "–" if run is None else _mean(run.micro(own, _F1))
        published = [f"{value:.3f}" for value in HUMAN[label]] if label in HUMAN else ["–", "–"]
        rows.append([markdown_text(label), published[0], macro, published[1], micro])
    heads = ("explainer", "macro F1: paper", "macro F1: here", "micro F1: paper", "micro F1: here")
    yield markdown_table(heads, rows, "lr")
    yield ""
    if run is None:
        yield _missing("movies", number, measured)
        yield ""


def _ablation(number: int, measured: Measured) -> Iterator[str]:
    """Suff and Comp of explainers that were trained without a term; the paper's are of DistilBERT on Emotion."""
    runs, heads = measured.filling(number), ["explainer"]
    rows = {label: [label] for label in ABLATION}
    for place, (metric, title) in enumerate((("suff", "Suff ↓"), ("comp", "Comp ↑"))):
        own = {name: run for name, run in runs.items() if metric in run.recipe.ablated}
        heads += [f"{title}: paper", *(f"{title}: {name} here" for name in own)]
        for label, row in rows.items():
            stage, _, without = label.partition(" without ")
            found = [run.mean(trained_label(stage, metric, without), metric) for run in own.values()]
            row += [f"{ABLATION[label][place]:.2f}", *(_mean(*one) for one in found)]
    yield markdown_table(heads, list(rows.values()), "lr")
    yield ""
    if not runs:
        yield _missing("sst2", number, measured)
        yield ""


def _runtime(number: int, measured: Measured) -> Iterator[str]:
    """Seconds per text, one at a time as in the paper, and together with others."""
    runs = {name: run for name, run in measured.filling(number).items() if run.summary.get("speed")}
    timed = dict.fromkeys(label for run in runs.values() for label in run.summary["speed"]["explainers"])
    rows = []
    for label in dict.fromkeys([*RUNTIME, *timed]):
        own = [run.summary["speed"]["explainers"].get(label) for run in runs.values()]
        cells = [text for row in own for text in _times(row)]
        rows.append([markdown_text(label), *RUNTIME.get(label, ("–", "–")), *cells])
    here = [f"{name} here, {how}" for name in runs for how in ("one text alone", "many together")]
    yield markdown_table(("explainer", "SST-2: paper", "IMDB: paper", *here), rows, "lr")
    yield ""
    for name, run in runs.items():
        yield f"{name}: {run.summary['speed']['device']}, {run.summary['speed']['texts']} texts."
        yield ""
    if not runs:
        yield _missing("sst2", number, measured)
        yield ""


def _times(row: Mapping[str, float] | None) -> tuple[str, str]:
    return ("–", "–") if row is None else (f"**{row['seconds alone']:.3g} s**", f"**{row['seconds']:.3g} s**")


def _mean(mean: float, half: float = float("nan")) -> str:
    if mean != mean:
        return "–"
    return f"**{mean:.3f} ± {half:.3f}**" if half == half else f"**{mean:.3f}**"


def _data(name: str) -> str:
    """The data set of a run: its name up to a hyphen, as in sst2-smollm2."""
    return name.partition("-")[0]


def _notes(number: int, measured: Measured) -> Iterator[str]:
    models = f" ({', '.join(MODELS[number])})" if number in MODELS else ""
    yield (
        f"Paper: {REFERENCE}{models}. Here: mean ± 1.96 standard errors over texts. Models, texts and weights are not "
        "the paper's: compare rows, not numbers. faml keeps, for each text, the map that the reported metric rates "
        "best on that text; so does a selection."
    )
    for name, run in measured.filling(number).items():
        texts = run.summary["texts"]
        yield ""
        yield (
            f"{name}: {run.summary['study']['model']}; {texts['train']:,} training, {texts['validation']:,} validation "
            f"and {texts['test']:,} test texts."
        )


def _missing(data: str, number: int, measured: Measured) -> str:
    where = f"in {measured.folder}" if measured.folder else f"in {' or '.join(FOLDERS)}"
    name = f"{data}-smollm2" if number == 2 else data
    how = f"didact reproduce aml --recipe recipes/aml/{name}.toml --out runs/aml"
    return f"{_NAMES.get(data, data)}: nothing was measured {where}; {how}."
