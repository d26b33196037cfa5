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

    def is_sound(self, column: Column) -> bool:
        """Whether the best real explainer is significantly better than all controls that explain nothing."""
        verdict = self.verdict(column)
        return verdict is not None and verdict.sound

    @cached_property
    def sound(self) -> list[Column]:
        """The columns whose metrics count in what is recommended."""
        return [column for column in self.summary.columns if self.is_sound(column)]

    @cached_property
    def doubtful(self) -> dict[str, int]:
        """Real explainers that are not better than random or their own shuffled scores -> on how many sound metrics."""
        counts: dict[str, int] = {}
        for verdict in (each for each in self.verdicts if each.sound):
            for label in dict.fromkeys([*verdict.weak, *verdict.failed("shuffle")]):
                counts[label] = counts.get(label, 0) + 1
        return counts

    @cached_property
    def recommended(self) -> tuple[str, ...]:
        """Explainers to trust first: none of them doubtful, none significantly worse than another of them.

        They lead most often on the sound metrics; one that leads less often is left out only where a recommended one is
        significantly better than it on more sound metrics than the other way round.
        """
        real = [info.label for info in self.run.measured.explainers if not info.control]
        graded = {label for column in self.sound for label in column.cells}
        known = [label for label in real if label in graded and label not in self.doubtful]
        wins = {label: sum(label in column.leaders for column in self.sound) for label in known}
        most = max(wins.values(), default=0)
        top = [label for label in known if wins[label] == most > 0]
        return tuple(label for label in known if label in top or not any(self._better(one, label) for one in top))

    def wins(self, label: str) -> int:
        """On how many sound metrics an explainer is the best or not significantly different from it."""
        return sum(label in column.leaders for column in self.sound)

    def _better(self, label: str, other: str) -> bool:
        """Whether one is significantly better on more sound metrics than the other."""
        net = sum(
            (other in column.beats(label)) - (label in column.beats(other)) for column in self._both(label, other)
        )
        return net > 0

    def _both(self, label: str, other: str) -> list[Column]:
        return [column for column in self.sound if label in column.cells and other in column.cells]


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
