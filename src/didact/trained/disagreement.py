"""How far a learned explainer is likely to be from its reference on a text, estimated without running the reference.

What the explainer sees of a text (length, unknown and rare words, words that training texts do not have, how its scores
lie, how sure the model is) is turned into the expected disagreement with the reference: 1 - rank correlation. A ridge
regression learns it on texts that the explainer was not trained on; the line that calibrates it is drawn through
predictions for texts that were left out one by one; and whether it holds is checked on texts that had no part in
either. Texts of one kind say nothing about others, so it also learns from altered ones (``altered``), where the
reference can be run on them: see ``SCOPE``. A second estimate of the same form also knows how well the scores predict a
few evaluations of the model on the text (``checking``): see ``CHECKED_SCOPE``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from didact.attribution.base import ATTRIBUTIONS
from didact.errors import FormatError, InputError, ParameterError
from didact.stats.correlation import spearman
from didact.trained.checking import CHECKS
from didact.trained.checking import FEATURES as CHECKING
from didact.trained.novelty import FEATURES as NOVELTY
from didact.trained.novelty import SeenWords
from didact.trained.shapes._vocabulary import UNKNOWN
from didact.trained.shapes.base import Item
from didact.types import Floats, Prediction, Units

FEATURES = ("length", "unknown", "rarity", "spread", "separation", "ties", "margin")
SCOPE = (
    "The expected disagreement is fitted on texts like those of the training and, where the reference can be run on "
    "them, on altered ones (words replaced, two texts joined), so that it rises for texts of another kind. How far the "
    "network is from its reference there is not known: measure it on some of your texts before you rely on the size."
)
"""What the estimate cannot do, for all places where it is offered."""
CHECKED_SCOPE = (
    f"The checked estimate also rests on evaluations of the model on the text itself ({CHECKS} unless checks= was "
    "given), so that it notices texts of another kind better; its threshold is still that of texts like those of the "
    "training."
)
"""The same for the estimate with checks."""
ALL = (*FEATURES, *NOVELTY)
"""Features of an estimate without checks; those that were saved earlier have the first ones."""
CHECKED = (*ALL, *CHECKING[:2])
"""Features of an estimate with checks; those that were saved earlier lack the last one."""
BESIDE = (*ALL, *CHECKING)
"""The same where a quick method is compared with."""
SHARE = 0.1
"""Share of the checked texts that lie above the threshold."""
FEWEST = 8
"""Texts that a fit and a check need at least."""

_PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_LARGEST = 2.0  # 1 - correlation
_BINS = 4


@dataclass(frozen=True)
class FeatureSet:
    """Which features of texts an estimate looks at.

    Attributes:
        names: in their order: ``FEATURES``, ``ALL``, ``CHECKED`` or ``BESIDE``.
        seen: words of the training texts.
        checks: evaluations of the model that the features of ``checking`` rest on.
        beside: the quick method that is compared with, for ``BESIDE``.
    """

    names: tuple[str, ...] = FEATURES
    seen: SeenWords = field(default_factory=lambda: SeenWords(""))
    checks: int = CHECKS
    beside: str | None = None

    def row(
        self, item: Item, scores: Floats, prediction: Prediction, units: Units, checked: Floats | None = None
    ) -> Floats:
        """The features of one text: (features,); ``checked`` is what checks measured, where it is among them."""
        known = dict(zip(FEATURES, features(item, scores, prediction).tolist(), strict=True))
        known |= dict(zip(NOVELTY, self.seen.features(units), strict=True))
        if checked is not None:
            known |= dict(zip(CHECKING, checked.tolist(), strict=False))
        return np.array([known[name] for name in self.names])


@dataclass(frozen=True, eq=False)
class Observed:
    """Texts on which the disagreement with the reference is known.

    Attributes:
        rows: their features, in the order of ``CHECKED`` or ``BESIDE``: (texts, features).
        errors: their disagreement: (texts,).
    """

    rows: Floats
    errors: Floats

    @classmethod
    def known(cls, rows: Floats, errors: Floats) -> Observed:
        """Without the texts that have nothing to measure, whose disagreement is NaN."""
        errors = np.asarray(errors, dtype=np.float64)
        rows = np.asarray(rows, dtype=np.float64).reshape(len(errors), -1)
        finite = np.isfinite(errors)
        return cls(rows[finite], errors[finite])

    @property
    def count(self) -> int:
        """How many texts."""
        return len(self.errors)

    @classmethod
    def nothing(cls, names: Sequence[str]) -> Observed:
        """No text, with these features."""
        return cls(np.empty((0, len(names))), np.empty(0))

    def joined(self, other: Observed) -> Observed:
        """Both."""
        return Observed(np.concatenate([self.rows, other.rows]), np.concatenate([self.errors, other.errors]))


@dataclass(frozen=True)
class DisagreementEstimate:
    """Expected disagreement with the reference, from 0 to 2, per text.

    Attributes:
        centre: mean of each feature where it was fitted.
        scale: deviation of each.
        weights: of the standardised features; all 0 where no feature tells good texts from bad ones.
        mean: disagreement of a text with mean features.
        threshold: a text above it is worth a slower explanation; one below it may still be explained wrongly.
        share: of the checked texts that lie above it.
        report: how well it held on the checked texts: their number, the mean disagreement predicted and observed, both
            by bins of predicted disagreement, and the rank correlation of the two.
        measured: which features these are.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    mean: float
    threshold: float
    share: float = SHARE
    report: Mapping[str, float] = field(default_factory=dict)
    measured: FeatureSet = field(default_factory=lambda: FeatureSet())

    def __call__(self, rows: Floats) -> Floats:
        """Expected disagreement per text, from its features: (texts, features) -> (texts,)."""
        standard = (rows - np.array(self.centre)) / np.array(self.scale)
        expected: Floats = np.clip(self.mean + standard @ np.array(self.weights), 0.0, _LARGEST)
        return expected

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        values = {name: value for name, value in vars(self).items() if name != "measured"}
        made = {"features": list(self.measured.names), **values, "seen": self.measured.seen.levels}
        if CHECKING[0] in self.measured.names:
            made["checks"] = self.measured.checks
        if self.measured.beside is not None:
            made["beside"] = self.measured.beside
        return made

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> DisagreementEstimate:
        """Inverse of ``to_dict``."""
        values = dict(data)
        names = tuple(cast("list[str]", values.pop("features", ())))
        if names not in (FEATURES, ALL, CHECKED[:-1], CHECKED, BESIDE):
            raise FormatError(
                f"this estimate was fitted on other features than {', '.join(BESIDE)}; train the explainer again"
            )
        try:
            seen, checks = SeenWords(cast("str", values.pop("seen", ""))), cast("int", values.pop("checks", CHECKS))
            beside = _known_method(values.pop("beside", None), names == BESIDE)
            values["measured"] = FeatureSet(names, seen, checks, beside)
            for name in ("centre", "scale", "weights"):
                values[name] = tuple(float(value) for value in cast("list[float]", values[name]))
            return cls(**values)  # type: ignore[arg-type] # plain JSON values
        except (KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"not an estimate of disagreement: {problem}") from None


