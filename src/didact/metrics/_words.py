"""Words, or patches, of explanations and soft sets of them, for metrics that compare explanations one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from didact.errors import InputError
from didact.ops.units import group_words
from didact.types import Explanation, Field, Floats, Region, Span


@dataclass(frozen=True, eq=False)
class Words:
    """The words that the model saw of one text, or the patches of an image, each with its score."""

    fields: tuple[Field, ...]
    regions: tuple[Region, ...]
    scores: Floats

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Where the words stand; of texts alone."""
        return tuple(region for region in self.regions if isinstance(region, Span))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """As written in the source; a part of an image has no text."""
        return tuple(_written(self.fields[region.field], region) for region in self.regions)

    def where(self, chosen: Iterable[bool]) -> Words:
        """Only these words."""
        index = np.flatnonzero(np.fromiter(chosen, dtype=np.bool_, count=len(self)))
        return Words(self.fields, tuple(self.regions[i] for i in index), self.scores[index])


def words_of(explanation: Explanation) -> Words:
    """An explanation's words or patches; the scores of a word's tokens are summed."""
    units, scores = explanation.units, explanation.array
    if units.level != "token":
        return Words(explanation.example.fields, units.regions, scores)
    fields = explanation.example.texts
    spans, members = group_words(fields, [(span.field, span.start, span.end) for span in units.spans])
    return Words(fields, tuple(spans), np.array([scores[own].sum() for own in members], dtype=np.float64))


def shared_scores(first: Explanation, second: Explanation) -> tuple[Floats, Floats]:
    """Scores of both explanations on the words that both have."""
    if first.example.fields != second.example.fields:
        raise InputError(
            f"explanations of the same texts are compared, but {first.example.preview} is paired with "
            f"{second.example.preview}; give them in the same order"
        )
    a, b = words_of(first), words_of(second)
    if a.regions == b.regions:
        return a.scores, b.scores
    place = {region: number for number, region in enumerate(b.regions)}
    both = [(number, place[region]) for number, region in enumerate(a.regions) if region in place]
    return a.scores[[i for i, _ in both]], b.scores[[j for _, j in both]]


def top(scores: Floats, k: int) -> Floats:
    """Membership of each word in the set of the ``k`` highest scores.

    1 above the cut and 0 below it; words tied at the cut share the places that are left, so that the order of the
    words decides nothing. The memberships add up to ``k``.
    """
    k = min(k, len(scores))
    if k == 0:
        return np.zeros(len(scores))
    cut = np.sort(scores)[len(scores) - k]
    above, tied = scores > cut, scores == cut
    left = (k - int(above.sum())) / int(tied.sum())
    return np.where(above, 1.0, np.where(tied, left, 0.0))


def top_size(n: int, share: float) -> int:
    """How many of ``n`` words a share is: rounded up, so that it is at least one."""
    return math.ceil(share * n - 1e-9)  # 0.07 * 100 is a little more than 7


def overlap(first: Floats, second: Floats) -> float:
    """Size of the intersection of two soft sets."""
    return float(np.minimum(first, second).sum())


def union(first: Floats, second: Floats) -> float:
    """Size of the union of two soft sets."""
    return float(np.maximum(first, second).sum())


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the values that are defined; NaN when none is."""
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def mean_parts(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Name by name the mean over several sets of parts."""
    rows = list(parts)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: mean_defined(row.get(name, math.nan) for row in rows) for name in names}


def _written(source: Field, region: Region) -> str:
    return source[region.start : region.end] if isinstance(region, Span) and isinstance(source, str) else ""
