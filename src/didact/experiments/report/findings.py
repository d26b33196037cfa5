"""Everything a report says, before it is written in any form."""

from __future__ import annotations

from dataclasses import dataclass

from didact.errors import UnknownNameError
from didact.experiments.report.anti_gaming import MetricVerdict, controls, judge
from didact.experiments.report.examples import Pick, pick
from didact.experiments.report.load_run import Run
from didact.experiments.tables import Column, Summary, summarise
from didact.registry import unknown


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found in a run.

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

    def verdict(self, column: Column) -> MetricVerdict | None:
        """The panel's verdict on a metric; None for metrics that do not judge quality."""
        return next((one for one in self.verdicts if one.yardstick.label == column.yardstick.label), None)

    def is_gamed(self, column: Column) -> bool:
        """Whether a control that explains nothing does as well as the best real explainer."""
        verdict = self.verdict(column)
        return verdict is not None and verdict.gamed


def find(run: Run, *, metric: str | None = None, examples: int = 3) -> Findings:
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
    return Findings(run, summary, verdicts, quality, tuple(pick(run, quality, examples)))


def _quality(summary: Summary, metric: str | None) -> Column | None:
    directed = [column for column in summary.columns if column.best is not None]
    if metric is not None:
        found = [column for column in directed if column.yardstick.label == metric]
        if not found:
            raise UnknownNameError(unknown("metric", metric, [column.yardstick.label for column in directed]))
        return found[0]
    judging = [column for column in directed if column.yardstick.judges]
    ranked = sorted(
        judging, key=lambda c: (c.yardstick.metric != "comprehensiveness", c.yardstick.family != "faithfulness")
    )
    return ranked[0] if ranked else None