def _known_method(name: object, needed: bool) -> str | None:
    """The quick method that a saved estimate names; one where its features need it, and none elsewhere."""
    if not needed and name is None:
        return None
    if not needed or not isinstance(name, str) or name not in ATTRIBUTIONS.names():
        raise FormatError(f"this estimate compares scores with the method {name!r}, which is not known here")
    return name


def scope(estimate: DisagreementEstimate, *, checked: bool) -> str:
    """What an estimate decides and what it cannot do, in sentences.

    Args:
        estimate: of the disagreement with the reference.
        checked: whether there is an estimate with checks beside it.
    """
    usual = estimate.report.get("predicted")
    share = f" ({estimate.share:.0%} of the held-out texts)" if usual is not None else ""
    decides = f"A fallback explains a text again where more than {estimate.threshold:.3f} is expected{share}."
    if usual is not None and usual < estimate.threshold:
        decides += (
            f" A lower threshold, such as their mean (`--disagreement-above {usual:.3f}`), explains more texts again "
            "and keeps more of the reference's quality on texts of another kind."
        )
    return " ".join([decides, SCOPE, *([CHECKED_SCOPE] if checked else [])])


def expected_disagreement(
    estimate: DisagreementEstimate | None,
    items: Sequence[Item],
    scores: Sequence[Floats],
    predictions: Sequence[Prediction],
    units: Sequence[Units],
) -> list[dict[str, float]]:
    """The details of explanations: their expected disagreement, or nothing without an estimate."""
    if estimate is None or not items:
        return [{}] * len(items)
    rows = [estimate.measured.row(*text) for text in zip(items, scores, predictions, units, strict=True)]
    return [{"disagreement": float(value)} for value in estimate(np.stack(rows))]


