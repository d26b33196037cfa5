"""Broken copies of explanations: a metric that grades them as well as the real ones is measuring something else."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from didact.attribution.base import generator
from didact.types import Explanation


def broken(null: str, explanations: Sequence[Explanation], seed: int = 0) -> list[Explanation]:
    """The explanations of all examples, broken in a named way ("shuffle"); "" leaves them as they are."""
    return [_shuffled(explanation, seed) for explanation in explanations] if null == "shuffle" else list(explanations)


def _shuffled(explanation: Explanation, seed: int) -> Explanation:
    """The same scores at other units: what is left is their distribution."""
    order = generator(seed, explanation.example).permutation(len(explanation.scores))
    errors = tuple(explanation.errors[i] for i in order) if explanation.errors else ()
    return dataclasses.replace(explanation, scores=tuple(explanation.scores[i] for i in order), errors=errors)
