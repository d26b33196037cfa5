"""Numbers of Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast (ACL), as printed.

Rows are references, slow explainers: "A" is the reference itself, "L2E" what learnt from it. A cell is a mean, or a
mean and half of its 95 % interval; None where the paper leaves it empty. Figures 3 to 6 are charts without numbers;
what the text says of them is in ``SPEED``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from didact.experiments.papers.cells import Cell
from didact.experiments.papers.cells import cells as printed_cells

REFERENCE = "Situ et al. 2021"

Rows = Mapping[str, Mapping[str, tuple[Cell, ...]]]


@dataclass(frozen=True)
class L2ETable:
    """A table as printed.

    Attributes:
        number: in the paper.
        title: what it shows, in our words.
        columns: (formulation or group, data set or measure), in the printed order.
        rows: reference ("random" and "human" too) -> who ("A", "L2E", "Both") -> a cell per column.
        unit: what the numbers are.
    """

    number: int
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: Rows
    unit: str = ""


def _rows(text: str) -> dict[str, dict[str, tuple[Cell, ...]]]:
    """Lines such as ``lime A 1 2 3``, by reference and who."""
    rows: dict[str, dict[str, tuple[Cell, ...]]] = {}
    for line in text.strip().splitlines():
        reference, who, rest = line.split(maxsplit=2)
        rows.setdefault(reference, {})[who] = printed_cells(rest)
    return rows


_SIX = tuple((signal, data) for signal in ("ranking", "labelling") for data in ("ag_news", "sst2", "cola"))
_THREE = tuple(("labelling", data) for data in ("ag_news", "sst2", "cola"))
_RANKED = tuple(("ranking", data) for data in ("ag_news", "sst2", "cola"))

TABLES: Mapping[int, L2ETable] = {
    table.number: table
    for table in (
        L2ETable(
            1,
            "Agreement: the label predicted from the selected words alone is that of the whole text",
            _SIX,
            _rows("""
random A 60 37 65 43.6 45.8 70
occlusion A 94 88 67 81 89 76
occlusion L2E 89 83 65 84 90 80
occlusion Both 89 85 98 82 85 94
gradient A 89 73 65 87 71 68
gradient L2E 91 66 65 94 70 70
gradient Both 85 73 100 89 77 92
lrp A 97 95 67 85 83 62
lrp L2E 90 83 67 86 85 52
lrp Both 93 84 100 90 83 90
lime A 100 86 67 99 84 71
lime L2E 96 81 65 98 82 80
lime Both 96 81 98 97 80 89
kernel_shap A 79 34 63 70 23 72
kernel_shap L2E 89 70 63 90 70 72
kernel_shap Both 80 58 100 74 51 100
deep_shap A 82 68 65 81 70 59
deep_shap L2E 77 70 65 82 73 59
deep_shap Both 76 64 100 78 69 100
"""),
            "%",
        ),
        L2ETable(
            2,
            "Fall of the log-odds when the positive words are masked; higher is better",
            _THREE,
            _rows("""
random A 0.57±0.11 1.93±0.17 1.92±0.1
occlusion A 3.69±1.2 5.04±1.55 -
occlusion L2E 6.82±1.06 4.79±1.16 -
gradient A 2.69±1.2 5.29±0.83 1.87±0.24
gradient L2E 6.59±1.31 6.47±0.74 1.8±0.24
lrp A 1.87±0.67 4.48±0.89 1.18±0.46
lrp L2E 2.09±0.7 3.68±0.86 0.92±0.37
lime A 11.06±0.86 5.7±1.51 1.41±0.44
lime L2E 11.31±0.53 5.26±0.91 1.41±0.44
kernel_shap A 4.33±1.21 0.22±0.37 1.96±0.28
kernel_shap L2E 3.24±0.92 2.81±0.65 1.97±0.24
deep_shap A 1.16±0.54 4.82±2.65 1.22±0.58
deep_shap L2E 2.25±0.72 7.61±1.86 1.02±0.48
"""),
        ),
        L2ETable(
            3,
            "Overlap (IoU) of important words with semantically similar texts; higher is more stable",
            _SIX,
            _rows("""
