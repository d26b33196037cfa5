"""From the records of an L2E run to means, and to learned explainers beside their references.

Explainers are called after what they are: "lime" is a reference, "abs(lime)" the same by the size of its scores,
"l2e labelling(lime)" and "l2e ranking(lime)" learned from it, "random" chance. Several initialisations are seeds, and
averaged per text before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from didact.experiments.distillation.recipe import NAMED
from didact.stats.averages import by_example
from didact.stats.bootstrap import differences
from didact.stats.means import mean_tests
from didact.stats.paired import holm, wilcoxon
from didact.store.columns import values as values_of
from didact.types import Floats

LEARNED = re.compile(r"(?P<kind>l2e\S*) (?P<signal>\w+)\((?P<reference>\w+)\)")
RANDOM = "random"
HUMAN = "human"
COSTS = ("forwards", "seconds")
"""Measured beside the grades, and not tested: texts that are explained together share one time."""
Grades = Mapping[str, Mapping[str, Floats]]
"""Metric -> explainer -> one value per text, NaN where undefined."""


@dataclass(frozen=True)
class LearnedVersusReference:
    """A learned explainer beside its reference on one metric.

    Attributes:
        metric: what is measured.
        learned: the learned explainer.
        reference: the reference.
        own: mean of the learned explainer, over the texts on which both are defined.
        theirs: mean of the reference, likewise.
        ratio: own / theirs; NaN where the reference's mean is not above 0.
        n: how many texts that are.
        p: of Wilcoxon's signed-rank test, which the paper uses.
        adjusted: the same after Holm's correction over all rows of this metric, as in the paper.
        differs: whether the means differ significantly, tested over all rows of all metrics of quality together.
    """

    metric: str
    learned: str
    reference: str
    own: float
    theirs: float
    ratio: float
    n: int
    p: float
    adjusted: float
    differs: bool = False


def gather(table: pa.Table) -> dict[str, dict[str, Floats]]:
    """Records as one value per metric, explainer and text, averaged over seeds."""
    columns = {name: values_of(table.column(name)) for name in ("metric", "explainer", "example", "value")}
    rows: dict[str, tuple[list[str], list[str], list[float]]] = {}
    for metric, explainer, example, value in zip(*columns.values(), strict=True):
        who, what, values = rows.setdefault(metric, ([], [], []))
        who.append(explainer)
        what.append(example)
        values.append(value)
    return {metric: by_example(*row)[1] for metric, row in rows.items()}


def means(grades: Grades) -> dict[str, dict[str, list[float]]]:
    """Explainer -> metric -> mean, half of its 95 % interval (1.96 standard errors), and the number of texts."""
    table: dict[str, dict[str, list[float]]] = {}
    for metric, rows in grades.items():
        for explainer, values in rows.items():
            mean, half, n = spread(values)
            table.setdefault(explainer, {})[metric] = [_short(mean), _short(half), n]
    return table


def spread(values: Floats) -> tuple[float, float, int]:
    """Mean of the defined values, 1.96 standard errors, and how many there are."""
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), float("nan"), 0
    half = 1.96 * float(known.std(ddof=1)) / len(known) ** 0.5 if len(known) > 1 else float("nan")
    return float(known.mean()), half, len(known)


def versus(grades: Grades) -> list[LearnedVersusReference]:
    """Every learned explainer beside its reference, on every metric that has both, with all tests.

    One that ranks by absolute weight has two rows: beside the reference as it is, and beside its absolute scores. All
    of them stand beside references that no network learns from alone, too.
    """
    return _with_means_tested(as_in_the_paper(grades), grades)


def as_in_the_paper(grades: Grades) -> list[LearnedVersusReference]:
    """The same rows with the paper's test alone; their means are not tested."""
    comparisons: list[LearnedVersusReference] = []
    for metric, rows in sorted(grades.items()):
        pairs = list(_pairs(rows))
        tests = [wilcoxon(rows[own], rows[theirs]) for own, theirs in pairs]
        adjusted = holm([test.p for test in tests]) if tests else np.empty(0)
        for (own, theirs), test, after in zip(pairs, tests, adjusted.tolist(), strict=True):
            comparisons.append(_versus(metric, (own, theirs), rows, test.p, after))
    return comparisons


def _with_means_tested(rows: Sequence[LearnedVersusReference], grades: Grades) -> list[LearnedVersusReference]:
    """The same, with a test of the means over all of them but costs; metrics may have different numbers of texts."""
    texts = max((len(values) for metric in grades.values() for values in metric.values()), default=0)
    table = np.full((len(rows), texts), np.nan)
    for line, row in zip(table, rows, strict=True):
        if row.metric in COSTS:
            continue
        both = differences(grades[row.metric][row.learned], grades[row.metric][row.reference])
        line[: len(both)] = both
    significant = mean_tests(table).significant.tolist()
    return [replace(row, differs=differs) for row, differs in zip(rows, significant, strict=True)]


def _pairs(rows: Mapping[str, Floats]) -> Iterable[tuple[str, str]]:
    learned = {own: matched for own in rows if (matched := LEARNED.fullmatch(own)) is not None}
    sources = {matched["reference"] for matched in learned.values()}
    alone = [name for name in rows if NAMED.fullmatch(name) and name not in {*sources, RANDOM, HUMAN}]
    for own, matched in learned.items():
        if matched["reference"] in rows:
            yield own, matched["reference"]
        if matched["signal"] == "ranking" and f"abs({matched['reference']})" in rows:
            yield own, f"abs({matched['reference']})"
        yield from ((own, name) for name in alone)


def _versus(
    metric: str, pair: tuple[str, str], rows: Mapping[str, Floats], p: float, adjusted: float
) -> LearnedVersusReference:
    own, theirs = (rows[name] for name in pair)
    both = ~np.isnan(own) & ~np.isnan(theirs)
    first, second = (float(values[both].mean()) if both.any() else float("nan") for values in (own, theirs))
    ratio = first / second if second > 0 else float("nan")
    n = int(both.sum())
    return LearnedVersusReference(
        metric, *pair, _short(first), _short(second), _short(ratio), n, _short(p), _short(adjusted)
    )


def _short(value: float) -> float:
    return float(f"{value:.6g}")
