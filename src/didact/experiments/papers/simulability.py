"""Tables of Pruthi et al. 2022, Evaluating Explanations (TACL): what was measured here beside what was published.

Tables 1, 5, 6 and 10 are pictures in the paper; of them there is only what its text says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from didact.errors import InputError, ParameterError
from didact.experiments.papers.agreement import averages
from didact.experiments.papers.cells import Cell, cells, shown
from didact.experiments.report.formatting import two_decimals
from didact.experiments.report.table import as_markdown
from didact.experiments.simulability.findings import SimulabilityFindings, find, setting_label
from didact.experiments.simulability.report import overlap_table
from didact.render.markup import markdown_table
from didact.simulation.gains import Gain, SettingAgreement, ranks_in
from didact.simulation.simulability import NONE

REFERENCE = "Pruthi et al. 2022"
FOLDERS = ("docs/results/simulability", "runs/simulability")
"""Where results are looked for when no folder is given."""

HUMAN = "human"
STUDENTS = "students.parquet"
"""Of runs of older versions, which ``find`` refuses with the command that converts them."""
CHANNELS = ("attention", "labelling", "alignment")
METRICS = 9
"""Number of the table of sufficiency and comprehensiveness."""


PrintedColumn = tuple[str, str, str, str]
"""Student or group, channel, number of training texts, and share of hints; each empty where it does not matter."""


@dataclass(frozen=True)
class PruthiTable:
    """A table as printed, or what the text says of it.

    Attributes:
        number: in the paper.
        title: what it shows, in our words.
        columns: what each column was measured with.
        rows: method or channel -> a cell per column; empty where the table is a picture.
        remark: what the paper's text says about it.
        recipe: what measures it here; empty where nothing does.
    """

    number: int
    title: str
    columns: tuple[PrintedColumn, ...] = ()
    rows: Mapping[str, tuple[Cell, ...]] | None = None
    remark: str = ""
    recipe: str = ""


def _rows(text: str) -> dict[str, tuple[Cell, ...]]:
    """Lines such as ``lime 84.3 80.3``."""
    rows = {}
    for line in text.strip().splitlines():
        name, rest = line.split(maxsplit=1)
        rows[name] = cells(rest)
    return rows


def _sizes(*sizes: int) -> tuple[PrintedColumn, ...]:
    return tuple(("", "", str(size), "") for size in sizes)


_CONFIGURATIONS = ("16 128 256 2.5e-3", "16 64 256 5e-3", "64 256 256 5e-3", "32 128 768 2.5e-3")

TABLES: Mapping[int, PruthiTable] = {
    table.number: table
    for table in (
        PruthiTable(
            1,
            "Overlap of the top 10 % tokens of different explanations",
            remark="A picture in the paper; its text says that methods disagree considerably.",
            recipe="overlap",
        ),
        PruthiTable(
            3,
            "Accuracy of students taught by people, film reviews",
            _sizes(600, 900, 1200),
            _rows("none 75.5 79.0 81.1\nlabelling 75.2 80.0 82.5\nattention 81.5 83.1 84.0"),
            "Attention regularisation gains 6.0 points with 600 examples; noise and accuracy correlate with −0.72.",
            "movies",
        ),
        PruthiTable(
            4,
            "F1 of students taught by people, questions (QED)",
            _sizes(500, 1500, 2500),
            _rows("none 28.9 43.7 49.0\nlabelling 29.7 42.7 49.2\nattention 31.2 47.2 52.6\nalignment 37.3 49.6 54.0"),
            "With 500 examples attention regularisation gains 2.3 points and attention alignment 8.4.",
            "qed",
        ),
        PruthiTable(
            5,
            "Simulation accuracy of transformer students with explanations of a film-review classifier",
            remark="A picture in the paper; its text says that attention gains 1.4 to 2.6 points, followed by "
            "integrated gradients, and that the trivial control does not gain.",
            recipe="imdb",
        ),
        PruthiTable(
            6,
            "Simulation accuracy of BiLSTM students with explanations of a film-review classifier",
            remark="A picture in the paper; its text says that attention gains up to 7 points, and that attention, "
            "integrated gradients and layer conductance are effective.",
            recipe="imdb",
        ),
        PruthiTable(
            7,
            "F1 of students taught by a question-answering model",
            _sizes(250, 1000, 4000, 16000),
            _rows("none 25.0 37.7 52.6 61.6\nattention 27.6 42.8 54.4 62.3\nalignment 32.9 46.9 55.5 62.2"),
            "Its teacher, a SpanBERT that answers and links, is not measured here.",
        ),
        PruthiTable(
            8,
            "Accuracy of four BiLSTM students with attention (batch, embedding, hidden, learning rate)",
            tuple((one, channel, "", "") for one in _CONFIGURATIONS for channel in ("labelling", "attention")),
            _rows("""