random A 6.19±0.38 3.74±0.39 9.29±0.9 11.0±0.6 6.75±0.36 19.25±1.45
occlusion A 7.18±1.35 4.58±1.19 15.59±3.88 10.82±1.34 7.04±0.87 23.67±3.76
occlusion L2E 8.96±1.67 8.52±1.48 21.26±3.72 13.94±1.49 8.38±0.75 26.47±3.84
gradient A 7.17±1.17 3.87±0.97 8.63±1.89 9.02±1.06 6.33±0.74 10.4±1.84
gradient L2E 10.36±1.77 7.41±1.2 20.75±4.11 14.38±1.42 7.27±0.67 22.09±3.61
lrp A 10.2±1.74 1.13±0.46 10.92±2.25 13.84±1.45 6.28±0.79 22.53±3.37
lrp L2E 11.2±1.95 7.75±1.22 19.45±3.8 14.67±1.48 7.45±0.79 26.45±3.84
lime A 8.24±1.3 3.01±0.87 13.96±2.96 8.61±1.11 6.92±0.86 17.48±3.49
lime L2E 12.44±1.94 5.01±0.88 16.78±3.82 13.89±1.47 8.24±0.73 25.35±3.82
kernel_shap A 7.47±1.52 2.49±0.72 19.12±3.91 5.75±1.2 1.47±0.52 22.39±4.8
kernel_shap L2E 12.84±1.97 2.82±0.83 18.78±3.96 9.15±1.63 1.73±0.53 21.82±4.7
deep_shap A 6.68±1.08 2.87±0.71 16.8±4.18 7.22±1.02 6.66±0.88 13.05±3.23
deep_shap L2E 8.67±1.3 1.43±0.68 20.82±3.71 10.05±1.38 8.41±0.81 21.88±3.89
"""),
            "%",
        ),
        L2ETable(
            4,
            "Precision, recall and F1 against human rationales of film reviews",
            tuple((group, name) for group in ("positive", "negative") for name in ("precision", "recall", "F1")),
            _rows("""
occlusion A 9 42 14 12 41 16
occlusion L2E 10 92 18 12 82 19
gradient A 9 21 12 13 26 15
gradient L2E 11 49 17 15 47 18
lrp A 7 5 5 12 18 14
lrp L2E 12 12 11 12 28 16
lime A 12 39 17 15 42 21
lime L2E 11 45 17 13 49 20
kernel_shap A 11 2 3 11 2 3
kernel_shap L2E 10 2 2 14 2 3
deep_shap A 9 22 12 12 28 16
deep_shap L2E 11 50 17 13 54 20
"""),
            "%",
        ),
        L2ETable(
            5,
            "Overlap (IoU) of important words with lexically similar film reviews",
            (("IoU", "all words"), ("IoU", "annotated words"), ("IoU", "without stop words")),
            _rows("""
human A 5.83±0.27 5.83±0.27 3.06±0.27
occlusion A 4.53±0.38 5.8±0.28 2.46±0.19
occlusion L2E 4.57±0.38 5.86±0.27 2.48±0.19
gradient A 4.06±0.25 3.64±0.31 1.65±0.15
gradient L2E 4.41±0.33 4.7±0.34 2.33±0.19
lrp A 1.89±0.15 1.08±0.27 1.7±0.13
lrp L2E 4.01±0.24 5.66±0.43 2.45±0.17
lime A 1.36±0.08 1.05±0.16 0.93±0.07
lime L2E 2.19±0.17 1.93±0.25 1.97±0.15
kernel_shap A 0.03±0.04 0.06±0.09 0.03±0.04
kernel_shap L2E 0.45±0.17 0.69±0.59 0.45±0.17
deep_shap A 4.29±0.18 3.33±0.29 1.61±0.13
deep_shap L2E 4.39±0.25 4.02±0.3 2.37±0.17
"""),
            "%",
        ),
        L2ETable(
            7,
            "Overlap (IoU) of important words with lexically similar texts; higher is more stable",
            _SIX,
            _rows("""
