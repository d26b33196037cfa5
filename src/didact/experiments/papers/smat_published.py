"""Numbers of Fernandes et al. 2022, Learning to Scaffold: Optimizing Model Explanations for Teaching, as printed.

Simulability is the median of five students with the 25th and 75th percentile in brackets: accuracy in percent (Tables 1
and 3), Pearson's correlation (Tables 5 and 7; the caption of Table 7 says accuracy). Plausibility is the area under the
ROC curve (Tables 2 and 6). Table 4 is a study with people. Figure 5, the weights of the heads, is a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REFERENCE = "Fernandes et al. 2022"

EXPLAINERS: Mapping[str, str] = {
    "No Explainer": "none",
    "Gradient L2": "gradient_norm",
    "Gradient × Input": "gradient_x_input",
    "Integrated Gradients": "integrated_gradients",
    "Attention (all layers)": "attention_all_layers",
    "Attention (last layer)": "attention_last_layer",
    "Attention (SMaT)": "smat",
    "Attention (best layer)*": "best layer",
    "Attention (best head)*": "best head",
}
"""Name in the tables -> label here."""


@dataclass(frozen=True)
class Spread:
    """Median of the students, with the 25th and the 75th percentile."""

    median: float
    low: float
    high: float


SimulabilityRows = Mapping[str, Mapping[str, Spread]]
"""Explainer -> column -> its spread."""


def _spreads(columns: tuple[str, ...], text: str) -> SimulabilityRows:
    """Lines such as ``none 81.72 [81.24:81.75] 83.44 [83.36:83.63]``."""
    table: dict[str, dict[str, Spread]] = {}
    for line in text.strip().splitlines():
        label, *words = line.split()
        if len(words) != 2 * len(columns):
            raise ValueError(f"{len(words)} numbers and intervals in the line of {label}, for {len(columns)} columns")
        table[label] = {}
        for column, median, ends in zip(columns, words[::2], words[1::2], strict=True):
            low, high = ends.strip("[]").split(":")
            table[label][column] = Spread(float(median), float(low), float(high))
    return table


SIMULABILITY: Mapping[int, SimulabilityRows] = {
    1: _spreads(
        ("500", "1000", "2000"),
        """
none 81.72 [81.24:81.75] 83.44 [83.36:83.63] 84.84 [84.80:84.88]
gradient_norm 81.66 [81.32:82.00] 82.98 [82.72:83.08] 84.78 [84.96:85.08]
gradient_x_input 84.83 [84.79:84.88] 81.15 [80.95:81.36] 83.84 [83.59:84.99]
integrated_gradients 82.99 [82.59:82.99] 81.79 [81.72:81.87] 84.20 [84.03:85.03]
attention_all_layers 83.00 [82.60:83.00] 85.72 [85.72:86.23] 90.08 [89.72:90.11]
attention_last_layer 80.91 [79.99:81.07] 83.15 [82.91:83.51] 91.47 [91.39:91.56]
smat 91.48 [91.40:91.56] 92.56 [92.28:92.83] 92.84 [92.84:93.08]
""",
    ),
    3: _spreads(
        ("2250", "4500", "9000"),
        """
none 81.16 [80.98:81.26] 84.02 [83.98:84.24] 85.20 [85.17:85.26]
gradient_norm 80.97 [80.91:81.10] 83.98 [83.81:84.23] 85.13 [84.97:85.50]
gradient_x_input 80.93 [80.82:81.04] 83.99 [83.98:84.13] 85.33 [84.85:85.35]
integrated_gradients 80.22 [80.17:80.35] 83.44 [83.25:83.44] 84.99 [84.76:85.22]
attention_all_layers 82.53 [82.53:82.62] 84.81 [84.74:84.92] 85.92 [85.78:85.94]
attention_last_layer 82.34 [82.30:82.60] 84.65 [84.56:84.81] 85.31 [84.84:85.31]
smat 83.09 [82.77:83.28] 85.42 [85.39:85.85] 85.96 [85.74:86.35]
""",
    ),
    5: _spreads(
        ("2100", "4200", "8400"),
        """
