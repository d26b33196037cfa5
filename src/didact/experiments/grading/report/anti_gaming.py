"""The anti-gaming panel: does a metric tell explanations from broken copies and from controls that explain nothing?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didact.experiments.grading.summary import ALPHA, Column, MetricInfo, ResultArrays, Summary
from didact.experiments.report.formatting import listed, number, plural
from didact.stats.bootstrap import differences
from didact.stats.paired import holm, signed_rank

NULLS = {"shuffle": "its own scores shuffled over the words", "labels": "its scores graded for another text's label"}
"""What each null is, in words that follow "no better than"."""

BLIND = ("random", "trivial")
"""Controls that know nothing of why the model decided as it did."""


@dataclass(frozen=True)
class Check:
    """An explainer against one null of a metric.

    Attributes:
        value: mean of the explanations over the paired examples.
        null: mean of the broken copies.
        p: Wilcoxon, Holm-adjusted over all explainers and nulls of the metric.
        beats: whether the explanations are significantly better.
    """

    value: float
    null: float
    p: float
    beats: bool


@dataclass(frozen=True, eq=False)
class MetricVerdict:
    """What the panel concludes about one metric.

    Attributes:
        metric: the metric.
        real: the explainers it graded that are no controls.
        checks: by explainer, then by null.
        controls: mean of each blind control.
        gamed_by: blind controls that are not significantly worse than the best real explainer.
        sentences: what is wrong with it, worst first; none where nothing is.
    """

    metric: MetricInfo
    real: tuple[str, ...]
    checks: Mapping[str, Mapping[str, Check]]
    controls: Mapping[str, float]
    gamed_by: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def gamed(self) -> bool:
        """Whether a control that explains nothing does as well as the best real explainer."""
        return bool(self.gamed_by)

    @property
    def praise(self) -> str:
        """What was tested and held, where no sentence says otherwise."""
        tested = sorted({null for checks in self.checks.values() for null in checks}, reverse=True)
        against = [*(f"{null} copies" for null in tested), *self.controls]
        return (
            f"Holds: the best are ahead of {listed(against)}." if against else "Not tested: no nulls and no controls."
        )

    def failed(self, null: str) -> tuple[str, ...]:
        """Real explainers that do not beat a null."""
        tested = (label for label in self.real if null in self.checks.get(label, {}))
        return tuple(label for label in tested if not self.checks[label][null].beats)


def judge(measured: ResultArrays, summary: Summary) -> list[MetricVerdict]:
    """A verdict on every metric that judges quality."""
    labels = [metric.label for metric in measured.metrics]
    return [
        _verdict(measured, column, labels.index(column.metric.label))
        for column in summary.columns
        if column.metric.judges
    ]


def controls(measured: ResultArrays) -> dict[str, str]:
    """Method -> label of the blind controls in this experiment."""
    labels = {info.method: info.label for info in reversed(measured.explainers) if info.method in BLIND}
    return {method: labels[method] for method in BLIND if method in labels}


def _verdict(measured: ResultArrays, column: Column, metric: int) -> MetricVerdict:
    checks = _checks(measured, column, metric)
    real = [s.label for s in measured.explainers if not s.control and s.label in column.cells]
    blind = {label: method for method, label in controls(measured).items() if label in column.cells}
    best = column.best
    gamed = tuple(label for label in blind if best is not None and label not in column.tests.beats(best))
    random = next((label for label, method in blind.items() if method == "random"), None)
    weak = tuple(label for label in real if random is not None and random not in column.tests.beats(label))
    means = {label: column.cells[label].mean for label in blind}
    sentences = tuple(_sentences(column, checks, real, gamed, weak))
    return MetricVerdict(column.metric, tuple(real), checks, means, gamed, sentences)


def _checks(measured: ResultArrays, column: Column, metric: int) -> dict[str, dict[str, Check]]:
    pairs = [
        (explainer.label, null, measured.values[""][metric, row], measured.values[null][metric, row])
        for null in NULLS
        if null in measured.values
        for row, explainer in enumerate(measured.explainers)
        if explainer.label in column.cells
    ]
    pairs = [pair for pair in pairs if not np.isnan(differences(pair[2], pair[3])).all()]
    if not pairs:
        return {}
    tests = signed_rank(np.stack([differences(value, broken) for _, _, value, broken in pairs]))
    checks: dict[str, dict[str, Check]] = {}
    for (label, null, value, broken), test, p in zip(pairs, tests, holm([t.p for t in tests]).tolist(), strict=True):
        both = ~np.isnan(differences(value, broken))
        beats = p < ALPHA and column.metric.sign * test.effect > 0
        checks.setdefault(label, {})[null] = Check(float(value[both].mean()), float(broken[both].mean()), p, beats)
    return checks


def _sentences(
    column: Column,
    checks: Mapping[str, Mapping[str, Check]],
    real: Sequence[str],
    gamed: Sequence[str],
    weak: Sequence[str],
) -> list[str]:
    name, sentences = column.metric.label, []
    if gamed and column.best is not None:
        best = column.cells[column.best]
        scored = listed([f"{label} ({number(column.cells[label].mean, column.largest)})" for label in gamed])
        sentences.append(
            f"On {name}, {scored} {plural(gamed, 'is', 'are')} not significantly worse than the best real method, "
            f"{column.best} ({number(best.mean, column.largest)}): this metric can be gamed here."
        )
    elif weak:
        amount = "no method is" if len(weak) == len(real) else f"{listed(weak)} {plural(weak, 'is', 'are')} not"
        sentences.append(f"On {name}, {amount} significantly better than random scores.")
    for null, words in NULLS.items():
        failed = [label for label in real if null in checks.get(label, {}) and not checks[label][null].beats]
        if not failed:
            continue
        everyone = len(failed) > 1 and len(failed) == sum(null in checks.get(label, {}) for label in real)
        who = "no method is" if everyone else f"{listed(failed)} {plural(failed, 'is', 'are')} no"
        sentences.append(f"On {name}, {who} better than {words}.")
    return sentences
