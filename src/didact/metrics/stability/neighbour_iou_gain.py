"""Neighbour IoU gain: how much more alike explanations of similar texts are than by chance."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.metrics._words import Words, mean_defined
from didact.metrics.base import register
from didact.metrics.stability._neighbours import Near
from didact.metrics.stability.neighbour_iou import NeighbourIou, graded
from didact.settings import at_least
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="neighbour_iou_gain",
        family="stability",
        summary="Overlap of a text's important words with those of similar texts, less that of shuffled scores.",
        reference="Situ et al. 2021 (L2E), Eq. 1, corrected for chance",
        low=-1.0,
        high=1.0,
        needs=frozenset({"corpus", "text"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class NeighbourIouGain(NeighbourIou):
    """``neighbour_iou`` less what the same scores get when each text's are shuffled over its words.

    Similar texts share words, and whoever calls many words important, or common ones, overlaps by chance. Shuffled
    scores have the same labels as often, and the same neighbours, but say nothing about the words: a mean above 0 is
    stability that the explanations have. The parts are the overlap itself ("overlap"), that by chance ("chance"), and
    those of ``neighbour_iou``.

    A text and its neighbours are shuffled apart, also where they are equal. What is drawn depends on the text, the draw
    and the seed alone, not on the company of other texts.

    Args:
        similarity: as for ``neighbour_iou``.
        by: likewise.
        high: likewise.
        neighbours: likewise.
        max_words: likewise.
        share: likewise.
        encoder: likewise.
        draws: how often scores are shuffled.
        seed: of the shuffles.

    Example:
        >>> NeighbourIouGain(similarity="semantic", by="labels").measure(evidence)  # doctest: +SKIP
    """

    draws: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, draws=1, seed=0)

    def compared(self, words: Sequence[Words], near: Sequence[Near], names: Sequence[str]) -> list[Grade]:
        """The overlaps, each less the mean over the draws."""
        plain = super().compared(words, near, names)
        drawn = [self._by_chance(words, near, names, draw) for draw in range(self.draws)]
        chance = [mean_defined(values) for values in zip(*drawn, strict=True)]
        return [
            Grade(grade.value - level, {"overlap": grade.value, "chance": level, **grade.parts})
            for grade, level in zip(plain, chance, strict=True)
        ]

    def _by_chance(self, words: Sequence[Words], near: Sequence[Near], names: Sequence[str], draw: int) -> list[float]:
        """Overlaps of shuffled scores."""
        mine, theirs = (
            [self.sets(self._shuffled(text, (zlib.crc32(name.encode()), draw, role))) for text, name in pairs]
            for role, pairs in enumerate([list(zip(words, names, strict=True))] * 2)
        )
        return [
            graded(own, [theirs[place] for place in neighbours.numbers], neighbours).value
            for own, neighbours in zip(mine, near, strict=True)
        ]

    def _shuffled(self, words: Words, key: tuple[int, ...]) -> Words:
        order = np.random.default_rng([self.seed, *key]).permutation(len(words))
        return Words(words.fields, words.regions, words.scores[order])
