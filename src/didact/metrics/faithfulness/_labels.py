"""The outputs of all labels at once, where one label's number is not enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.metrics.faithfulness._erasure import settled
from didact.protocols import Model
from didact.types import Explanation, Floats, Keep, Scale, Target


def score_all_labels(
    model: Model, explanations: Sequence[Explanation], keep: Sequence[Keep], absence: str
) -> list[Floats]:
    """Outputs (variants, labels) of every text, in one call that evaluates each variant once per label.

    Outputs are logits, or log-probabilities where the model has no logits; of a word's label, those of the same word.
    """
    scale: Scale = "logit" if "logit" in model.scales else "log_probability"
    size = len(model.labels)
    targets = [
        Target(number, label, scale, explanation.target.answer)
        for explanation in explanations
        for number, label in enumerate(model.labels)
    ]
    units = [explanation.units for explanation in explanations for _ in range(size)]
    rows = [masks for masks in keep for _ in range(size)]
    values = model.score(units, targets, rows, settled(model, absence))
    return [np.stack(values[start : start + size], axis=1) for start in range(0, len(values), size)]