none .7457 [.7366:.7528] .7719 [.7660:.7802] .7891 [.7860:.7964]
gradient_norm .8065 [.8038:.8268] .8535 [.7117:.8544] .8638 [.8411:.8657]
gradient_x_input .6846 [.6781:.6894] .6922 [.6885:.6965] .7141 [.7136:.7147]
integrated_gradients .6686 [.6677:.6694] .7086 [.6994:.7101] .7036 [.6976:.7037]
attention_all_layers .8120 [.7955:.8125] .8193 [.8186:.8280] .8467 [.8464:.8521]
attention_last_layer .7486 [.7484:.7534] .7720 [.7672:.7726] .7798 [.7717:.7814]
smat .8156 [.8096:.8183] .8630 [.8412:.8724] .8561 [.8512:.8689]
""",
    ),
    7: _spreads(
        ("sparsemax", "softmax", "entmax15", "none"),
        """
none .7719 [.7660:.7802] .7719 [.7660:.7802] .7719 [.7660:.7802] .7719 [.7660:.7802]
attention_all_layers .8193 [.8186:.8280] .7345 [.7335:.7390] .7152 [.7111:.7161] .7781 [.7762:.7791]
attention_last_layer .7720 [.7672:.7726] .7697 [.7659:.7715] .7807 [.7652:.7821] .7768 [.7764:.7807]
smat .8630 [.8412:.8724] .7439 [.7430:.7484] .7163 [.7130:.7239] .8002 [.7919:.8100]
""",
    ),
}
"""Table -> explainer -> number of training texts (Table 7: normaliser of the heads) -> spread."""

_PAIRS = ("en-de", "en-zh", "et-en", "ne-en", "ro-en", "ru-en", "overall")


def _areas(text: str) -> dict[str, dict[str, tuple[float, ...]]]:
    """Lines such as ``smat 0.64 0.65 ...``: source and translation of every pair of languages."""
    table: dict[str, dict[str, tuple[float, ...]]] = {}
    for line in text.strip().splitlines():
        label, *words = line.replace("best ", "best_").split()
        if len(words) != 2 * len(_PAIRS):
            raise ValueError(f"{len(words)} numbers in the line of {label}, for {len(_PAIRS)} pairs of languages")
        numbers = [float(word) for word in words]
        table[label.replace("best_", "best ")] = dict(
            zip(_PAIRS, zip(numbers[::2], numbers[1::2], strict=True), strict=True)
        )
    return table


PLAUSIBILITY: Mapping[int, Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    2: {
        "gradient_norm": {"movies": (0.65,)},
        "gradient_x_input": {"movies": (0.51,)},
        "integrated_gradients": {"movies": (0.53,)},
        "attention_all_layers": {"movies": (0.68,)},
        "attention_last_layer": {"movies": (0.61,)},
        "smat": {"movies": (0.73,)},
        "best layer": {"movies": (0.75,)},
        "best head": {"movies": (0.75,)},
    },
    6: _areas(
        """
gradient_norm 0.64 0.65 0.65 0.49 0.67 0.61 0.68 0.55 0.72 0.68 0.65 0.54 0.67 0.59
gradient_x_input 0.58 0.60 0.61 0.51 0.60 0.54 0.61 0.49 0.64 0.59 0.58 0.51 0.61 0.54
integrated_gradients 0.59 0.60 0.63 0.49 0.60 0.52 0.64 0.48 0.64 0.59 0.60 0.51 0.62 0.53
attention_all_layers 0.60 0.63 0.68 0.52 0.60 0.61 0.58 0.55 0.66 0.70 0.62 0.55 0.62 0.59
attention_last_layer 0.51 0.49 0.61 0.49 0.51 0.50 0.55 0.48 0.52 0.57 0.56 0.50 0.54 0.50
smat 0.64 0.65 0.68 0.52 0.66 0.64 0.66 0.54 0.71 0.70 0.61 0.54 0.66 0.60
best layer 0.64 0.65 0.69 0.64 0.64 0.68 0.68 0.68 0.71 0.76 0.64 0.59 0.65 0.65
best head 0.67 0.67 0.70 0.65 0.70 0.70 0.70 0.69 0.73 0.75 0.67 0.60 0.67 0.66
"""
    ),
}
"""Table -> explainer or oracle -> data -> area under the ROC curve of every side."""
