"""How far a learned explainer may be from its teacher on one text, told beforehand.

What the explainer sees of a text (length, unknown and rare words, how its scores lie, how sure the model is) is turned
into the disagreement with the teacher that is to be expected: 1 - rank correlation. A ridge regression learns it on
texts that the explainer was not trained on; the line that calibrates it is drawn through predictions for texts that
were left out one by one; and whether it holds is checked on texts that had no part in either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from didact.errors import FormatError, InputError, ParameterError
from didact.protocols import Explainer, Model
from didact.stats.correlation import spearman
from didact.trained.shapes.base import Item
from didact.trained.shapes.vocabulary import UNKNOWN
from didact.types import Cost, Explanation, Floats, Prediction

FEATURES = ("length", "unknown", "rarity", "spread", "separation", "ties", "margin")
SHARE = 0.1
"""Share of the checked texts that lie above the threshold."""
FEWEST = 8
"""Texts that a fit and a check need at least."""

_PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_LARGEST = 2.0  # 1 - correlation
_BINS = 4


@dataclass(frozen=True)
class DisagreementEstimate:
    """Expected disagreement with the teacher, from 0 to 2, per text.

    Attributes:
        centre: mean of each feature where it was fitted.
        scale: deviation of each.
        weights: of the standardised features; all 0 where nothing was found that tells good texts from bad ones.
        mean: disagreement of a text with mean features.
        threshold: a text above it is doubtful.
        share: of the checked texts that were.
        report: how well it held on the checked texts: their number, the mean disagreement predicted and observed, both
            by bins of predicted disagreement, and the rank correlation of the two.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    mean: float
    threshold: float
    share: float = SHARE
    report: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, rows: Floats) -> Floats:
        """Doubt per text, from its features: (texts, features) -> (texts,)."""
        standard = (rows - np.array(self.centre)) / np.array(self.scale)
        expected: Floats = np.clip(self.mean + standard @ np.array(self.weights), 0.0, _LARGEST)
        return expected

    @property
    def informed(self) -> bool:
        """Whether texts differ in doubt at all."""
        return any(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"features": list(FEATURES), **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DisagreementEstimate:
        """Inverse of ``to_dict``."""
        values = dict(data)
        if tuple(values.pop("features", ())) != FEATURES:
            raise FormatError(f"this doubt was fitted on other features than {', '.join(FEATURES)}; fit it again")
        try:
            for name in ("centre", "scale", "weights"):
                values[name] = tuple(float(value) for value in values[name])
            return cls(**values)
        except (KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"not a doubt: {problem}") from None


def features(item: Item, scores: Floats, prediction: Prediction) -> Floats:
    """What tells doubtful texts from others: (features,), in the order of ``FEATURES``.

    Args:
        item: the text as the explainer's shape reads it.
        scores: what the explainer gave.
        prediction: of the explained model.
    """
    ids = np.atleast_1d(item.get("ids", np.zeros(0)))
    spread = float(np.std(scores)) if len(scores) else 0.0
    order = np.sort(scores)[::-1] / (spread or 1.0)
    k = -(-3 * len(order) // 10)  # the top 30 %, as fidelity is measured
    apart = float(order[:k].mean() - order[k:].mean()) if 0 < k < len(order) else 0.0
    gaps = -np.diff(order)
    sure = sorted(prediction.probabilities, reverse=True)
    return np.array(
        [
            np.log1p(len(scores)),
            float((ids == UNKNOWN).mean()) if ids.size else 0.0,
            float(np.log1p(ids).mean()) if ids.size else 0.0,  # a vocabulary has its frequent words first
            np.log(spread + 1e-6),
            apart,
            float((gaps < 0.1).mean()) if len(gaps) else 1.0,
            sure[0] - sure[1] if len(sure) > 1 else 0.0,
        ]
    )


def fit_disagreement(
    rows: Floats, errors: Floats, check_rows: Floats, check_errors: Floats, *, share: float = SHARE
) -> DisagreementEstimate:
    """Learn doubt on some texts and check it on others.

    Args:
        rows: features of texts that the explainer was not trained on: (texts, features).
        errors: their disagreement with the teacher: (texts,); NaN where there is none to measure.
        check_rows: features of further texts, on which the threshold is set and the report is made.
        check_errors: their disagreement.
        share: of the checked texts that are to lie above the threshold.
    """
    if not 0 < share < 1:
        raise ParameterError(f"share of doubtful texts must lie between 0 and 1, got {share!r}")
    rows, errors = _known(rows, errors)
    check_rows, check_errors = _known(check_rows, check_errors)
    if min(len(rows), len(check_rows)) < FEWEST:
        raise InputError(
            f"doubt needs at least {FEWEST} texts to learn from and {FEWEST} to check it on, got {len(rows)} and "
            f"{len(check_rows)}; give more validation and held-out texts"
        )
    centre, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)
    standard = (rows - centre) / scale
    weights, slope = _calibrated(standard, errors)
    made = DisagreementEstimate(
        tuple(centre.tolist()),
        tuple(scale.tolist()),
        tuple((weights * slope).tolist()),
        float(errors.mean()),
        threshold=0.0,
        share=share,
    )
    predicted = made(check_rows)
    threshold = float(np.quantile(predicted, 1 - share))
    return dataclasses.replace(made, threshold=threshold, report=_report(predicted, check_errors))


def with_fallback(found: Sequence[Explanation], model: Model, fallback: Explainer, above: float) -> list[Explanation]:
    """Explanations whose doubt lies above a threshold made again by a slower explainer, all at once.

    ``method`` says which made each; the doubt stays among the details, and the cost is that of both.

    Args:
        found: by a learned explainer that gives its doubt.
        model: the explained model.
        fallback: mostly the teacher.
        above: the threshold.
    """
    doubtful = [number for number, one in enumerate(found) if one.details["doubt"] > above]
    if not doubtful:
        return list(found)
    asked = [found[number] for number in doubtful]
    slow = fallback.explain(model, [one.example for one in asked], [one.target for one in asked])
    made = list(found)
    for number, first, second in zip(doubtful, asked, slow, strict=True):
        details = {**second.details, "doubt": first.details["doubt"]}
        made[number] = dataclasses.replace(second, details=details, cost=_both(first.cost, second.cost))
    return made


def _both(one: Cost, other: Cost) -> Cost:
    return Cost(
        one.forwards + other.forwards,
        one.backwards + other.backwards,
        None if one.evaluated is None or other.evaluated is None else one.evaluated + other.evaluated,
        None if one.seconds is None or other.seconds is None else one.seconds + other.seconds,
    )


def _known(rows: Floats, errors: Floats) -> tuple[Floats, Floats]:
    errors = np.asarray(errors, dtype=np.float64)
    rows = np.asarray(rows, dtype=np.float64).reshape(len(errors), len(FEATURES))
    known = np.isfinite(errors)
    return rows[known], errors[known]


def _calibrated(standard: Floats, errors: Floats) -> tuple[Floats, float]:
    """Weights of the best penalty, and the slope, never below 0, of the errors over left-out predictions."""
    centred = errors - errors.mean()
    tried = [_ridge(standard, centred, penalty) for penalty in _PENALTIES]
    weights, left_out = min(tried, key=lambda found: float(((centred - found[1]) ** 2).mean()))
    size = float(left_out @ left_out)
    slope = float(left_out @ centred) / size if size > 1e-12 else 0.0
    return weights, min(max(slope, 0.0), 1.0)


def _ridge(standard: Floats, centred: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Weights, and for each text what the other texts' weights would predict for it.

    The mean stays that of all texts: left out as well, a large error would lower it, and the line drawn through the
    predictions would lean the wrong way.
    """
    inverse = np.linalg.inv(standard.T @ standard + penalty * np.eye(standard.shape[1]))
    weights = inverse @ (standard.T @ centred)
    hat = np.einsum("ij,jk,ik->i", standard, inverse, standard)
    fitted = standard @ weights
    return weights, centred - (centred - fitted) / np.maximum(1 - hat, 1e-9)


def _report(predicted: Floats, observed: Floats) -> dict[str, float]:
    found = {
        "texts": float(len(observed)),
        "predicted": float(predicted.mean()),
        "observed": float(observed.mean()),
        "rank correlation": float(np.nan_to_num(spearman(predicted, observed))),
    }
    for number, bin_ in enumerate(np.array_split(np.argsort(predicted, kind="stable"), _BINS), start=1):
        found[f"bin {number} predicted"] = float(predicted[bin_].mean())
        found[f"bin {number} observed"] = float(observed[bin_].mean())
    return found
