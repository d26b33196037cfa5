"""What every registered metric must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``applicable`` lists the checks that make sense for a card on a case (a kind of
evidence); ``check`` runs one and raises AssertionError with what went wrong. A third party's test file::

    import pytest
    from didact.testing.metrics import CASES, applicable, check

    ROWS = [(case, name) for case in CASES for name in applicable(MyMetric.card, case)]

    @pytest.mark.parametrize(("case", "name"), ROWS)
    def test_my_metric(case, name): check(name, MyMetric(), case)
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from didact.attribution.random import Random
from didact.errors import InputError
from didact.metrics.base import BaseMetric
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.ops.units import word_spans
from didact.protocols import Evidence, Model
from didact.testing.conformance import make_case, network_state
from didact.testing.tiny import TEXTS, tiny_image_model, tiny_images, tiny_model
from didact.types import Box, Cost, Example, Explanation, Grade, Image, Invariance, Level, MetricCard, Span

CASES = ("words", "tokens", "pairs", "black_box", "regression", "images", "superpixels")
FAMILIES = ("faithfulness", "stability", "plausibility", "agreement", "efficiency")
GIVEN = frozenset({"corpus", "text", "classes"})
"""Needs that all evidence here meets."""
NEEDS = GIVEN | {"model", "rationale", "explainer", "repeats", "others", "surrogate"}

_MORE = ("An unforgettable evening - good, warm, good!", "they don't say why the film is a dull one")
_MAPS: dict[Invariance, Callable[[float], float]] = {
    "scale": lambda x: 3 * x,
    "affine": lambda x: 0.5 * x + 2,
    "order": lambda x: x**3 + x / 9 - 1,
}
_HELD: dict[Invariance, tuple[Invariance, ...]] = {
    "order": ("order", "affine", "scale"),
    "affine": ("affine", "scale"),
    "scale": ("scale",),
    "none": (),
}

Check = Callable[[BaseMetric, Evidence], None]


@functools.cache
def make_evidence(case: str) -> Evidence:
    """Random explanations of a few texts by a tiny model, with everything a metric may need.

    Cases: "words" and "tokens" of single texts, "pairs", a "black_box", a "regression", "images" and "superpixels" of
    a function of images. All have rationales, one of them by two annotators. The model itself stands in for the
    surrogate. Costs are made up, so that they are the same in every run; the other explainers are slower.
    """
    model = _model(case)
    pictured = case in ("images", "superpixels")
    examples = _images() if pictured else _examples("pairs" if case == "pairs" else "texts")
    level: Level | None = None if pictured else "token" if case == "tokens" else "word"

    def random(seed: int, seconds: float) -> list[Explanation]:
        explanations = Random(seed=seed, level=level).explain(model, examples)
        cost = Cost(forwards=10 * (seed + 1), backwards=seed, evaluated=10, seconds=seconds)
        return [replace(explanation, cost=cost) for explanation in explanations]

    return Evidence(
        explanations=random(0, 0.25),
        model=model,
        explainer=Random(level=level),
        repeats=[random(1, 0.25), random(2, 0.25)],
        others={"third": random(3, 0.5), "fourth": random(4, 1.0)},
        surrogate=model,
    )


def applicable(card: MetricCard, case: str) -> list[str]:
    """Names of the checks that are meaningful for this card on this case."""
    if case == "regression":
        return ["regression_or_refusal"]
    if case in ("images", "superpixels") and "text" in card.needs:
        return ["images_are_refused"]
    skipped = {"regression_or_refusal", "images_are_refused"}
    if case != "words":  # these look at the metric rather than at what it is given
        skipped |= {"card_is_complete", "settings_round_trip", "nothing_gives_nothing"}
    if case == "tokens" or card.invariant == "none":
        skipped.add("invariance")  # a word's sum over its tokens keeps no order
    if "corpus" in card.needs:
        skipped.add("chunks_change_nothing")
    if not card.needs - GIVEN:
        skipped.add("missing_needs_are_named")
    if case in ("black_box", "superpixels") or not card.needs & {"model", "surrogate"}:
        skipped.add("model_untouched")
    return [name for name in CHECKS if name not in skipped]


def check(name: str, metric: BaseMetric, case: str = "words") -> None:
    """Run one check."""
    CHECKS[name](metric, make_evidence(case))


def card_is_complete(metric: BaseMetric, evidence: Evidence) -> None:
    """The card is complete, and its values are those that the library knows."""
    card = metric.card
    assert card.name.isidentifier(), card.name
    assert card.name == card.name.lower(), card.name
    assert card.family in FAMILIES, f"family {card.family!r} is none of {FAMILIES}"
    assert card.summary.endswith("."), "the summary is one sentence"
    assert card.reference, "say where it was published, or what it follows"
    assert card.low < card.high, f"the range is empty: {card.low} to {card.high}"
    assert card.needs <= NEEDS, f"unknown needs: {sorted(card.needs - NEEDS)}"
    assert card.invariant in get_args(Invariance), card.invariant
    json.dumps(card.to_dict(), allow_nan=False)


def settings_round_trip(metric: BaseMetric, evidence: Evidence) -> None:
    """Settings survive a file: as JSON and back they make the same metric."""
    plain = json.loads(json.dumps(metric.parameters, allow_nan=False))
    assert type(metric).configured(**plain) == metric


def nothing_gives_nothing(metric: BaseMetric, evidence: Evidence) -> None:
    """No explanations, no grades."""
    assert metric.measure(_only(evidence, [])) == []


def one_grade_each(metric: BaseMetric, evidence: Evidence) -> None:
    """One grade per explanation, of plain numbers, and not all of them undefined."""
    grades = metric.measure(evidence)
    assert len(grades) == len(evidence.explanations)
    numbers = [number for grade in grades for number in (grade.value, *grade.parts.values())]
    assert all(type(number) is float for number in numbers), f"not all are floats: {numbers}"
    assert any(math.isfinite(number) for number in numbers), "no value or part is defined for any text"


def within_range(metric: BaseMetric, evidence: Evidence) -> None:
    """Values lie in the card's range, or are NaN."""
    low, high = metric.card.low, metric.card.high
    for grade in metric.measure(evidence):
        assert math.isnan(grade.value) or low - 1e-9 <= grade.value <= high + 1e-9, f"{grade.value}: {low} to {high}"


