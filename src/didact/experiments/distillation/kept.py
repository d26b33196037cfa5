"""What networks keep of their references, and their stability beyond chance, as tables of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from didact.experiments.distillation.recipe import READINGS, SIGNALS, learned_label
from didact.experiments.distillation.summary import Grades
from didact.experiments.engine.toml import Options, Plain
from didact.render.markup import markdown_table, markdown_text
from didact.stats.means import mean_tests

KEPT: Mapping[str, str] = {
    "log_odds_difference": "Δlog-odds, top 30 %",
    "comprehensiveness": "comprehensiveness",
    "sufficiency": "sufficiency ↓",
    "deletion_area": "deletion area ↓",
    "insertion_area": "insertion area",
    "prediction_agreement": "agreement, top 30 %",
    "log_odds_against": "Δlog-odds, lowest 30 %",
}
STABLE: Mapping[str, str] = {
    "iou_lexical_labels_gain": "lexical, labels",
    "iou_semantic_labels_gain": "semantic, labels",
    "iou_lexical_top_gain": "lexical, top 30 %",
    "iou_semantic_top_gain": "semantic, top 30 %",
}
KEPT_NOTE = (
    "learned / reference (random scores) = kept: (learned - random) / (reference - random), so that 1 is as good as "
    "the reference and 0 is chance, for every metric. The reference's scores are taken as given. *: the means of "
    "learned and reference differ significantly, tested over all metrics and networks of the study together. Means are "
    "over all test texts on which a metric is defined; (n): how many these are, where some are left out."
)
STABLE_NOTE = (
    "IoU with similar texts less that of the same scores shuffled over their texts: learned / reference. ⁺: the "
    "learned explainer's is significantly above 0, chance (tested over this table together); *: it differs "
    "significantly from the reference's; (n): texts with similar ones, where some have none."
)
READS = {"tokens": "", "words": ", reads words", "model": ", copy of the model", "states": ", reads states"}
"""How a network is named by what it reads."""


def kept_table(summary: Options) -> str:
    """Every network beside its reference, scores as given, by the metrics of faithfulness; empty without any."""
    return _table(summary, KEPT, _kept)


def stable_table(summary: Options) -> str:
    """Every network's stability beyond chance beside its reference's; empty where it was not measured."""
    return _table(summary, STABLE, _stable)


def kept_share(own: float, theirs: float, chance: float) -> float:
    """Share of what a reference gains over random scores; NaN where it gains nothing."""
    return (own - chance) / (theirs - chance) if theirs != chance else math.nan


def kept_cell(own: float, theirs: float, chance: float) -> str:
    """The three means and what is kept."""
    share = kept_share(own, theirs, chance)
    return f"{own:.3g} / {theirs:.3g} ({chance:.3g}) = {f'{share:.2f}' if math.isfinite(share) else '–'}"


def above_chance(grades: Grades) -> list[Plain]:
    """Means of the gains of every explainer that has some, and whether each is significantly above 0."""
    rows = [(metric, who, values) for metric in STABLE for who, values in grades.get(metric, {}).items()]
    if not rows:
        return []
    texts = max(len(values) for *_, values in rows)
    padded = [np.pad(values, (0, texts - len(values)), constant_values=np.nan) for *_, values in rows]
    tests = mean_tests(np.stack(padded))
    above = tests.significant & (tests.difference > 0)
    return [
        {"metric": metric, "explainer": who, "mean": float(f"{mean:.6g}"), "n": int(n), "above": bool(sure)}
        for (metric, who, _), mean, n, sure in zip(rows, tests.difference, tests.n, above, strict=True)
    ]


def networks_of(summary: Options) -> Iterator[tuple[str, str, str]]:
    """Title, name in the records and reference of every network of a study, in the order of its recipe.

    A network has a row for each reference that none learns from alone, too.
    """
    compared = {(row["learned"], row["reference"]) for row in summary["versus"]}
    labels = learnable(summary["study"])
    for reference, signal, reading in product(labels, SIGNALS, READINGS):
        learned = learned_label(reading, signal, reference)
        title = f"{reference}, {signal.replace('_', ' ')}{READS[reading]}"
        if (learned, reference) in compared:
            yield title, learned, reference
        for other in labels:
            if other != reference and (learned, other) in compared:
                yield f"{title}, beside {other}", learned, other


def learnable(study: Options) -> list[str]:
    """Labels of a study's references, then of their averages."""
    return [*(reference["label"] for reference in study["references"]), *study.get("averages", {})]


def _table(summary: Options, columns: Mapping[str, str], cell: Callable[[Options, str, str, str], str]) -> str:
    rows = [
        [markdown_text(title), *(cell(summary, metric, learned, reference) for metric in columns)]
        for title, learned, reference in networks_of(summary)
    ]
    rows = [row for row in rows if any(value != "–" for value in row[1:])]
    return markdown_table(("reference, signal", *columns.values()), rows, "l") if rows else ""


def _kept(summary: Options, metric: str, learned: str, reference: str) -> str:
    own, theirs, chance = (_mean(summary, who, metric) for who in (learned, reference, "random"))
    if any(math.isnan(value) for value in (own, theirs, chance)):
        return "–"
    return f"{kept_cell(own, theirs, chance)}{_marks(summary, metric, learned, reference)}"


def _stable(summary: Options, metric: str, learned: str, reference: str) -> str:
    own, theirs = (_mean(summary, who, metric) for who in (learned, reference))
    if math.isnan(own) or math.isnan(theirs):
        return "–"
    known: Sequence[Options] = summary.get("above_chance", ())
    above = any(row["above"] for row in known if (row["metric"], row["explainer"]) == (metric, learned))
    return f"{own:.3g}{'⁺' if above else ''} / {theirs:.3g}{_marks(summary, metric, learned, reference)}"


def _mean(summary: Options, who: str, metric: str) -> float:
    known = summary["means"].get(who, {}).get(metric)
    return math.nan if known is None else float(known[0])


def _marks(summary: Options, metric: str, learned: str, reference: str) -> str:
    """A star where the two differ, and on how many texts the metric is defined, where it is not on all test texts."""
    wanted = (metric, learned, reference)
    rows = [row for row in summary["versus"] if (row["metric"], row["learned"], row["reference"]) == wanted]
    texts, n = summary["texts"]["test"]["texts"], summary["means"][learned][metric][2]
    return ("*" if rows and rows[0].get("differs") else "") + (f" ({n:,})" if n < texts else "")
