"""Hints that should teach nothing, or less: what an explanation must beat before its gain means anything.

Each control looks at the hints it stands in for and says equally much: as many units of each text, none where they say
nothing. What it says depends on the seed and the text, not on the order of the texts. Links between phrases are kept by
``random`` alone, at other places; the other controls say nothing to a channel that goes by links.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from didact.attribution.base import generator
from didact.errors import ParameterError, UnknownNameError
from didact.ops.units import word_spans
from didact.registry import unknown
from didact.simulation.hints import HintFormat, Link, highest, linked, normalised
from didact.students.base import Hint
from didact.types import Example, Explanation, Floats, Prediction, Span, overlaps

NOISE_LEVELS: tuple[float, ...] = tuple(step / 10 for step in range(11))
"""How likely a marked unit is lost, for a curve of accuracy against noise."""


@dataclass(frozen=True, eq=False)
class ControlInput:
    """What a control may know of one text.

    Attributes:
        example: the text.
        hint: what is told of it in earnest.
        label: the class that the teacher predicts; 0 where there are none.
        classes: how many there are.
    """

    example: Example
    hint: Hint
    label: int = 0
    classes: int = 1


def control(name: str, explanations: Sequence[Explanation], format: HintFormat, seed: int) -> list[Hint]:
    """One hint per explanation that stands in for the real one.

    For a teacher that predicts numbers, the two classes are above the median of the given predictions, and not.

    Args:
        name: of the control, a key of ``CONTROLS``.
        explanations: of the texts; ``random`` and ``trivial`` take from them no more than how much they mark.
        format: of the real hints.
        seed: with the text decides what is drawn.
    """
    return controlled(name, told_by(explanations, format), seed)


def controlled(name: str, told: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The same where hints did not come from explanations, as for questions."""
    if name not in CONTROLS:
        raise UnknownNameError(unknown("control", name, list(CONTROLS)))
    return CONTROLS[name](told, seed)


def told_by(explanations: Sequence[Explanation], format: HintFormat) -> list[ControlInput]:
    """What controls may know of these explanations."""
    predictions = [explanation.prediction for explanation in explanations]
    numbers = [prediction.outputs[0] for prediction in predictions if prediction.is_regression]
    middle = float(np.median(numbers)) if numbers else math.nan
    return [
        ControlInput(explanation.example, format.hint(explanation), label, classes)
        for explanation, (label, classes) in zip(explanations, map(_class, predictions, repeat(middle)), strict=True)
    ]


def random(told: Sequence[ControlInput], seed: int) -> list[Hint]:
    """As many units drawn at random; the highest scores of the method ``random`` with this seed.

    Dense hints become the positive part of these scores. Phrases of links move together to any place of their field.
    """
    return [_random(one, seed) for one in told]


