"""Which examples a report shows, by a rule that it states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from didact.experiments.grading.report.load_run import Run
from didact.experiments.grading.summary import Column
from didact.types import Explanation, Floats


@dataclass(frozen=True)
class Pick:
    """An example to look at.

    Attributes:
        why: the rule that chose it.
        explanations: one per explainer, each called by its label in the experiment.
    """

    why: str
    explanations: tuple[Explanation, ...]


def pick(run: Run, quality: Column | None, count: int) -> list[Pick]:
    """At most ``count`` examples: where explainers agree most, least, and where the model is wrong, in turn.

    Agreement is the experiment's agreement metric, averaged over the real explainers; without one it is their mean
    quality. Ties go to the example whose id comes first.
    """
    if run.kept is None or count < 1:
        return []
    value, words = _agreement(run, quality)
    wrong = run.kept.wrong
    rules = [
        _ranked(-value, f"{words[0]} of all texts"),
        _ranked(value, f"{words[1]} of all texts"),
        _ranked(np.where(wrong, value, np.nan), f"a wrong prediction, {words[1]} among these"),
    ]
    chosen = list(_in_turn(rules, count))
    explained = run.kept.explained([place for place, _ in chosen])
    return [Pick(why, tuple(_named(explained[place]))) for place, why in chosen if explained[place]]


def _agreement(run: Run, quality: Column | None) -> tuple[Floats, tuple[str, str]]:
    """A number per example, and what its largest and its smallest value mean."""
    measured = run.measured
    real = [row for row, explainer in enumerate(measured.explainers) if not explainer.control] or [0]
    for at, metric in enumerate(measured.metrics):
        if metric.family == "agreement":
            name = metric.label
            words = f"most agreement between explainers ({name})", f"least agreement between explainers ({name})"
            return _mean(measured.values[""][at, real]), words
    if quality is None:
        return np.zeros(len(measured.examples)), ("the first", "the first")
    labels = [metric.label for metric in measured.metrics]
    name, at = quality.metric.label, labels.index(quality.metric.label)
    values = quality.metric.sign * _mean(measured.values[""][at, real])
    return values, (f"best explained (mean {name})", f"worst explained (mean {name})")


def _mean(rows: Floats) -> Floats:
    known = np.isfinite(rows)
    count = known.sum(axis=0)
    sums = np.where(known, rows, 0.0).sum(axis=0)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def _ranked(value: Floats, why: str) -> list[tuple[int, str]]:
    order = np.argsort(value, kind="stable")  # NaN last
    return [(int(place), why) for place in order if np.isfinite(value[place])]


def _in_turn(rules: Sequence[Sequence[tuple[int, str]]], count: int) -> Iterator[tuple[int, str]]:
    """The first example of each rule that was not taken yet, round and round."""
    queues, taken = [iter(rule) for rule in rules], set[int]()
    while queues and len(taken) < count:
        for queue in list(queues):
            fresh = next((place for place in queue if place[0] not in taken), None)
            if fresh is None:
                queues.remove(queue)
            elif len(taken) < count:
                taken.add(fresh[0])
                yield fresh


def _named(explanations: dict[str, Explanation]) -> Iterator[Explanation]:
    """Called by their labels; settings and versions stand elsewhere in the report."""
    for label, explanation in explanations.items():
        yield dataclasses.replace(explanation, method=label, parameters={}, details={}, versions={}, model={})
