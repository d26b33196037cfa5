"""Hints that should be worth nothing, or less: what an explanation must beat before its gain means anything.

Each control replaces the given hints by ones of the same size: as many units of each text, none where the hint is
empty. The result depends on the seed and the text, not on the order of the texts. Links between phrases are kept by
``random`` alone, at other places; the hints of the other controls are empty for a channel that uses links.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from didact.attribution.base import generator
from didact.errors import ParameterError, UnknownNameError
from didact.ops.units import word_spans
from didact.registry import unknown
from didact.simulation.hints import HintFormat, Link, highest, linked, normalised
from didact.students.base import Hint
from didact.types import Example, Explanation, Floats, Prediction, Span, overlaps


@dataclass(frozen=True, eq=False)
class ControlInput:
    """What a control may use of one text.

    Attributes:
        example: the text.
        hint: the real hint.
        label: the class that the teacher predicts; 0 where there are none.
        classes: how many there are.
    """

    example: Example
    hint: Hint
    label: int = 0
    classes: int = 1


def control(name: str, explanations: Sequence[Explanation], format: HintFormat, seed: int) -> list[Hint]:
    """One hint per explanation, in place of the real one.

    For a teacher that predicts numbers, the two classes are above the median of the given predictions, and not.

    Args:
        name: of the control, a key of ``CONTROLS``.
        explanations: of the texts; ``random`` and ``trivial`` use only how many units they mark.
        format: of the real hints.
        seed: with the text decides what is drawn.
    """
    return controlled(name, control_inputs(explanations, format), seed)


def controlled(name: str, inputs: Sequence[ControlInput], seed: int) -> list[Hint]:
    """As ``control``, where hints did not come from explanations, as for questions."""
    if name not in CONTROLS:
        raise UnknownNameError(unknown("control", name, list(CONTROLS)))
    return CONTROLS[name](inputs, seed)


def control_inputs(explanations: Sequence[Explanation], format: HintFormat) -> list[ControlInput]:
    """What controls may use of these explanations."""
    predictions = [explanation.prediction for explanation in explanations]
    numbers = [prediction.outputs[0] for prediction in predictions if prediction.is_regression]
    middle = float(np.median(numbers)) if numbers else math.nan
    return [
        ControlInput(explanation.example, format.hint(explanation), label, classes)
        for explanation, (label, classes) in zip(explanations, map(_class, predictions, repeat(middle)), strict=True)
    ]


def random(inputs: Sequence[ControlInput], seed: int) -> list[Hint]:
    """As many units drawn at random; the highest scores of the method ``random`` with this seed.

    Dense hints become the positive part of these scores. Phrases of links move together to any place of their field.
    """
    return [_random(given, seed) for given in inputs]


def trivial(inputs: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The label and nothing else: the last class marks the first block of units, the one before it the next.

    For (negative, positive) and k % of the units that is the paper's: the first k % for positive, the next k % for
    negative. A block is as large as the real hint; a dense hint counts by its units above half of its largest weight.
    Blocks that would run over the end start again at the beginning.
    """
    return [_block(given) for given in inputs]