def same_input_same_output(metric: BaseMetric, evidence: Evidence) -> None:
    """Measuring twice gives the same."""
    _assert_same(metric.measure(evidence), metric.measure(evidence), exact=True)


def order_changes_nothing(metric: BaseMetric, evidence: Evidence) -> None:
    """Examples in another order get the same grades."""
    order = np.random.default_rng(0).permutation(len(evidence.explanations)).tolist()
    plain = metric.measure(evidence)
    _assert_same(metric.measure(_only(evidence, order)), [plain[i] for i in order])


def chunks_change_nothing(metric: BaseMetric, evidence: Evidence) -> None:
    """Examples measured a few at a time get the same grades."""
    numbers = list(range(len(evidence.explanations)))
    for size in (1, 4):
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        _assert_same([g for part in parts for g in metric.measure(_only(evidence, part))], metric.measure(evidence))


def invariance(metric: BaseMetric, evidence: Evidence) -> None:
    """The scores may be changed in the ways that the card declares irrelevant."""
    plain = metric.measure(evidence)
    for kind in _HELD[metric.card.invariant]:
        _assert_same(metric.measure(_mapped(evidence, _MAPS[kind])), plain)


def evidence_untouched(metric: BaseMetric, evidence: Evidence) -> None:
    """The explanations are as they were."""
    before = _written(evidence)
    metric.measure(evidence)
    assert _written(evidence) == before


def model_untouched(metric: BaseMetric, evidence: Evidence) -> None:
    """Hooks, modes, gradients and weights of the model are as before."""
    model = evidence.model
    assert isinstance(model, NetworkModel)
    before = network_state(model)
    metric.measure(evidence)
    assert network_state(model) == before


def missing_needs_are_named(metric: BaseMetric, evidence: Evidence) -> None:
    """Without what the card needs there is an error that names the metric, and no number."""
    bare = Evidence(evidence.explanations)
    for need in metric.card.needs - GIVEN:
        less = _unmarked(evidence) if need == "rationale" else replace(evidence, **{need: getattr(bare, need)})
        with pytest.raises(InputError, match=metric.card.name):
            metric.measure(less)


def regression_or_refusal(metric: BaseMetric, evidence: Evidence) -> None:
    """A regression is graded, or refused with an error that names the metric."""
    grades, refusal = [], ""
    try:
        grades = metric.measure(evidence)
    except InputError as problem:
        refusal = str(problem)
    assert metric.card.name in refusal if refusal else len(grades) == len(evidence.explanations)


