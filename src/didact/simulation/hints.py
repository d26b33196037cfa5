"""From explanations to hints: sets of the highest scored units, or distributions over all; how large, how alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from didact.attribution.base import generator
from didact.errors import InputError, ParameterError
from didact.ops.units import word_spans
from didact.registry import unknown
from didact.students.base import Hint
from didact.types import Example, Explanation, Floats, Region, Span, overlap_matrix

Distribution = Literal["softmax", "sparsemax"]
"""From all scores to weights that add up to one: of all units, or of few."""

Kind = Literal["top", "dense", "softmax", "sparsemax"]
KINDS: tuple[Kind, ...] = ("top", "dense", "softmax", "sparsemax")

Link = tuple[Span, Span]


@dataclass(frozen=True)
class HintFormat:
    """How much of an explanation a student sees; the hints of all methods have the same format.

    "top" is a set: the ``share`` of the units with the largest scores, rounded up and so at least one, all of the same
    weight. Each method then transmits equally much. Units tied at the cut are drawn by lot (of the text, so it is the
    same lot everywhere): their order would be information of its own. A human rationale is the whole set that people
    marked.

    "dense" is a distribution: the positive part of the scores, divided by its sum. ``bits`` rounds it to 2 ** bits
    levels from zero to its largest weight and divides by the sum again. One bit is the set of the units with at least
    half of the largest weight; each further bit more than halves the error of rounding, and None leaves the weights
    as they are.

    "softmax" is a distribution, too: exp(score / temperature), divided by its sum. No unit is left out, and a negative
    score is only a small one. All explanations of SMaT have this form, the static ones too.

    "sparsemax" is the distribution that is nearest to score / temperature: units far below the best ones have weight 0,
    and the lower the temperature, the fewer are marked.

    The weights of a hint add up to one, or are all zero where the explanation is empty: all scores zero, for "dense"
    none positive.

    Args:
        kind: "top", "dense", "softmax" or "sparsemax".
        share: of the units, for "top".
        bits: per unit, for "dense"; None does not round.
        temperature: for "softmax" and "sparsemax"; the lower, the more the largest scores stand out. 1 when not given.
        absolute: take scores without their sign: evidence against the prediction is included.

    Example:
        >>> HintFormat(share=0.2).hint(explanation)  # doctest: +SKIP
    """

    kind: Kind = "top"
    share: float = 0.1
    bits: int | None = None
    absolute: bool = False
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(unknown("kind of hint", self.kind, KINDS))
        if not 0 < self.share <= 1:
            raise ParameterError(f"share of a hint must be above 0 and at most 1, got {self.share!r}")
        if self.bits is not None and not 1 <= self.bits <= 32:
            raise ParameterError(f"bits of a hint must be from 1 to 32, or None not to round; got {self.bits!r}")
        if self.bits is not None and self.kind == "top":
            raise ParameterError("bits round a dense hint; a top set is one bit per unit already: give kind='dense'")
        if self.bits is not None and self.kind in get_args(Distribution):
            raise ParameterError(
                f"bits round a dense hint, not the {self.kind} of scores: give kind='dense', or no bits"
            )
        self._check_temperature()

    def _check_temperature(self) -> None:
        if self.temperature is None:
            return
        if self.kind not in get_args(Distribution):
            raise ParameterError(
                f"temperature is of hints of kind 'softmax' or 'sparsemax', and the kind is {self.kind!r}"
            )
        if not 0 < self.temperature < math.inf:
            raise ParameterError(f"temperature of a hint must be above 0, got {self.temperature!r}")

    def hint(self, explanation: Explanation) -> Hint:
        """The hint of one explanation."""
        scores = np.abs(explanation.array) if self.absolute else explanation.array
        if not scores.any():
            weights = np.zeros(len(scores))
        elif self.kind == "dense":
            weights = normalised(np.maximum(scores, 0.0))
            weights = weights if self.bits is None else rounded(weights, self.bits)
        elif explanation.method == "human":
            weights = normalised(scores > 0)
        elif self.kind == "top":
            weights = normalised(highest(scores, part(len(scores), self.share), explanation.example))
        else:
            weights = distribution(scores, self.kind, 1.0 if self.temperature is None else self.temperature)
        return Hint(explanation.units.regions, weights)

    def hints(self, explanations: Sequence[Explanation]) -> list[Hint]:
        """One hint per explanation."""
        return [self.hint(explanation) for explanation in explanations]


def linked(example: Example, links: Sequence[Link]) -> Hint:
    """A hint of phrases that mean the same, for questions: the links, and the set of all words in any of them.

    The set is for channels that do not use links.
    """
    spans = tuple(span for field, text in enumerate(example.texts) for span in word_spans(text, field))
    phrases = tuple(phrase for link in links for phrase in link)
    marked = np.array(overlap_matrix(spans, phrases).any(axis=1))
    return Hint(spans, normalised(marked), tuple(links))


def size_in_bits(hint: Hint) -> float:
    """Information in a hint: bits that encode which unit has which weight, given how often each weight occurs.

    The logarithm of the number of ways to deal the weights out over the units: log2 of n choose k for a set of k of n
    units, at most ``bits`` per unit for a rounded hint, nothing where all weights are equal. Where all of n weights
    differ it is their order alone, log2 n!; the numbers themselves would come on top. Links are not counted.
    """
    _, counts = np.unique(hint.weights, return_counts=True)
    ways = math.lgamma(len(hint.weights) + 1) - sum(math.lgamma(count + 1) for count in counts.tolist())
    return max(0.0, ways / math.log(2))


def overlap(hints: Mapping[str, Sequence[Hint]]) -> tuple[list[str], Floats]:
    """How much the sets of several methods have in common, as Pruthi et al. compare their top 10 %.

    For two sets of one text: the share of the marked units of both that touch a marked unit of the other. With the same
    units and equally large sets that is the common units over the size of a set.

    Args:
        hints: one list per method, all of the same texts in the same order; units may differ.

    Returns:
        The names and the matrix of means over the texts for which both methods have hints; NaN where there is none.
    """
    names = list(hints)
    if len({len(own) for own in hints.values()}) > 1:
        counts = ", ".join(f"{name} {len(own)}" for name, own in hints.items())
        raise InputError(f"hints of the same texts are compared, but their numbers differ: {counts}")
    matrix = np.full((len(names), len(names)), np.nan)
    for row, first in enumerate(names):
        for column, second in enumerate(names[: row + 1]):
            shares = [_common(a, b) for a, b in zip(hints[first], hints[second], strict=True)]
            defined = [share for share in shares if share is not None]
            if defined:
                matrix[row, column] = matrix[column, row] = math.fsum(defined) / len(defined)
    return names, matrix


# Steps that the controls share.


def normalised(weights: Floats | NDArray[np.bool_]) -> Floats:
    """Divided by the sum; zeros stay zeros."""
    total = weights.sum()
    return weights / total if total > 0 else np.zeros(len(weights))


def softmax(scores: Floats, temperature: float = 1.0) -> Floats:
    """exp(score / temperature), divided by the sum."""
    return normalised(np.exp((scores - scores.max()) / temperature))


def sparsemax(scores: Floats, temperature: float = 1.0) -> Floats:
    """max(score / temperature - tau, 0), with tau such that they add up to one."""
    scaled = (scores - scores.max()) / temperature
    falling = np.sort(scaled)[::-1]
    sums, counts = falling.cumsum(), np.arange(1, len(falling) + 1)
    kept = np.flatnonzero(1 + counts * falling > sums)[-1]
    return np.asarray(np.maximum(scaled - (sums[kept] - 1) / counts[kept], 0.0))


def distribution(scores: Floats, kind: Distribution, temperature: float = 1.0) -> Floats:
    """Weights of the units by the name of the distribution."""
    return (softmax if kind == "softmax" else sparsemax)(scores, temperature)


def rounded(weights: Floats, bits: int) -> Floats:
    """To 2 ** bits levels from zero to the largest weight, halves upwards, and normalised again."""
    largest = weights.max(initial=0.0)
    if largest == 0:
        return weights
    return normalised(np.floor(weights / largest * (2**bits - 1) + 0.5))


def part(n: int, share: float) -> int:
    """How many of ``n`` units a share is: rounded up."""
    return math.ceil(share * n - 1e-9)  # 0.07 * 100 is a little more than 7


def highest(scores: Floats, size: int, example: Example) -> NDArray[np.bool_]:
    """Membership in the set of the ``size`` largest scores; ties at the cut by the text's lot."""
    lot = generator(0, example).random(len(scores))
    members = np.zeros(len(scores), dtype=np.bool_)
    members[np.lexsort((lot, -scores))[:size]] = True
    return members


def _common(first: Hint, second: Hint) -> float | None:
    a, b = _marked(first), _marked(second)
    if not a or not b:
        return None
    touching = overlap_matrix(a, b)
    return float(touching.any(axis=1).sum() + touching.any(axis=0).sum()) / (len(a) + len(b))


def _marked(hint: Hint) -> tuple[Region, ...]:
    return tuple(hint.spans[i] for i in np.flatnonzero(hint.weights))
