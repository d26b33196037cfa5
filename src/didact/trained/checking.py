"""How well scores predict what the explained model does to a text, measured by a few evaluations of it.

Scores that are right about a text add up: with some units taken away, what the model says falls the more the larger
the scores of these are. A few random masks show whether that holds, on texts of any kind, for a small part of what a
slow explainer costs. A quick method, such as DeepLIFT, may stand beside the scores as well: where it is like the
reference, scores that are far from it are far from the reference.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from didact.attribution.base import ATTRIBUTIONS, Attribution
from didact.ops.regression import weighted_ridge
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.types import Explanation, Floats, Keep, Level

CHECKS = 16
"""Masks per text."""
FEATURES = ("misfit", "order", "beside")
"""What is measured; the last one where a quick method is given."""
_PENALTY = 1 / 40
"""Of the linear fit, for each mask: a tenth of what a unit varies over the masks."""


def checked(
    model: Model, explanations: Sequence[Explanation], checks: int = CHECKS, beside: str | None = None
) -> Floats:
    """How far scores are from what a model does under random masks: (explanations, features), as in ``FEATURES``.

    "misfit" is 1 - the correlation of the kept units' scores with the explained number over the masks; "order" is 1 -
    the rank correlation of the scores with the coefficients of a linear fit of that number; "beside" is 1 - the rank
    correlation with the scores of the quick method. All are from 0 to 2, and 1, as for scores that say nothing, where
    there is no correlation: of a single unit, or where nothing changes.

    Args:
        model: the explained model.
        explanations: of texts; the masks of one depend on its text alone.
        checks: masks per text.
        beside: name of the quick method.
    """
    if not explanations:
        return np.empty((0, len(FEATURES) - (beside is None)))
    keep = [_masks(one, checks) for one in explanations]
    values = model.score([one.units for one in explanations], [one.target for one in explanations], keep)
    pairs = zip(explanations, keep, values, strict=True)
    found = np.array([[_misfit(*parts), _order(*parts)] for parts in pairs])
    if beside is None:
        return found
    method = quick_method(beside, explanations[0].units.level)
    made = method.explain(model, [one.example for one in explanations], [one.target for one in explanations])
    apart = [_apart(one.array, other.array) for one, other in zip(explanations, made, strict=True)]
    return np.column_stack([found, apart])


def quick_method(name: str, level: Level | None = None) -> Attribution:
    """The method of this name, for units of a level."""
    return ATTRIBUTIONS.get(name).configured(level=level)


def _misfit(one: Explanation, mask: Keep, values: Floats) -> float:
    return 1.0 - _correlation(mask @ one.array, values)


def _order(one: Explanation, mask: Keep, values: Floats) -> float:
    if np.ptp(values) <= 1e-12 or np.ptp(one.array) <= 1e-12:
        return 1.0
    fitted, _, _ = weighted_ridge(mask, values, np.ones(len(mask)), 1.0 + _PENALTY * len(mask))
    return _apart(one.array, fitted)


def _apart(scores: Floats, others: Floats) -> float:
    return 1.0 - float(np.nan_to_num(spearman(scores, others)))


def _masks(explanation: Explanation, checks: int) -> Keep:
    """Each unit is kept in half of the masks on average: (checks, units)."""
    rng = np.random.default_rng(zlib.crc32(explanation.example.fingerprint.encode()))
    return rng.random((checks, len(explanation.units))) < 0.5


def _correlation(first: Floats, second: Floats) -> float:
    if np.ptp(first) <= 1e-12 or np.ptp(second) <= 1e-12:
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