def images_are_refused(metric: BaseMetric, evidence: Evidence) -> None:
    """Where the card needs texts, an image is refused with an error that names the metric."""
    with pytest.raises(InputError, match=f"{metric.card.name} compares words"):
        metric.measure(evidence)


CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        card_is_complete,
        settings_round_trip,
        nothing_gives_nothing,
        one_grade_each,
        within_range,
        same_input_same_output,
        order_changes_nothing,
        chunks_change_nothing,
        invariance,
        evidence_untouched,
        model_untouched,
        missing_needs_are_named,
        regression_or_refusal,
        images_are_refused,
    )
}


def _model(case: str) -> Model:
    if case == "pairs":
        return load_model(tiny_model("bert"), inputs="pair")
    if case == "regression":
        return make_case("bert", ["score"])
    if case == "images":
        return load_model(tiny_image_model())
    return make_case({"black_box": "black_box", "superpixels": "image_function"}.get(case, "bert"))


def _examples(kind: str) -> list[Example]:
    """Texts, or pairs of them, of which the second and third word (and in a pair the first word) are the rationale."""
    texts = (*TEXTS, *_MORE)
    examples = []
    for number, text in enumerate(texts):
        pair = texts[(number + 1) % len(texts)] if kind == "pairs" else None
        words = word_spans(text)
        rationale = (Span(words[1].start, words[2].end), *(word_spans(pair, 1)[:1] if pair is not None else ()))
        annotators = (rationale, (words[0],)) if number == 0 else ()
        examples.append(Example(text, pair, rationale=rationale, id=f"text {number}", annotators=annotators))
    return examples


def _images() -> list[Example]:
    """Images whose upper left corner is the rationale; of the first, another person marked the lower right."""
    examples = []
    for number, example in enumerate(tiny_images()):
        ((width, height),) = (field.size for field in example.fields if isinstance(field, Image))
        corners = Box(0, 0, width // 3, height // 3), Box(width // 2, height // 2, width, height)
        annotators = ((corners[0],), (corners[1],)) if number == 0 else ()
        examples.append(replace(example, rationale=corners[:1], id=f"image {number}", annotators=annotators))
    return examples


def _only(evidence: Evidence, numbers: Sequence[int]) -> Evidence:
    """The evidence about some of the examples, in this order."""

    def those(explanations: Sequence[Explanation]) -> list[Explanation]:
        return [explanations[number] for number in numbers]

    return _each(evidence, those)


def _mapped(evidence: Evidence, change: Callable[[float], float]) -> Evidence:
    """All scores changed."""

    def changed(explanations: Sequence[Explanation]) -> list[Explanation]:
        return [replace(explanation, scores=tuple(map(change, explanation.scores))) for explanation in explanations]

    return _each(evidence, changed)


def _unmarked(evidence: Evidence) -> Evidence:
    """The evidence without rationales."""

    def without(explanations: Sequence[Explanation]) -> list[Explanation]:
        bare = [replace(each.example, rationale=None, annotators=()) for each in explanations]
        pairs = zip(explanations, bare, strict=True)
        return [replace(each, units=replace(each.units, example=example)) for each, example in pairs]

    return _each(evidence, without)


def _each(evidence: Evidence, change: Callable[[Sequence[Explanation]], list[Explanation]]) -> Evidence:
    return replace(
        evidence,
        explanations=change(evidence.explanations),
        repeats=[change(repeat) for repeat in evidence.repeats],
        others={label: change(others) for label, others in evidence.others.items()},
    )


def _written(evidence: Evidence) -> list[str]:
    lists = [evidence.explanations, *evidence.repeats, *evidence.others.values()]
    return [explanation.to_json() for explanations in lists for explanation in explanations]


def _assert_same(actual: Sequence[Grade], expected: Sequence[Grade], *, exact: bool = False) -> None:
    """Values and parts are equal, up to what another batch may round differently."""
    assert len(actual) == len(expected)
    rtol, atol = (0.0, 0.0) if exact else (1e-4, 1e-5)
    for grade, other in zip(actual, expected, strict=True):
        assert grade.parts.keys() == other.parts.keys()
        parts = ([grade.parts[name], other.parts[name]] for name in grade.parts)
        pairs = np.array([[grade.value, other.value], *parts])
        np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=rtol, atol=atol)
