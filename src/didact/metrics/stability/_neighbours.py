"""Which texts are near each other, by their words or by vectors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from didact.types import Floats

Ints = NDArray[np.int64]
LONGEST = 4


@dataclass(frozen=True, eq=False)
class Near:
    """A text's neighbours, nearest first, and how similar each is."""

    numbers: Ints
    similarities: Floats


def nearest(similarities: Floats, names: Sequence[str], count: int) -> list[Near]:
    """The most similar other texts of each; equal similarities are ordered by ``names``, not by place.

    Args:
        similarities: (texts, texts).
        names: what orders texts that are equally similar.
        count: how many neighbours, or as many as there are.
    """
    by_name = np.argsort(np.argsort(np.array(names), kind="stable"), kind="stable")
    neighbours = []
    for number, row in enumerate(similarities):
        order = np.lexsort((by_name, -row))
        order = order[order != number][:count]
        neighbours.append(Near(order, row[order]))
    return neighbours


@functools.lru_cache(maxsize=16)
def nearest_by_words(texts: tuple[tuple[str, ...], ...], names: tuple[str, ...], count: int) -> list[Near]:
    """``nearest`` by ``lexical``, kept for the metrics and the explainers that follow: it takes as long as they do."""
    return nearest(lexical(texts), names, count)


def lexical(texts: Sequence[Sequence[str]]) -> Floats:
    """Mean over n = 1 to 4 of the Jaccard index of the texts' sets of n-grams: (texts, texts).

    An n for which neither text is long enough is left out of the mean.
    """
    total, counted = np.zeros((len(texts), len(texts))), np.zeros((len(texts), len(texts)))
    for n in range(1, LONGEST + 1):
        sets = [{tuple(words[i : i + n]) for i in range(len(words) - n + 1)} for words in texts]
        shared = _shared(sets)
        sizes = np.array([len(grams) for grams in sets])
        either = sizes[:, None] + sizes[None] - shared
        total += np.divide(shared, either, out=np.zeros_like(total), where=either > 0)
        counted += either > 0
    return np.divide(total, counted, out=np.zeros_like(total), where=counted > 0)


def semantic(vectors: Floats) -> Floats:
    """Cosines, rounded so that the batch a vector came from does not decide which text is nearest: (texts, texts)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    cosines: Floats = np.clip(unit @ unit.T, -1, 1)
    return cosines.round(5)


def _shared(sets: Sequence[set[tuple[str, ...]]]) -> Floats:
    """How many elements each two sets share, by going through the owners of every element: (texts, texts)."""
    owners: dict[tuple[str, ...], list[int]] = {}
    for number, grams in enumerate(sets):
        for gram in grams:
            owners.setdefault(gram, []).append(number)
    listed = {gram: np.array(numbers) for gram, numbers in owners.items()}
    rows = [
        np.bincount(np.concatenate([listed[gram] for gram in grams]), minlength=len(sets))
        if grams
        else np.zeros(len(sets), dtype=np.int64)
        for grams in sets
    ]
    return np.array(rows, dtype=np.float64)
