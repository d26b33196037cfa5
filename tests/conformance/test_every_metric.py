"""Every registered metric passes every check that applies to it, on every kind of evidence."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from didact.metrics.base import METRICS, BaseMetric
from didact.protocols import Evidence
from didact.testing.metrics import CASES, CHECKS, applicable, check, make_evidence
from didact.types import Grade, Invariance, MetricCard

ROWS = [
    (metric, case, name)
    for metric in METRICS.names()
    for case in CASES
    for name in applicable(METRICS.card(metric), case)
]


@pytest.mark.parametrize(("metric", "case", "name"), ROWS)
def test_conforms(metric: str, case: str, name: str) -> None:
    check(name, METRICS.get(metric)(), case)


def test_every_check_is_used() -> None:
    assert {name for _, _, name in ROWS} == set(CHECKS)


@pytest.mark.parametrize("metric", METRICS.names())
def test_a_metric_is_a_file_of_its_name_in_the_folder_of_its_family(metric: str) -> None:
    card = METRICS.card(metric)
    assert METRICS.get(metric).__module__ == f"didact.metrics.{card.family}.{card.name}"
    assert card.name == metric


# The checks themselves, on planted faults.

SOUND = MetricCard("planted", "agreement", "A planted metric.", "none", low=-100, high=100, needs=frozenset({"others"}))


@dataclass(frozen=True, kw_only=True)
class Planted(BaseMetric):
    """Measures what it is told to."""

    card = SOUND

    def grade(self, evidence: Evidence) -> list[Grade]:
        return RULE[0](evidence)


RULE: list[Callable[[Evidence], list[Grade]]] = []


def planted(rule: Callable[[Evidence], list[Grade]], card: MetricCard = SOUND) -> BaseMetric:
    RULE[:] = [rule]
    metric = type("Planted", (Planted,), {"card": card})()
    assert isinstance(metric, BaseMetric)
    return metric


def each(rule: Callable[[Sequence[float]], float]) -> Callable[[Evidence], list[Grade]]:
    return lambda evidence: [Grade(float(rule(one.scores))) for one in evidence.explanations]


def test_a_sound_metric_passes() -> None:
    metric = planted(each(lambda scores: scores.index(max(scores))))
    for name in applicable(SOUND, "words"):
        check(name, metric)


def by_place(evidence: Evidence) -> list[Grade]:
    return [Grade(float(place)) for place in range(len(evidence.explanations))]


def by_size(evidence: Evidence) -> list[Grade]:
    return [Grade(float(len(evidence.explanations)))] * len(evidence.explanations)


def drifting(evidence: Evidence) -> list[Grade]:
    CALLS.append(0)
    return [Grade(float(len(CALLS)))] * len(evidence.explanations)


def meddling(evidence: Evidence) -> list[Grade]:
    for number, one in enumerate(evidence.explanations):
        evidence.explanations[number] = replace(one, method="mine")  # type: ignore[index]
    return by_place(evidence)


CALLS: list[int] = []


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("one_grade_each", lambda evidence: by_place(evidence)[1:]),
        ("one_grade_each", each(lambda scores: math.nan)),
        ("one_grade_each", lambda evidence: [Grade(1)] * len(evidence.explanations)),
        ("within_range", each(lambda scores: 101.0)),
        ("same_input_same_output", drifting),
        ("order_changes_nothing", by_place),
        ("chunks_change_nothing", by_size),
        ("invariance", each(max)),
    ],
)
def test_planted_faults_are_found(name: str, rule: Callable[[Evidence], list[Grade]]) -> None:
    with pytest.raises(AssertionError):
        check(name, planted(rule))


def test_meddling_is_found() -> None:
    evidence = make_evidence.__wrapped__("words")  # not the one that other tests use
    with pytest.raises(AssertionError):
        CHECKS["evidence_untouched"](planted(meddling), evidence)


@pytest.mark.parametrize("kind", ["order", "affine", "scale"])
def test_each_invariance_is_told_from_the_next(kind: Invariance) -> None:
    rules: dict[Invariance, Callable[[Sequence[float]], float]] = {
        "order": lambda scores: scores.index(max(scores)),
        "affine": lambda scores: (scores[0] - scores[1]) / (max(scores) - min(scores)),
        "scale": lambda scores: scores[0] / max(map(abs, scores)),
    }
    metric = planted(each(rules[kind]), replace(SOUND, invariant=kind))
    check("invariance", metric)
    stronger: dict[Invariance, Invariance] = {"affine": "order", "scale": "affine"}
    if kind in stronger:
        with pytest.raises(AssertionError):
            check("invariance", planted(each(rules[kind]), replace(SOUND, invariant=stronger[kind])))


@pytest.mark.parametrize(
    "fault",
    [
        {"family": "beauty"},
        {"summary": "no full stop"},
        {"reference": ""},
        {"low": 1.0, "high": 0.0},
        {"needs": frozenset({"luck"})},
        {"name": "Not A Name"},
    ],
)
def test_an_incomplete_card_is_found(fault: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        check("card_is_complete", planted(by_place, replace(SOUND, **fault)))  # type: ignore[arg-type]


def test_a_need_that_is_not_checked_is_found() -> None:
    class Careless(Planted):
        def measure(self, evidence: Evidence) -> list[Grade]:
            return self.grade(evidence)

    RULE[:] = [by_place]
    with pytest.raises(pytest.fail.Exception):
        check("missing_needs_are_named", Careless())


def test_cards_are_plain_json() -> None:
    assert json.loads(json.dumps([card.to_dict() for card in METRICS.cards()]))
