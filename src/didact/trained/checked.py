"""The expected disagreement of a learned explainer with its reference, after a few evaluations of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.errors import ParameterError
from didact.protocols import Model
from didact.trained.checking import checked
from didact.trained.explainer import LearnedExplainer
from didact.types import Explanation, Floats


def checked_disagreement(explainer: LearnedExplainer, model: Model, explanations: Sequence[Explanation]) -> Floats:
    """Expected disagreement of explanations with the reference of the explainer that made them, from 0 to 2 each.

    Args:
        explainer: with an estimate that rests on checks.
        model: the explained model; it is evaluated on each text as often as when the estimate was fitted.
        explanations: that the explainer made.
    """
    known = explainer.checked
    if known is None:
        raise ParameterError(
            "this explainer has no estimate of its disagreement that rests on checks; train it with held-out texts"
        )
    if not explanations:
        return np.empty(0)
    items = explainer.shape.read_explained(model, explanations)
    found = checked(model, explanations, known.measured.checks, known.measured.beside)
    rows = [
        known.measured.row(item, one.array, one.prediction, one.units, own)
        for item, one, own in zip(items, explanations, found, strict=True)
    ]
    return known(np.stack(rows))
