"""Area under the ROC curve of an explanation against the example's rationale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.types import Explanation, Floats, Units


def rationale_auc(explanation: Explanation) -> float:
    """Probability that a unit of the rationale scores above another unit, ties counting half.

    Signed scores count as they are: the rationale is evidence for the label, so a method that scores it negative is
    wrong. 0.5 is chance, 1.0 perfect, NaN when every unit or none is in the rationale.
    """
    if explanation.example.rationale is None:
        raise InputError(f"the example {explanation.example.text!r:.60} has no rationale to compare with")
    return roc_auc(explanation.array, in_rationale(explanation.units))


def roc_auc(scores: Floats, relevant: NDArray[np.bool_]) -> float:
    """Area under the ROC curve by counting pairs."""
    positive, negative = scores[relevant], scores[~relevant]
    if not len(positive) or not len(negative):
        return float("nan")
    difference = positive[:, None] - negative[None]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def in_rationale(units: Units) -> NDArray[np.bool_]:
    """Per unit whether the example's rationale overlaps it."""
    spans = units.example.rationale or ()
    return np.array(
        [any(s.field == u.field and s.start < u.end and u.start < s.end for s in spans) for u in units.spans],
        dtype=np.bool_,
    )