def trivial(told: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The label and nothing else: the last class marks the first block of units, the one before it the next.

    For (negative, positive) and k % of the units that is the paper's: the first k % for positive, the next k % for
    negative. A block is as large as the hint it stands in for; a dense hint counts by its units above half of its
    largest weight. Blocks that would run over the end start again at the beginning.
    """
    return [_block(one) for one in told]


def label_leak(told: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The hint of another text with the same predicted label, carried over by relative position.

    What it still tells is what explanations of a class have in common whatever the text: the label, in a pattern. The
    other text is drawn from those of the class that differ and are told something; where there is none, this is
    ``random``. A set stays a set as large as the text's own: the units on which most of the other's weight falls.
    """
    by_class: dict[int, dict[str, Hint]] = {}
    for one in told:
        if one.hint.weights.any():
            by_class.setdefault(one.label, {})[one.example.fingerprint] = one.hint
    donors = {label: sorted(hints.items(), key=lambda item: item[0]) for label, hints in by_class.items()}
    return [_leaked(one, donors.get(one.label, []), seed) for one in told]


def shuffled_positions(told: Sequence[ControlInput], seed: int) -> list[Hint]:
    """The text's own weights at other units; neighbours in a set move together.

    What it still tells is how strong the weights are, or how long the runs of marked units. For a set of single units
    this is ``random`` with other draws.
    """
    return [_shuffled(one, seed) for one in told]


CONTROLS: dict[str, Callable[[Sequence[ControlInput], int], list[Hint]]] = {
    "random": random,
    "trivial": trivial,
    "label_leak": label_leak,
    "shuffled_positions": shuffled_positions,
}


def corrupted(hint: Hint, noise: float, seed: int) -> Hint:
    """The hint with each marked unit, and each link, lost with probability ``noise``; with 1 it says nothing.

    What is lost at one noise is lost at every higher one with the same seed. The weights that are left add up to one.
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


def _random(one: ControlInput, seed: int) -> Hint:
    rng = generator(seed, one.example)
    if one.hint.links:
        return linked(one.example, [_moved(link, one.example, rng) for link in one.hint.links])
    return _random_units(one, rng)


def _random_units(one: ControlInput, rng: np.random.Generator) -> Hint:
    weights = one.hint.weights
    scores = rng.uniform(-1, 1, len(weights))
    if _is_set(weights):
        return Hint(one.hint.spans, normalised(highest(scores, _count(weights), one.example)))
    return Hint(one.hint.spans, normalised(np.maximum(scores, 0.0)))


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


def _block(one: ControlInput) -> Hint:
    weights = one.hint.weights
    marked = np.zeros(len(weights), dtype=np.bool_)
    if weights.any():
        size = _count(weights >= weights.max() / 2)
        marked[((one.classes - 1 - one.label) * size + np.arange(size)) % len(weights)] = True
    return Hint(one.hint.spans, normalised(marked))


def _leaked(one: ControlInput, donors: Sequence[tuple[str, Hint]], seed: int) -> Hint:
    own, rng = one.hint.weights, generator(seed, one.example)
    if not own.any() or len(donors) < 2:  # one of them is the text itself
        return _random_units(one, rng)
    drawn = int(rng.integers(len(donors) - 1))
    drawn += donors[drawn][0] >= one.example.fingerprint
    mass = _carried(donors[drawn][1].weights, len(own))
    if _is_set(own):
        size = min(_count(own), _count(mass))
        return Hint(one.hint.spans, normalised(highest(mass, size, one.example)))
    return Hint(one.hint.spans, normalised(mass))


def _carried(weights: Floats, n: int) -> Floats:
    """Weights of a text laid over one of ``n`` units as if both were equally long; each unit takes what falls on it."""
    edges = np.linspace(0, 1, n + 1)
    share = np.interp(edges, np.linspace(0, 1, len(weights) + 1), np.concatenate([[0.0], np.cumsum(weights)]))
    mass = np.diff(share)
    return np.where(mass > 1e-9, mass, 0.0)


def _shuffled(one: ControlInput, seed: int) -> Hint:
    weights = one.hint.weights
    if not weights.any():
        return Hint(one.hint.spans, weights)
    apart = (weights[1:] == 0) | (weights[:-1] == 0) if _is_set(weights) else np.ones(len(weights) - 1, dtype=np.bool_)
    runs = np.concatenate([[0], np.cumsum(apart)])  # which run a unit is in
    places = generator(seed, one.example).permutation(runs[-1] + 1)
    return Hint(one.hint.spans, weights[np.argsort(places[runs], kind="stable")])


def _count(weights: NDArray[Any]) -> int:
    return int(np.count_nonzero(weights))


def _is_set(weights: Floats) -> bool:
    return not weights.any() or bool(np.ptp(weights[weights > 0]) == 0)


def _fingerprint(hint: Hint) -> int:
    plain = repr((hint.spans, hint.weights.tolist(), hint.links)).encode()
    return int(hashlib.sha256(plain).hexdigest()[:16], 16)
