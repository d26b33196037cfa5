"""How well scores predict what the explained model does to a text, measured by a few evaluations of it.

Scores that are right about a text add up: with some units taken away, what the model says falls the more the larger
the scores of these are. A few random masks show whether that holds, on texts of any kind, for a small part of what a
slow explainer costs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from didact.protocols import Model
from didact.types import Explanation, Floats, Keep

CHECKS = 16
"""Masks per text."""


def misfits(model: Model, explanations: Sequence[Explanation], checks: int = CHECKS) -> Floats:
    """1 - the correlation of the kept units' scores with the explained number over random masks, from 0 to 2.

    1, as for scores that say nothing, where there is no correlation: of a single unit, or where nothing changes.

    Args:
        model: the explained model.
        explanations: of texts; the masks of one depend on its text alone.
        checks: masks per text.
    """
    if not explanations:
        return np.empty(0)
    keep = [_masks(one, checks) for one in explanations]
    values = model.score([one.units for one in explanations], [one.target for one in explanations], keep)
    pairs = zip(explanations, keep, values, strict=True)
    return np.array([1.0 - _correlation(mask @ one.array, value) for one, mask, value in pairs])


def _masks(explanation: Explanation, checks: int) -> Keep:
    """Each unit is kept in half of the masks on average: (checks, units)."""
    rng = np.random.default_rng(zlib.crc32(explanation.example.fingerprint.encode()))
    return rng.random((checks, len(explanation.units))) < 0.5


def _correlation(first: Floats, second: Floats) -> float:
    if np.ptp(first) <= 1e-12 or np.ptp(second) <= 1e-12:
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