def label_leak(inputs: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The hint of another text with the same predicted label, carried over by relative position.

    It keeps what explanations of a class have in common whatever the text: the label, in a pattern. The other text is
    drawn from the different texts of the class whose hints are not empty; where there is none, this is ``random``. A
    set stays a set as large as the text's own: the units on which most of the other's weight falls.
    """
    by_class: dict[int, dict[str, Hint]] = {}
    for given in inputs:
        if given.hint.weights.any():
            by_class.setdefault(given.label, {})[given.example.fingerprint] = given.hint
    donors = {label: sorted(hints.items(), key=lambda item: item[0]) for label, hints in by_class.items()}
    return [_leaked(given, donors.get(given.label, []), seed) for given in inputs]


def shuffled_positions(inputs: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The text's own weights at other units; neighbours in a set move together.

    It keeps how strong the weights are, or how long the runs of marked units. For a set of single units
    this is ``random`` with other draws.
    """
    return [_shuffled(given, seed) for given in inputs]


CONTROLS: dict[str, Callable[[Sequence[ControlInput], int], list[Hint]]] = {
    "random": random,
    "trivial": trivial,
    "label_leak": label_leak,
    "shuffled_positions": shuffled_positions,
}


def corrupted(hint: Hint, noise: float, seed: int) -> Hint:
    """The hint with each marked unit, and each link, removed with probability ``noise``; with 1 it is empty.

    What is removed at one noise is removed at every higher one with the same seed. The remaining weights add up to one.
    """
    if not 0 <= noise <= 1:
        raise ParameterError(f"noise must be from 0 to 1, got {noise!r}")
    rng = np.random.default_rng([seed, _fingerprint(hint)])
    kept = rng.random(len(hint.weights)) >= noise
    kept_links = rng.random(len(hint.links)) >= noise
    links = tuple(link for link, keep in zip(hint.links, kept_links, strict=True) if keep)
    return Hint(hint.spans, normalised(hint.weights * kept), links)


def _class(prediction: Prediction, middle: float) -> tuple[int, int]:
    """The predicted class and how many there are; of a number, whether it is above ``middle``."""
    if prediction.is_regression:
        return int(prediction.outputs[0] > middle), 2
    return prediction.index, len(prediction.outputs)


def _random(given: ControlInput, seed: int) -> Hint:
    rng = generator(seed, given.example)
    if given.hint.links:
        return linked(given.example, [_moved(link, given.example, rng) for link in given.hint.links])
    return _random_units(given, rng)


def _random_units(given: ControlInput, rng: np.random.Generator) -> Hint:
    weights = given.hint.weights
    scores = rng.uniform(-1, 1, len(weights))
    if _is_set(weights):
        return Hint(given.hint.spans, normalised(highest(scores, _count(weights), given.example)))
    return Hint(given.hint.spans, normalised(np.maximum(scores, 0.0)))


def _moved(link: Link, example: Example, rng: np.random.Generator) -> Link:
    """Both phrases somewhere else in their fields, as many words long."""

    def elsewhere(phrase: Span) -> Span:
        words = word_spans(example.texts[phrase.field], phrase.field)
        length = sum(overlaps(word, phrase) for word in words)
        if length == 0:
            return phrase
        first = int(rng.integers(len(words) - length + 1))
        return Span(words[first].start, words[first + length - 1].end, phrase.field)

    return elsewhere(link[0]), elsewhere(link[1])


def _block(given: ControlInput) -> Hint:
    weights = given.hint.weights
    marked = np.zeros(len(weights), dtype=np.bool_)
    if weights.any():
        size = _count(weights >= weights.max() / 2)
        marked[((given.classes - 1 - given.label) * size + np.arange(size)) % len(weights)] = True
    return Hint(given.hint.spans, normalised(marked))


def _leaked(given: ControlInput, donors: Sequence[tuple[str, Hint]], seed: int) -> Hint:
    own, rng = given.hint.weights, generator(seed, given.example)
    if not own.any() or len(donors) < 2:  # one of them is the text itself
        return _random_units(given, rng)
    drawn = int(rng.integers(len(donors) - 1))
    drawn += donors[drawn][0] >= given.example.fingerprint
    mass = _carried(donors[drawn][1].weights, len(own))
    if _is_set(own):
        size = min(_count(own), _count(mass))
        return Hint(given.hint.spans, normalised(highest(mass, size, given.example)))
    return Hint(given.hint.spans, normalised(mass))


def _carried(weights: Floats, n: int) -> Floats:
    """Weights of a text laid over one of ``n`` units as if both were equally long; each unit takes what falls on it."""
    edges = np.linspace(0, 1, n + 1)
    share = np.interp(edges, np.linspace(0, 1, len(weights) + 1), np.concatenate([[0.0], np.cumsum(weights)]))
    mass = np.diff(share)
    return np.where(mass > 1e-9, mass, 0.0)


def _shuffled(given: ControlInput, seed: int) -> Hint:
    weights = given.hint.weights
    if not weights.any():
        return Hint(given.hint.spans, weights)
    apart = (weights[1:] == 0) | (weights[:-1] == 0) if _is_set(weights) else np.ones(len(weights) - 1, dtype=np.bool_)
    runs = np.concatenate([[0], np.cumsum(apart)])  # which run a unit is in
    places = generator(seed, given.example).permutation(runs[-1] + 1)
    return Hint(given.hint.spans, weights[np.argsort(places[runs], kind="stable")])


def _count(weights: Floats | NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(weights))


def _is_set(weights: Floats) -> bool:
    return not weights.any() or bool(np.ptp(weights[weights > 0]) == 0)


def _fingerprint(hint: Hint) -> int:
    plain = repr((hint.spans, hint.weights.tolist(), hint.links)).encode()
    return int(hashlib.sha256(plain).hexdigest()[:16], 16)
