"""What an evaluation will take, before it starts: it is carried out on a few texts, timed, and scaled up."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from didact.experiments.engine.steps import KeyedStep, RunOptions
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import GradingExperiment
from didact.meter import metered
from didact.models import estimate as model_estimate
from didact.progress import advance, working
from didact.types import Estimate, Example

SHARE, MOST = 16, 6
"""One text in so many is timed, and at most so many texts."""

REPORT = 2e-5
"""Seconds that the report takes per text and comparison of two explainers on a metric: bootstrap and tests."""


@dataclass(frozen=True)
class PartCost:
    """What one part of an evaluation takes per text: seconds, and evaluations of the model."""

    seconds: float = 0.0
    evaluated: float = 0.0

    def __add__(self, other: PartCost) -> PartCost:
        return PartCost(self.seconds + other.seconds, self.evaluated + other.evaluated)


PartCosts = dict[str, PartCost]
"""By the label of the method or metric."""


@dataclass(frozen=True)
class Forecast:
    """What an evaluation will take.

    Attributes:
        texts: of the evaluation.
        timed: how many of them it was carried out on.
        methods: explainer's label -> what explaining a text takes.
        metrics: metric's label -> what it takes for a text, over all explainers and their shuffled copies.
        left_out: metrics that were not timed: a surrogate of the model is trained for them first.
    """

    texts: int
    timed: int
    methods: Mapping[str, PartCost]
    metrics: Mapping[str, PartCost]
    left_out: tuple[str, ...] = ()

    @property
    def per_text(self) -> PartCost:
        """What a text takes in all."""
        report = REPORT * len(self.methods) ** 2 * len(self.metrics)
        return sum((*self.methods.values(), *self.metrics.values()), PartCost(report))

    @property
    def seconds(self) -> float:
        """What the evaluation takes in one process."""
        return self.texts * self.per_text.seconds

    @property
    def evaluations(self) -> int:
        """Of the model, in the whole evaluation."""
        return round(self.texts * self.per_text.evaluated)

    def slowest(self, count: int = 3) -> list[tuple[str, float]]:
        """The methods and metrics that take longest, with their seconds."""
        parts = [(label, self.texts * work.seconds) for label, work in (*self.methods.items(), *self.metrics.items())]
        return sorted(parts, key=lambda part: -part[1])[:count]

    def on(self, texts: int) -> Forecast:
        """The same for another number of texts."""
        return dataclasses.replace(self, texts=texts)


def forecast(experiment: GradingExperiment) -> Forecast:
    """Carry an experiment out on a few of its texts, of all lengths, and time every part.

    What is computed is thrown away: chunks of examples are the same in every run, so that the numbers are too.
    """
    texts = _of_all_lengths(experiment)
    metrics = {label: one for label, one in experiment.metrics.items() if "surrogate" not in one.card.needs}
    known = dataclasses.replace(experiment, metrics=metrics)
    _rehearse(known, texts[:1])  # what is imported, allocated or hashed once does not count
    methods, graded = _rehearse(known, texts)
    left_out = tuple(label for label in experiment.metrics if label not in metrics)
    return Forecast(len(experiment.data.examples), len(texts), methods, graded, left_out)


def _rehearse(
    experiment: GradingExperiment, texts: tuple[Example, ...]
) -> tuple[dict[str, PartCost], dict[str, PartCost]]:
    """Carry an experiment out on these texts: what each method and each metric takes per text."""
    small = dataclasses.replace(experiment, data=dataclasses.replace(experiment.data, examples=texts))
    methods, metrics = dict.fromkeys(small.explainers, PartCost()), dict.fromkeys(small.metrics, PartCost())
    with tempfile.TemporaryDirectory() as folder:
        job = GradingJob(small, RunOptions(Path(folder)))
        for planned in job.rounds():
            parts = methods if planned.title == "explaining" else metrics
            with working(f"estimating the cost on {len(texts)} texts, {planned.title}", len(planned.steps)):
                for step in planned.steps:
                    parts[str(step.arguments[0])] += _timed(job, step, len(texts))
    return methods, metrics


def estimates(experiment: GradingExperiment) -> list[Estimate]:
    """A row per method and metric, and their sum: counts as the methods declare them, seconds as forecast."""
    expected = forecast(experiment)
    units = experiment.model.units(experiment.data.examples)
    rows = []
    for label, work in expected.methods.items():
        runs, explainer = len(experiment.seeds(label)), experiment.explainers[label]
        row = model_estimate.estimate(experiment.model, units, explainer, model_estimate.Pace(0.0, 1))
        counts = {"forwards": runs * row.forwards, "backwards": runs * row.backwards}
        rows.append(dataclasses.replace(row, method=label, seconds=expected.texts * work.seconds, **counts))
    blank = dataclasses.replace(rows[0], backwards=0, memory=None)
    for label, work in expected.metrics.items():
        forwards, seconds = round(expected.texts * work.evaluated), expected.texts * work.seconds
        rows.append(dataclasses.replace(blank, method=f"metric {label}", forwards=forwards, seconds=seconds))
    whole = {name: sum(getattr(row, name) for row in rows) for name in ("forwards", "backwards")}
    memory = max((row.memory for row in rows if row.memory is not None), default=None)
    return [*rows, dataclasses.replace(blank, method="total", seconds=expected.seconds, memory=memory, **whole)]


def _timed(job: GradingJob, step: KeyedStep, texts: int) -> PartCost:
    with metered() as meter:
        job.do(step)
    advance(1)
    return PartCost(meter.seconds / texts, meter.evaluated / texts)


def _of_all_lengths(experiment: GradingExperiment) -> tuple[Example, ...]:
    """A few texts from the shortest to the longest, as far apart in the order of lengths."""
    examples = experiment.data.examples
    lengths = [len(units) for units in experiment.model.units(examples)]
    order = sorted(range(len(examples)), key=lengths.__getitem__)
    count = min(MOST, -(-len(examples) // SHARE))
    return tuple(examples[order[int((place + 0.5) * len(order) / count)]] for place in range(count))
