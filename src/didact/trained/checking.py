"""How well scores predict what the explained model does to a text, measured by a few evaluations of it.

Scores that are right about a text add up: with some units taken away, what the model says falls the more the larger
the scores of these are. A few random masks show whether that holds, on texts of any kind, for a small part of what a
slow explainer costs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from didact.ops.regression import weighted_ridge
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.types import Explanation, Floats, Keep

CHECKS = 16
"""Masks per text."""
FEATURES = ("misfit", "order")
_PENALTY = 1 / 40
"""Of the linear fit, for each mask: a tenth of what a unit varies over the masks."""


def checked(model: Model, explanations: Sequence[Explanation], checks: int = CHECKS) -> Floats:
    """How far scores are from what a model does under random masks: (explanations, features), as in ``FEATURES``.

    "misfit" is 1 - the correlation of the kept units' scores with the explained number over the masks; "order" is 1 -
    the rank correlation of the scores with the coefficients of a linear fit of that number. Both are from 0 to 2, and
    1, as for scores that say nothing, where there is no correlation: of a single unit, or where nothing changes.

    Args:
        model: the explained model.
        explanations: of texts; the masks of one depend on its text alone.
        checks: masks per text.
    """
    if not explanations:
        return np.empty((0, len(FEATURES)))
    keep = [_masks(one, checks) for one in explanations]
    values = model.score([one.units for one in explanations], [one.target for one in explanations], keep)
    pairs = zip(explanations, keep, values, strict=True)
    return np.array([[_misfit(*parts), _order(*parts)] for parts in pairs])


def _misfit(one: Explanation, mask: Keep, values: Floats) -> float:
    return 1.0 - _correlation(mask @ one.array, values)


def _order(one: Explanation, mask: Keep, values: Floats) -> float:
    if np.ptp(values) <= 1e-12 or np.ptp(one.array) <= 1e-12:
        return 1.0
    fitted, _, _ = weighted_ridge(mask, values, np.ones(len(mask)), 1.0 + _PENALTY * len(mask))
    return 1.0 - float(np.nan_to_num(spearman(one.array, fitted)))


def _masks(explanation: Explanation, checks: int) -> Keep:
    """Each unit is kept in half of the masks on average: (checks, units)."""
    rng = np.random.default_rng(zlib.crc32(explanation.example.fingerprint.encode()))
    return rng.random((checks, len(explanation.units))) < 0.5


def _correlation(first: Floats, second: Floats) -> float:
    if np.ptp(first) <= 1e-12 or np.ptp(second) <= 1e-12:
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