def features(item: Item, scores: Floats, prediction: Prediction) -> Floats:
    """What the estimate looks at: (features,), in the order of ``FEATURES``.

    Args:
        item: the text as the explainer's shape reads it.
        scores: the explainer's.
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
    fitted: Observed,
    checked: Observed,
    altered: Observed | None = None,
    *,
    share: float = SHARE,
    measured: FeatureSet | None = None,
) -> DisagreementEstimate:
    """Learn the estimate on some texts and check it on others.

    Args:
        fitted: texts that the explainer was not trained on.
        checked: further texts like those of the training, on which the threshold is set and the report is made.
        altered: altered texts, for the report, where there are some.
        share: of the checked texts that are to lie above the threshold.
        measured: which features to look at; ``FEATURES`` when not given.
    """
    if not 0 < share < 1:
        raise ParameterError(f"share of texts above the threshold must lie between 0 and 1, got {share!r}")
    if min(fitted.count, checked.count) < FEWEST:
        raise InputError(
            f"an estimate of disagreement needs at least {FEWEST} texts to learn from and {FEWEST} to check it on, got "
            f"{fitted.count} and {checked.count}; give more validation and held-out texts"
        )
    measured = measured or FeatureSet()
    altered = altered or Observed.nothing(measured.names)
    rows, errors = fitted.rows[:, : len(measured.names)], fitted.errors
    centre, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)
    weights, slope = _calibrated((rows - centre) / scale, errors)
    estimate = DisagreementEstimate(
        tuple(centre.tolist()),
        tuple(scale.tolist()),
        tuple((weights * slope).tolist()),
        float(errors.mean()),
        threshold=0.0,
        share=share,
        measured=measured,
    )
    predicted, elsewhere = (estimate(own.rows[:, : len(measured.names)]) for own in (checked, altered))
    threshold = float(np.quantile(predicted, 1 - share))
    report = _report(predicted, checked.errors) | _altered_report(elsewhere, altered.errors, threshold)
    return dataclasses.replace(estimate, threshold=threshold, report=report)


def _calibrated(standard: Floats, errors: Floats) -> tuple[Floats, float]:
    """Weights of the best penalty, and the slope, never below 0, of the errors over left-out predictions."""
    centred = errors - errors.mean()
    tried = [_ridge(standard, centred, penalty) for penalty in _PENALTIES]
    weights, left_out = min(tried, key=lambda ridge: float(((centred - ridge[1]) ** 2).mean()))
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
    report = {
        "texts": float(len(observed)),
        "predicted": float(predicted.mean()),
        "observed": float(observed.mean()),
        "rank correlation": float(np.nan_to_num(spearman(predicted, observed))),
    }
    for number, bin_ in enumerate(np.array_split(np.argsort(predicted, kind="stable"), _BINS), start=1):
        report[f"bin {number} predicted"] = float(predicted[bin_].mean())
        report[f"bin {number} observed"] = float(observed[bin_].mean())
    return report


def _altered_report(predicted: Floats, observed: Floats, threshold: float) -> dict[str, float]:
    """The same for altered texts, and the share of them above the threshold; nothing where there are none."""
    if not len(observed):
        return {}
    return {
        "altered texts": float(len(observed)),
        "altered predicted": float(predicted.mean()),
        "altered observed": float(observed.mean()),
        "altered above threshold": float((predicted > threshold).mean()),
    }
