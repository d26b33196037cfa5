"""Normalised AOPC: where an explanation stands between the worst and the best order of units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from didact.metrics.base import BaseMetric, register
from didact.metrics.faithfulness._bounds import Bounds, beam_bounds, exact_bounds
from didact.metrics.faithfulness._erasure import first, model_of, ranking, score_variants, settled, whole
from didact.ops.masking import Absence
from didact.protocols import Evidence, Model
from didact.settings import at_least
from didact.types import Explanation, Floats, Grade, MetricCard

NAN = float("nan")

# The bounds belong to model and text and cost far more than the rest: every explainer of a comparison shares them.
_KNOWN: WeakKeyDictionary[Model, dict[tuple[object, ...], Bounds]] = WeakKeyDictionary()


@register(
    MetricCard(
        name="normalised_aopc",
        family="faithfulness",
        summary="Mean fall of the probability over the whole order, between the text's worst (0) and best order (1).",
        reference="Edin et al. 2025",
        higher_is_better=True,
        low=0,
        high=1,
        needs=frozenset({"model"}),
        aliases=("naopc", "normalized_aopc"),
    )
)
@dataclass(frozen=True, kw_only=True)
class NormalisedAopc(BaseMetric):
    """(AOPC - worst) / (best - worst), where AOPC is the mean over i = 1..n of p(x) - p(x without the first i units).

    How large AOPC can get depends on model and text, so plain values of two models cannot be compared; these can.
    The part "sufficiency" is the same with the least important units leaving first (lower is better); "aopc", "worst"
    and "best" are the numbers it is made of.

    The bounds are exact for texts of up to ``exact_units`` units: an order is a path through the subsets of the units,
    so 2^n rows are enough for the best of all n! orders. Beyond, a beam search finds them nearly, with about ``beam``
    n^2 rows (some 1,500 for a text of 18 words), and what lies outside is held to 0 and 1. They are kept for as long as
    the model lives, so further explanations of the same texts cost 2 n rows each. NaN where the text is longer than
    ``longest``, or where all orders are equal, as for one unit.

    Args:
        exact_units: up to how many units all subsets are evaluated.
        beam: orders that the search keeps after each step, for either bound.
        longest: texts of more units are left out.
        absence: how an absent unit is shown; "mask" means the model's default where it has no mask token.

    Example:
        >>> from didact.protocols import Evidence
        >>> NormalisedAopc(beam=10).measure(Evidence(explanations, model))  # doctest: +SKIP
    """

    exact_units: int = 8
    beam: int = 5
    longest: int = 64
    absence: str = "mask"

    def __post_init__(self) -> None:
        at_least(self, exact_units=0, beam=1, longest=1)
        Absence.parse(self.absence)

    def grade(self, evidence: Evidence) -> list[Grade]:
        """The two orders of each explanation in one call; then the bounds that are not known yet."""
        model, grades = model_of(evidence), [Grade(NAN)] * len(evidence.explanations)
        chosen = [i for i, explanation in enumerate(evidence.explanations) if len(explanation.units) <= self.longest]
        explanations = [evidence.explanations[i] for i in chosen]
        outputs = score_variants(model, explanations, list(map(_both_ways, explanations)), self.absence)
        bounds = self._bounds(model, explanations)
        for i, explanation, values, bound in zip(chosen, explanations, outputs, bounds, strict=True):
            grades[i] = _placed(whole(explanation) - values, bound)
        return grades

    def _bounds(self, model: Model, explanations: Sequence[Explanation]) -> list[Bounds]:
        known = _KNOWN.setdefault(model, {})
        source = model.fingerprint()  # once: it looks at every weight
        keys = [(source, *self._key(model, explanation)) for explanation in explanations]
        new = {key: explanation for key, explanation in zip(keys, explanations, strict=True) if key not in known}
        short = {key: explanation for key, explanation in new.items() if len(explanation.units) <= self.exact_units}
        long = {key: explanation for key, explanation in new.items() if key not in short}
        known.update(zip(short, exact_bounds(model, list(short.values()), self.absence), strict=True))
        known.update(zip(long, beam_bounds(model, list(long.values()), self.absence, self.beam), strict=True))
        return [known[key] for key in keys]

    def _key(self, model: Model, explanation: Explanation) -> tuple[object, ...]:
        units = explanation.units
        settings = (self.exact_units, self.beam, settled(model, self.absence))
        return (units.example.fields, units.regions, explanation.target.index, explanation.target.contrast, *settings)


def _both_ways(explanation: Explanation) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """What is left while units leave, most important first and then least important first: (2 n, units)."""
    order, counts = ranking(explanation), range(1, len(explanation.units) + 1)
    return ~np.concatenate([first(order, counts), first(order[::-1].copy(), counts)])


def _placed(falls: Floats, bound: Bounds) -> Grade:
    """Falls of both orders -> their places between the bounds."""
    worst, best = bound
    down, up = (float(half.mean()) for half in np.split(falls, 2))
    parts = {"aopc": down, "worst": worst, "best": best}
    if best - worst < 1e-6:  # below the resolution of single precision
        return Grade(NAN, {"sufficiency": NAN, **parts})
    places = np.clip((np.array([down, up]) - worst) / (best - worst), 0, 1)
    return Grade(float(places[0]), {"sufficiency": float(places[1]), **parts})
