"""How the L2E paper grades: which words are taken of an explanation, and what the model says without or with them.

Ranking: the top 30 % of the words, of the reference and of the learned explainer alike. Labelling: the words that the
learned explainer calls positive, and as many of the reference's top words, as far as these are positive too; for the
negative words likewise. What the learned explainer calls a word is its own label: the sign of the score, and high where
the score is nearer to that of high words than to that of low ones. Texts of which no word or every word would be taken
are left out (NaN).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from didact.metrics.faithfulness.log_odds_difference import LogOddsDifference
from didact.metrics.faithfulness.prediction_agreement import PredictionAgreement
from didact.metrics.plausibility._helpers import ENGLISH
from didact.metrics.plausibility.rationale_f1 import RationaleF1
from didact.metrics.stability.neighbour_iou import NeighbourIou
from didact.protocols import Evidence, Model
from didact.trained.signals.labelling import kinds
from didact.types import Explanation, Floats, Prediction, Scale, Target, overlapping

Bools = NDArray[np.bool_]

LIMIT = 30.0
"""Largest log-odds that are believed."""

LOG_ODDS = "log_odds_difference"
AGREEMENT = "prediction_agreement"
BOTH = "both"
POSITIVE = "log_odds_positive"
NEGATIVE = "log_odds_negative"
LABELLED_AGREEMENT = "agreement_labelled"
LABELLED_BOTH = "both_labelled"
AGAINST = "log_odds_against"


def ranked(
    model: Model, reference: Sequence[Explanation], learned: Sequence[Explanation]
) -> dict[str, tuple[Floats, Floats]]:
    """Agreement of the two with each other from their top 30 %, one number per text; the same for both."""
    select = PredictionAgreement()
    chosen = [[select.selections(one)[0] for one in explanations] for explanations in (reference, learned)]
    first, second = (kept_labels(model, reference, masks) for masks in chosen)
    same = (first == second).astype(np.float64)
    return {BOTH: (same, same)}


def labelled(
    model: Model, reference: Sequence[Explanation], learned: Sequence[Explanation], high: float | None
) -> dict[str, tuple[Floats, Floats]]:
    """Measure -> its values for the reference and for the learned explainer, by the words that the latter labels.

    ``high`` is that of its signal.
    """
    own = [labels(one, high) for one in learned]
    grades: dict[str, tuple[Floats, Floats]] = {}
    for name, sign in ((POSITIVE, 1), (NEGATIVE, -1)):
        mine = [label * sign > 0 for label in own]
        theirs = [_as_many(one, mask, sign) for one, mask in zip(reference, mine, strict=True)]
        grades[name] = (falls(model, reference, theirs), falls(model, learned, mine))
    mine = [_strongest(label) for label in own]
    theirs = [_as_many(one, mask, 1) for one, mask in zip(reference, mine, strict=True)]
    first, second = kept_labels(model, reference, theirs), kept_labels(model, learned, mine)
    whole = np.array([one.prediction.index for one in learned])
    usable = _usable(theirs) & _usable(mine)
    grades[LABELLED_AGREEMENT] = _where(usable, first == whole), _where(usable, second == whole)
    grades[LABELLED_BOTH] = (_where(usable, first == second),) * 2
    return grades


def against(model: Model, explanations: Sequence[Explanation]) -> list[float]:
    """Rise of the predicted label's log-odds when the 30 % of the units with the lowest scores are masked."""
    turned = [dataclasses.replace(one, scores=tuple(-score for score in one.scores), errors=()) for one in explanations]
    return [-grade.value for grade in LogOddsDifference().measure(Evidence(turned, model))]


