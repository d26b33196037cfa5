"""Everything that a grading report says, before it is written in any format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from didact.errors import UnknownNameError
from didact.experiments.grading.report.anti_gaming import MetricVerdict, controls, judge
from didact.experiments.grading.report.examples import Pick, pick
from didact.experiments.grading.report.load_run import Run
from didact.experiments.grading.summary import Column, Summary, summarise
from didact.registry import unknown


@dataclass(frozen=True, eq=False)
class GradingFindings:
    """What the report on a run says.

    Attributes:
        run: the run.
        summary: the summary table.
        verdicts: of the anti-gaming panel.
        quality: the metric that is set against cost, and whose leaders are recommended; None where nothing judges.
        picks: examples to look at.
    """

    run: Run
    summary: Summary
    verdicts: tuple[MetricVerdict, ...]
    quality: Column | None
    picks: tuple[Pick, ...]

    @property
    def random(self) -> str | None:
        """Label of the random control."""
        return controls(self.run.measured).get("random")

    @cached_property
    def families(self) -> dict[str, list[Column]]:
        """Columns by the family of their metric, in order of appearance."""
        families: dict[str, list[Column]] = {}
        for column in self.summary.columns:
            families.setdefault(column.metric.family, []).append(column)
        return families

    def column(self, verdict: MetricVerdict) -> Column:
        """The column of the metric that a verdict is on."""
        return next(column for column in self.summary.columns if column.metric.label == verdict.metric.label)

    def verdict(self, column: Column) -> MetricVerdict | None:
        """The panel's verdict on a metric; None for metrics that do not judge quality."""
        return next((each for each in self.verdicts if each.metric.label == column.metric.label), None)

    def is_gamed(self, column: Column) -> bool:
        """Whether a control that explains nothing does as well as the best real explainer."""
        verdict = self.verdict(column)
        return verdict is not None and verdict.gamed


def find(run: Run, *, metric: str | None = None, examples: int = 3) -> GradingFindings:
    """Work out what the report says.

    Args:
        run: a finished run.
        metric: label of the metric for the chart of quality against cost; comprehensiveness unless given.
        examples: how many examples are shown.

    Raises:
        UnknownNameError: the run has no such metric.
    """
    summary = summarise(run.measured)
    verdicts = tuple(judge(run.measured, summary))
    quality = _quality(summary, metric)
    return GradingFindings(run, summary, verdicts, quality, tuple(pick(run, quality, examples)))


def _quality(summary: Summary, metric: str | None) -> Column | None:
    directed = [column for column in summary.columns if column.best is not None]
    if metric is not None:
        chosen = [column for column in directed if column.metric.label == metric]
        if not chosen:
            raise UnknownNameError(unknown("metric", metric, [column.metric.label for column in directed]))
        return chosen[0]
    judging = [column for column in directed if column.metric.judges]
    ranked = sorted(judging, key=lambda c: (c.metric.metric != "comprehensiveness", c.metric.family != "faithfulness"))
    return ranked[0] if ranked else None
