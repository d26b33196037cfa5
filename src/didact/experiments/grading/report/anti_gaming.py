"""The anti-gaming panel: does a metric tell explanations from broken copies and from controls that explain nothing?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from didact.experiments.grading.summary import NULLS, Check, Column, MetricInfo, ResultArrays, Summary
from didact.experiments.report.formatting import listed, number, plural

BLIND = ("random", "trivial")
"""Controls that know nothing of why the model decided as it did."""


@dataclass(frozen=True, eq=False)
class MetricVerdict:
    """What the panel concludes about one metric.

    Attributes:
        metric: the metric.
        real: the explainers it graded that are no controls.
        checks: by explainer, then by null.
        controls: mean of each blind control.
        texts: on which the best explainer is defined.
        fewest: texts that a verdict needs.
        unbeaten: blind controls that the best real explainer is not significantly better than.
        gamed_by: those among them that are significantly better than the best real explainer.
        weak: real explainers that are not significantly better than random.
        sentences: what is wrong with it, worst first; none where nothing is.
    """

    metric: MetricInfo
    real: tuple[str, ...]
    checks: Mapping[str, Mapping[str, Check]]
    controls: Mapping[str, float]
    texts: int
    fewest: int
    unbeaten: tuple[str, ...] = ()
    gamed_by: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether there are enough texts for a verdict."""
        return self.texts >= self.fewest

    @property
    def sound(self) -> bool:
        """Whether the metric counts: its best real explainer is significantly better than every blind control."""
        return self.enough and not self.unbeaten

    @property
    def gamed(self) -> bool:
        """Whether a control that explains nothing is significantly better than the best real explainer."""
        return bool(self.gamed_by)

    @property
    def words(self) -> str:
        """The verdict in two or three words."""
        if not self.enough:
            return "not enough texts"
        if self.gamed:
            return "can be gamed"
        if self.unbeaten:
            return "not shown"
        return "with exceptions" if self.sentences else "holds"

    @property
    def praise(self) -> str:
        """What was tested and held, where no sentence says otherwise."""
        tested = sorted({null for checks in self.checks.values() for null in checks}, reverse=True)
        against = [*(f"{null} copies" for null in tested), *self.controls]
        return (
            f"Holds: the best are ahead of {listed(against)}." if against else "Not tested: no nulls and no controls."
        )

    def failed(self, null: str) -> tuple[str, ...]:
        """Real explainers that do not beat a null; none where there are not enough texts to tell."""
        tested = (label for label in self.real if null in self.checks.get(label, {}))
        return tuple(label for label in tested if self.enough and not self.checks[label][null].beats)


def judge(measured: ResultArrays, summary: Summary) -> list[MetricVerdict]:
    """A verdict on every metric that judges quality."""
    return [_verdict(measured, column, summary.fewest) for column in summary.columns if column.metric.judges]


def controls(measured: ResultArrays) -> dict[str, str]:
    """Method -> label of the blind controls in this experiment."""
    labels = {info.method: info.label for info in reversed(measured.explainers) if info.method in BLIND}
    return {method: labels[method] for method in BLIND if method in labels}


def _verdict(measured: ResultArrays, column: Column, fewest: int) -> MetricVerdict:
    real = tuple(label for label, cell in column.cells.items() if not cell.control)
    blind = {label: method for method, label in controls(measured).items() if label in column.cells}
    means = {label: column.cells[label].mean for label in blind}
    best = column.best
    texts = 0 if best is None else column.cells[best].n
    verdict = MetricVerdict(column.metric, real, column.checks, means, texts, fewest)
    if best is None or not verdict.enough:
        return replace(verdict, sentences=(_too_few(column, texts, fewest),))
    unbeaten = tuple(label for label in blind if label not in column.beats(best))
    random = next((label for label, method in blind.items() if method == "random"), None)
    verdict = replace(
        verdict,
        unbeaten=unbeaten,
        gamed_by=tuple(label for label in unbeaten if best in column.beats(label)),
        weak=tuple(label for label in real if random is not None and random not in column.beats(label)),
    )
    return replace(verdict, sentences=tuple(_sentences(column, verdict)))


def _too_few(column: Column, texts: int, fewest: int) -> str:
    return f"On {column.metric.label}: not enough texts for a verdict, {texts} where {fewest} are needed."


def _sentences(column: Column, verdict: MetricVerdict) -> Iterator[str]:
    name, best = column.metric.label, str(column.best)
    ahead = f"the best real method, {best} ({number(column.cells[best].mean, column.largest)})"
    unclear = [label for label in verdict.unbeaten if label not in verdict.gamed_by]
    if verdict.gamed_by:
        scored, verb = _scored(column, verdict.gamed_by), plural(verdict.gamed_by, "is", "are")
        yield f"On {name}, {scored} {verb} significantly better than {ahead}: this metric can be gamed here."
    if unclear:
        yield (
            f"On {name}, {ahead} is not significantly better than {_scored(column, unclear)}: it is not shown that "
            f"this metric separates explanations from chance ({verdict.texts:,} texts)."
        )
    if verdict.weak and not verdict.unbeaten:
        everyone = len(verdict.weak) == len(verdict.real)
        amount = "no method is" if everyone else f"{listed(verdict.weak)} {plural(verdict.weak, 'is', 'are')} not"
        yield f"On {name}, {amount} significantly better than random scores."
    for null, words in NULLS.items():
        failed = verdict.failed(null)
        tested = sum(null in verdict.checks.get(label, {}) for label in verdict.real)
        if failed:
            everyone = len(failed) > 1 and len(failed) == tested
            who = "no method is" if everyone else f"{listed(failed)} {plural(failed, 'is', 'are')} not"
            yield f"On {name}, {who} significantly better than {words}."


def _scored(column: Column, labels: Sequence[str]) -> str:
    return listed([f"{label} ({number(column.cells[label].mean, column.largest)})" for label in labels])