none 83.9 79.7 84.1 79.9 84.6 80.0 82.3 77.4
lime 84.3 80.3 84.9 80.8 85.0 81.0 83.4 79.4
gradient_norm 84.1 80.5 85.0 81.2 84.7 81.5 83.9 79.4
gradient_x_input 84.0 80.0 83.9 80.6 84.8 81.3 83.4 79.0
deeplift 84.0 81.2 84.6 81.7 84.9 82.1 83.5 79.0
layer_conductance 84.7 82.0 85.1 83.8 84.7 82.3 83.7 80.2
integrated_gradients 84.8 82.3 84.9 83.6 84.8 82.4 84.1 80.3
attention 84.7 82.6 85.5 81.8 85.3 82.1 83.7 80.6
"""),
            "The average rank correlation τ between the configurations is 0.95; labelling had 4,000 examples there, "
            "attention 2,000; here both have 2,000.",
            "sensitivity",
        ),
        PruthiTable(
            9,
            "Sufficiency (lower is better) and comprehensiveness",
            (("sufficiency", "", "", ""), ("comprehensiveness", "", "", "")),
            _rows("""
random 0.29 0.04
trivial 0.29 0.04
lime 0.06 0.32
gradient_norm 0.25 0.11
gradient_x_input 0.33 0.06
deeplift 0.39 0.06
layer_conductance 0.11 0.24
integrated_gradients 0.13 0.17
attention 0.11 0.28
"""),
            "Their rankings and the students' have an average τ of 0.39.",
            "overlap",
        ),
        PruthiTable(
            10,
            "Kendall's τ between rankings of different settings",
            remark="A picture in the paper; its text says: attention against labelling 0.64, between students 0.65 and "
            "0.47, over all 0.52, with sufficiency and comprehensiveness 0.39.",
            recipe="imdb",
        ),
        PruthiTable(
            11,
            "Accuracy of a transformer student given the top k %",
            tuple(
                ("", channel, "", share)
                for channel in ("attention", "labelling")
                for share in ("5 %", "10 %", "20 %", "40 %")
            ),
            _rows("""
none 92.6 92.6 92.6 92.6 92.6 92.6 92.6 92.6
lime 93.0 92.6 92.5 92.0 92.8 92.6 92.5 91.8
gradient_norm 92.8 92.4 90.6 90.6 93.1 93.1 92.9 93.0
gradient_x_input 92.5 92.2 92.6 92.8 92.4 92.7 92.5 91.3
layer_conductance 93.6 93.5 93.4 92.9 92.2 92.9 92.5 92.3
integrated_gradients 94.1 93.6 93.6 93.1 93.4 93.3 93.1 92.1
attention 94.7 95.2 95.3 94.6 94.0 94.4 94.7 94.9
"""),
            "The whole attention as a distribution gains 0.9 points more than its top 10 % with 500 examples, 0.1 with "
            "2,000.",
            "share",
        ),
    )
}


def read(folder: Path | str | None = None) -> list[SimulabilityFindings]:
    """Every run in a folder, or in the first usual one that has some."""
    places = [Path(folder)] if folder is not None else [Path(name) for name in FOLDERS]
    if folder is not None and not places[0].is_dir():
        raise InputError(f"there is no folder {folder}")
    for place in places:
        runs = [path.parent for path in sorted([*place.glob("manifest.json"), *place.glob("*/manifest.json")])]
        findings = [find(run) for run in runs if any((run / name).is_file() for name in ("records.parquet", STUDENTS))]
        if findings:
            return findings
    if folder is not None:
        raise InputError(
            f"{folder} holds no finished run: give the folder of a didact simulate or didact run, or its parent"
        )
    return []


def table(number: int, results: Sequence[SimulabilityFindings]) -> str:
    """One of the paper's tables as Markdown, measured beside published."""
    if number not in TABLES:
        raise ParameterError(f"table {number} cannot be reproduced; there are {', '.join(map(str, TABLES))}")
    printed = TABLES[number]
    runs = [run for run in results if number in run.manifest.get("tables", ())]
    lines = [f"## Table {number}: {printed.title}", ""]
    if printed.rows is not None:
        lines += [_beside(printed, runs), ""]
    for run in runs:
        lines += _measured_alone(number, run)
    lines += [f"Paper ({REFERENCE}): {printed.remark}"] if printed.remark else []
    lines += ["", _measured_with(printed, runs)]
    return "\n".join(lines) + "\n"


def everything(results: Sequence[SimulabilityFindings]) -> str:
    """All tables."""
    return "\n".join(table(number, results) for number in TABLES)


def _beside(printed: PruthiTable, runs: Sequence[SimulabilityFindings]) -> str:
    heads = [
        f"{' '.join(part for part in column if part)}: {side}"
        for column in printed.columns
        for side in ("paper", "here")
    ]
    published = printed.rows or {}
    nothing = (None,) * len(printed.columns)
    rows = [
        [
            name,
            *(
                text
                for column, cell in zip(printed.columns, published.get(name, nothing), strict=True)
                for text in (shown(cell), _measured(printed, runs, name, column))
            ),
        ]
        for name in dict.fromkeys([*published, *_further(printed, runs)])
    ]
    return markdown_table(["", *heads], rows, "lr")