random A 7.36±0.34 6.34±0.54 11.94±0.92 13.11±0.57 13.1±0.51 23.35±1.45
occlusion A 7.5±1.23 8.15±1.35 16.83±3.37 12.36±1.26 13.5±1.19 28.78±3.51
occlusion L2E 10.51±1.63 14.11±1.86 23.37±3.71 16.8±1.26 15.56±0.89 31.78±3.56
gradient A 7.05±1.11 5.14±1.05 11.95±2.33 10.32±0.96 11.5±0.87 13.36±1.95
gradient L2E 11.92±1.79 13.8±1.7 22.52±3.81 17.35±1.16 13.77±0.8 25.77±3.38
lrp A 10.34±1.64 2.67±0.58 12.37±2.27 16.33±1.23 12.76±0.84 26.69±3.16
lrp L2E 11.87±1.92 12.52±1.61 21.87±3.85 17.6±1.21 14.84±0.73 31.8±3.55
lime A 8.65±1.22 6.42±1.17 16.8±3.19 9.83±0.97 13.92±1.13 20.56±3.38
lime L2E 13.89±2.02 11.23±1.61 18.9±3.85 16.71±1.25 16.24±0.74 30.48±3.53
kernel_shap A 8.85±1.44 5.74±1.31 22.17±4.02 6.96±1.13 4.8±1.0 25.9±4.78
kernel_shap L2E 14.59±1.77 8.79±1.52 21.92±4.03 10.79±1.39 5.67±1.01 25.12±4.69
deep_shap A 7.2±1.05 5.31±1.13 19.74±3.91 8.35±0.89 11.88±1.04 14.38±3.38
deep_shap L2E 10.98±1.27 4.93±1.14 23.77±3.62 12.53±1.16 16.24±0.71 25.38±3.65
"""),
            "%",
        ),
        L2ETable(
            8,
            "Fall of the log-odds when the negative words are masked; lower is better",
            _THREE,
            _rows("""
random A 0.57±0.11 1.93±0.17 1.92±0.1
occlusion A -0.69±0.36 1.47±1.1 -
occlusion L2E -0.39±0.4 1.57±1.15 -
gradient A 0.12±0.21 0.99±0.55 1.53±0.36
gradient L2E 0.05±0.29 0.87±0.41 1.48±0.33
lime A -0.4±0.26 1.51±1.24 1.05±0.71
lime L2E -0.41±0.27 1.03±0.95 1.04±0.76
kernel_shap A 1.57±0.7 3.78±0.91 -
kernel_shap L2E 0.46±0.33 1.8±0.76 -
deep_shap A 0.83±0.44 0.37±0.52 1.67±0.29
deep_shap L2E 1.19±0.6 0.5±0.78 1.93±0.22
"""),
        ),
        L2ETable(
            9,
            "Fall of the log-odds when the top 30 % of the words are masked; higher is better",
            _RANKED,
            _rows("""
random A 0.57±0.11 1.93±0.17 1.92±0.1
occlusion A 3.03±0.79 4.84±0.86 1.87±0.23
occlusion L2E 1.78±0.67 3.08±0.75 1.9±0.23
gradient A 1.13±0.56 2.17±0.66 1.95±0.22
gradient L2E 0.91±0.54 1.74±0.56 1.88±0.23
lrp A 2.89±0.78 4.41±0.86 1.93±0.22
lrp L2E 2.43±0.65 2.64±0.68 1.87±0.23
lime A 6.96±1.02 5.01±0.89 1.86±0.22
lime L2E 5.03±0.95 2.93±0.62 1.89±0.23
kernel_shap A 4.51±1.19 0.2±0.32 1.97±0.23
kernel_shap L2E 1.8±0.77 2.25±0.67 2.03±0.23
deep_shap A 0.22±0.29 2.74±0.68 1.92±0.23
deep_shap L2E 0.57±0.33 2.98±0.77 1.85±0.23
"""),
        ),
    )
}

SIZES: Mapping[str, tuple[int, int, int, int]] = {
    "ag_news": (108_000, 12_000, 7_600, 38),
    "sst2": (6_920, 872, 1_821, 17),
    "cola": (8_551, 527, 516, 8),
    "movie_rationales": (2_864, 320, 200, 666),
}
"""Table 6: data set -> texts of train, validation and test, and words of a text."""

FIGURES: Mapping[int, str] = {3: "movie_rationales", 4: "ag_news", 5: "sst2", 6: "cola"}
"""Figure -> the data set whose inference times it shows."""

SPEED = (
    "The paper prints charts without numbers and says: L2E is 5 times faster than Gradient and 10 times faster than "
    "LRP on all data sets, and 5 to 75,000 times faster than the six references."
)