def rationales(explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """Precision, recall and F1 of the top 30 % against human rationales, apart by label, with and without stop words.

    Only texts that the model classifies as people did; NaN for the others.
    """
    columns: dict[str, list[float]] = {}
    for ending, stop_words in (("", ()), (" without stop words", "english")):
        metric = RationaleF1(share=0.3, stop_words=stop_words)  # type: ignore[arg-type]
        grades = metric.measure(Evidence(explanations))
        for group in sorted({one.prediction.label for one in explanations}):
            mine = [one.prediction.label == group == str(one.example.label) for one in explanations]
            for name in ("precision", "recall", "F1"):
                values = [grade.value if name == "F1" else grade.parts.get(name, np.nan) for grade in grades]
                column = [value if counts else np.nan for value, counts in zip(values, mine, strict=True)]
                columns[f"rationale {group} {name}{ending}"] = column
    return columns


WORDS_OF_REVIEWS = ("all words", "annotated words", "without stop words")
"""Which words of reviews with rationales stability is measured on, as in the paper's Table 5."""


def stability(explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """Overlap of labelled words with lexically similar reviews: of all words, annotated ones, and without stop words.

    Texts of any length count, and neighbours are alike in the words that count.
    """
    metric = NeighbourIou(by="labels", max_words=1_000_000)
    columns = {}
    for name, of in zip(WORDS_OF_REVIEWS, (_everything, _annotated, _no_stop_word), strict=True):
        fewer = [_only(one, of(one)) for one in explanations]
        columns[f"iou {name}"] = [grade.value for grade in metric.measure(Evidence(fewer))]
    return columns


def stability_of_people(rationales: Sequence[Explanation]) -> dict[str, list[float]]:
    """The same of human rationales, among reviews to which people gave the same label, whatever the model predicts."""
    return stability([_of_gold(one) for one in rationales])


def _of_gold(rationale: Explanation) -> Explanation:
    """The same as an explanation of the gold label alone."""
    label = str(rationale.example.label)
    return dataclasses.replace(rationale, target=Target(0, label), prediction=Prediction((label,), (0.0,), (1.0,)))


def _only(explanation: Explanation, chosen: Bools) -> Explanation:
    """The explanation of these units alone."""
    kept = np.flatnonzero(chosen)
    units = explanation.units
    positions = tuple(units.positions[i] for i in kept) if units.positions else ()
    fewer = dataclasses.replace(units, regions=tuple(units.regions[i] for i in kept), positions=positions)
    return dataclasses.replace(explanation, units=fewer, scores=tuple(explanation.array[kept].tolist()), errors=())


def _everything(explanation: Explanation) -> Bools:
    return np.ones(len(explanation.units), dtype=np.bool_)


def _annotated(explanation: Explanation) -> Bools:
    return overlapping(explanation.units.regions, explanation.example.rationale or ())


def _no_stop_word(explanation: Explanation) -> Bools:
    return np.array([text.casefold() not in ENGLISH for text in explanation.units.texts], dtype=np.bool_)


def labels(explanation: Explanation, high: float | None = None) -> NDArray[np.int64]:
    """Per unit 2 or 1 for high or low positive, 0 for neutral, -1 or -2 for negative.

    Scores are high beyond ``high``, or, when it is not given, as ``kinds`` finds in the text. Scores without a sign
    have three kinds, of which only the high ones count as positive.
    """
    if explanation.signed and high is not None:
        return (np.sign(explanation.array) * np.where(abs(explanation.array) > high, 2, 1)).astype(np.int64)
    if explanation.signed:
        return kinds(explanation.array) - 2
    return np.where(kinds(explanation.array, 3) == 0, 2, 0)


def falls(model: Model, explanations: Sequence[Explanation], masked: Sequence[Bools]) -> Floats:
    """Fall of the predicted label's log-odds when the units in ``masked`` are masked; NaN for none or all of them."""
    without = outputs(model, explanations, [~mask for mask in masked])
    values = [
        _log_odds(np.array(one.prediction.outputs), one.target.index) - _log_odds(row, one.target.index)
        for one, row in zip(explanations, without, strict=True)
    ]
    return _where(_usable(masked), np.array(values))


def kept_labels(model: Model, explanations: Sequence[Explanation], kept: Sequence[Bools]) -> NDArray[np.int64]:
    """The label predicted when all units but those in ``kept`` are masked."""
    return np.array([int(row.argmax()) for row in outputs(model, explanations, kept)])


def outputs(model: Model, explanations: Sequence[Explanation], keep: Sequence[Bools]) -> list[Floats]:
    """The model's outputs (labels,) for each text with only the kept units, the others masked."""
    scale: Scale = "logit" if "logit" in model.scales else "log_probability"
    size = len(model.labels)
    targets = [Target(number, label, scale) for number, label in enumerate(model.labels)]
    units = [one.units for one in explanations for _ in range(size)]
    rows = [mask[None] for mask in keep for _ in range(size)]
    values = model.score(units, targets * len(explanations), rows, model.default_absence)
    return [np.concatenate(values[start : start + size]) for start in range(0, len(values), size)]


def absolute(explanations: Sequence[Explanation]) -> list[Explanation]:
    """The same explanations by the size of their scores, as the ranking formulation reads a reference."""
    return [
        dataclasses.replace(one, scores=tuple(abs(score) for score in one.scores), signed=False, errors=())
        for one in explanations
    ]


def _log_odds(row: Floats, index: int) -> float:
    """The label's own output against those of the others together, for labels that exclude each other."""
    return float(np.clip(row[index] - np.logaddexp.reduce(np.delete(row, index)), -LIMIT, LIMIT))


def _strongest(label: NDArray[np.int64]) -> Bools:
    """The high positive words, or the low ones where there is none."""
    high: Bools = label == 2
    return high if high.any() else np.asarray(label == 1)


def _as_many(reference: Explanation, mask: Bools, sign: int) -> Bools:
    """As many of the reference's strongest units of a sign as the mask has, at most all that have the sign."""
    scores = sign * reference.array
    order = np.argsort(-scores, kind="stable")
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[order[: int(mask.sum())]] = True
    return chosen & (scores > 0)


def _usable(masks: Sequence[Bools]) -> Bools:
    return np.array([bool(mask.any()) and not mask.all() for mask in masks])


def _where(usable: Bools, values: NDArray[np.generic]) -> Floats:
    return np.where(usable, values.astype(np.float64), np.nan)