def _further(printed: PruthiTable, runs: Sequence[SimulabilityFindings]) -> list[str]:
    """What metrics graded here and the paper's table of metrics does not have."""
    if printed.number != METRICS:
        return []
    known = [given["values"] for run in runs for given in run.extras.get("metrics", {}).values()]
    return [name for values in known for name in values]


def _measured(
    printed: PruthiTable, runs: Sequence[SimulabilityFindings], row: str, column: tuple[str, str, str, str]
) -> str:
    """The measured mean of a cell with half of its interval, and its gain where there is one."""
    if printed.number == METRICS:
        values = [run.extras.get("metrics", {}).get(column[0], {}).get("values", {}).get(row) for run in runs]
        known = [value for value in values if value is not None]
        return f"**{known[0]:.2f}**" if known else "–"
    student, channel, size, share = column
    by_channel = row in CHANNELS and printed.number in (3, 4, 7)
    method = HUMAN if by_channel else row
    labels = {method} if method == NONE or not share else {f"{method}, {share}", method}
    for run in runs:
        kinds = {label: given.get("channel") for label, given in run.manifest.get("channels", {}).items()}
        for one in run.verdict.gains:
            wanted = (row if by_channel else channel) in ("", one.channel, kinds.get(one.channel))
            if one.method in labels and wanted and student in ("", one.student) and size in ("", str(one.size)):
                return _cell(run, one)
    return "–"


def _cell(run: SimulabilityFindings, one: Gain) -> str:
    if not math.isfinite(one.score):
        return "–"
    if one.method == NONE:
        return f"**{run.number(one.score)}**"
    return f"**{run.number(one.score)}** ({run.points(one)}{' *' if one.helps else ''})"


def _measured_alone(number: int, run: SimulabilityFindings) -> list[str]:
    """What was measured for tables that are pictures in the paper."""
    if number == 1:
        return [as_markdown(overlap_table(run, f"here: {run.name}"), str), ""]
    if number == 10:
        rows = [
            [setting_label(pair.first), setting_label(pair.second), _with_interval(pair)]
            for pair in run.verdict.agreements
        ]
        rows += [[row.metric, row.setting, two_decimals(row.tau)] for row in run.metrics]
        means = [
            [one.title, f"{one.published:.2f}", f"**{two_decimals(one.mean)}** ({one.pairs})"] for one in averages(run)
        ]
        return [
            markdown_table(["mean τ (pairs of settings)", "paper", f"here: {run.name}"], means, "lr"),
            "",
            markdown_table(["setting", "and setting", f"τ here: {run.name}"], rows),
            "",
        ]
    if number in (5, 6):
        return _of_students(number, run)
    if number == 3 and run.noise:
        return [f"- here: {line}" for line in run.sentences if "correlation of noise" in line] + [""]
    return []


def _of_students(number: int, run: SimulabilityFindings) -> list[str]:
    """Every method in every setting of the table's kind of students, and the average rank."""
    kinds = {label: given.get("student") for label, given in run.manifest.get("students", {}).items()}
    wanted = ("transformer",) if number == 5 else ("bilstm", "bilstm_attention")
    settings = [one for one in run.verdict.settings if kinds.get(one.student) in wanted]
    if not settings:
        return []
    methods = [NONE, *run.simulation.methods]
    ranks = ranks_in(run.verdict.gains, settings, run.verdict.metric)
    rows = []
    for method in methods:
        by_setting = {one.setting: one for one in run.verdict.gains if one.method == method}
        rank = ranks.get(method, math.nan)
        cells_ = [_cell(run, by_setting[s]) if s in by_setting else "–" for s in settings]
        name = f"{method} (control)" if method in run.simulation.controls else method
        rows.append([name, *cells_, f"{rank:.2f}" if math.isfinite(rank) else "–"])
    return [markdown_table([f"here: {run.name}", *map(setting_label, settings), "average rank"], rows), ""]


def _with_interval(pair: SettingAgreement) -> str:
    return f"{two_decimals(pair.tau)} [{two_decimals(pair.low)}, {two_decimals(pair.high)}]"


def _measured_with(printed: PruthiTable, runs: Sequence[SimulabilityFindings]) -> str:
    if runs:
        what = "; ".join(
            f"{run.name}: {run.manifest.get('teacher', {}).get('name')}, {run.manifest.get('data', {}).get('name')}"
            for run in runs
        )
        return (
            f"Here ({what}): score, in brackets the gain over none with its 95 % interval; * significant (Holm over "
            "all comparisons of the run). Models, texts and students are not the paper's: compare rows, not numbers."
        )
    if printed.recipe:
        name = printed.recipe
        return f"Not measured yet: didact run recipes/simulability/{name}.toml --out runs/simulability/{name}"
    return "Not measured here."
