"""What the faithfulness metrics share: which units come first, how many, and the model's outputs without them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError, ParameterError
from didact.metrics.base import BaseMetric
from didact.ops.masking import Absence
from didact.protocols import Evidence, Model
from didact.types import Explanation, Floats, Keep, Scale, Span, Units

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rounding = Literal["ceil", "floor"]

ERASER_PERCENTS = (1.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True, kw_only=True)
class Erasure(BaseMetric):
    """Base of the metrics that look at the top percents of the units.

    Args:
        percents: how much of the text the selected units make up; the value is the mean over them.
        rounding: "ceil" takes at least one unit; "floor" is AML's rule, under which none is taken of a text of fewer
            than 100 / percent units.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.
    """

    percents: tuple[float, ...] = ERASER_PERCENTS
    rounding: Rounding = "ceil"
    absence: str = "delete"

    def __post_init__(self) -> None:
        check_percents(self)
        Absence.parse(self.absence)

    def selections(self, explanation: Explanation) -> Bools:
        """The selected units for each percent: (percents, units)."""
        n = len(explanation.units)
        counts = [count(n, percent, self.rounding) for percent in self.percents]
        return first(ranking(explanation), counts)


def ranking(explanation: Explanation) -> Ints:
    """Numbers of the units, the one that speaks most for the target first.

    Signed scores count with their sign: a unit that opposes the target comes last. Equal scores are put in an
    order drawn from the text alone, so that it is the same for every explainer and favours no place in the text.
    """
    scores = explanation.array
    order: Ints = np.argsort(-scores)
    if (np.diff(scores[order]) == 0).any():  # only then, as making a generator takes longer than all the rest
        drawn = np.random.default_rng(int(explanation.example.fingerprint, 16)).permutation(len(scores))
        order = np.lexsort((drawn, -scores))
    return order


def count(n: int, percent: float, rounding: Rounding = "ceil") -> int:
    """How many of ``n`` units ``percent`` % are."""
    exact = round(n * percent / 100, 9)  # 7 % of 100 is 7 and not a little more
    return math.ceil(exact) if rounding == "ceil" else math.floor(exact)


def first(order: Ints, counts: Sequence[int]) -> Bools:
    """Masks of the first units of an order, one row per count: (counts, units)."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place < np.array(counts, dtype=np.int64)[:, None]


def score_variants(
    model: Model,
    explanations: Sequence[Explanation],
    keep: Sequence[Keep],
    absence: str,
    scale: Scale = "probability",
) -> list[Floats]:
    """The explained output of all variants of all texts, in one call; a regression's output has no scale.

    A variant that keeps everything is not evaluated: the explanation has its value.
    """
    targets = [dataclasses.replace(explanation.target, scale=scale) for explanation in explanations]
    changed = [~masks.all(axis=1) for masks in keep]
    busy = [number for number, rows in enumerate(changed) if rows.any()]
    pairs = zip(explanations, keep, strict=True)
    outputs = [np.full(len(masks), whole(explanation, scale)) for explanation, masks in pairs]
    if busy:
        units = [explanations[i].units for i in busy]
        rows = [keep[i][changed[i]] for i in busy]
        values = model.score(units, [targets[i] for i in busy], rows, settled(model, absence, units))
        for i, value in zip(busy, values, strict=True):
            outputs[i][changed[i]] = value
    return outputs


def whole(explanation: Explanation, scale: Scale = "probability") -> float:
    """The explained output for the whole text, as the explanation has it."""
    return explanation.prediction.value(dataclasses.replace(explanation.target, scale=scale))


def settled(model: Model, absence: str, units: Sequence[Units] = ()) -> str:
    """The operator itself; the model's default for a mask token, which it may not have, and for deleted patches."""
    parts = (region for own in units for region in own.regions[:1])
    deleted = absence == "delete" and not all(isinstance(region, Span) for region in parts)
    return model.default_absence if absence == "mask" or deleted else absence


def model_of(evidence: Evidence) -> Model:
    """The explained model."""
    if evidence.model is None:
        raise InputError("the explained model is needed; give it as Evidence(..., model=...)")
    return evidence.model


def check_percents(owner: BaseMetric) -> None:
    """Refuse percents that select nothing or more than everything, or come twice; a list becomes a tuple."""
    percents = tuple(float(percent) for percent in owner.percents)  # type: ignore[attr-defined]
    if not percents or len(set(percents)) < len(percents) or not all(0 < percent <= 100 for percent in percents):
        raise ParameterError(
            f"percents of {owner.card.name} must be different numbers above 0 and up to 100, at least one, "
            f"got {percents!r}"
        )
    object.__setattr__(owner, "percents", percents)


def named(percents: Sequence[float], values: Floats) -> dict[str, float]:
    """Values by percent, for ``Grade.parts``."""
    return {f"{percent:g}%": float(value) for percent, value in zip(percents, values, strict=True)}
