"""What a learned explainer keeps of its reference, and what it gains, on texts that it was not trained on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import InputError
from didact.experiments.distillation.grading import absolute
from didact.experiments.engine.toml import Plain
from didact.metrics.base import METRICS
from didact.protocols import Evidence, Model
from didact.stats.bootstrap import Interval, differences, interval
from didact.stats.means import mean_tests
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference
from didact.types import Explanation, Floats

ALPHA = 0.05

KEPT: dict[str, tuple[str, Plain]] = {
    "fall of the log-odds": ("log_odds_difference", {}),
    "same prediction from the top words": ("prediction_agreement", {}),
    "fall of the probability": ("comprehensiveness", {}),
}
GAINED: dict[str, tuple[str, Plain]] = {
    "overlap with similar texts, top words": ("neighbour_iou", {"by": "top"}),
    "overlap with similar texts, labels": ("neighbour_iou", {"by": "labels"}),
}


@dataclass(frozen=True)
class Row:
    """A metric of both.

    Attributes:
        name: in words.
        metric: registered name.
        own: mean of the learned explainer over the texts on which both are defined.
        reference: mean of the reference.
        ratio: own / reference; NaN where the reference's mean is not above 0.
        n: texts.
        p: of the mean difference, corrected over all rows; NaN where there are not enough texts.
    """

    name: str
    metric: str
    own: float
    reference: float
    ratio: float
    n: int
    p: float


@dataclass(frozen=True)
class Fidelity:
    """A learned explainer beside its reference.

    Attributes:
        reference: its name.
        texts: how many were explained by both.
        close: rank correlations with the reference and IoU of the top 30 %, with intervals.
        kept: faithfulness of both.
        gained: stability of both.
        absolute: whether faithfulness and stability are beside the absolute scores of the reference, whose order was
            learned.
        own_seconds: per text; the explained model's prediction is known to both.
        reference_seconds: per text; None where it was not measured.
        training_seconds: labels and training together; None where unknown.
    """

    reference: str
    texts: int
    close: dict[str, Interval]
    kept: tuple[Row, ...]
    gained: tuple[Row, ...]
    absolute: bool
    own_seconds: float | None
    reference_seconds: float | None
    training_seconds: float | None

    @property
    def speed_up(self) -> float | None:
        """How many times faster than the reference."""
        if not self.own_seconds or self.reference_seconds is None:
            return None
        return self.reference_seconds / self.own_seconds

    @property
    def break_even(self) -> float | None:
        """Explanations after which training has paid; None where it never does or times are unknown."""
        if self.training_seconds is None or self.own_seconds is None or self.reference_seconds is None:
            return None
        saved = self.reference_seconds - self.own_seconds
        return self.training_seconds / saved if saved > 0 else None

    def to_dict(self) -> Plain:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "speed_up": self.speed_up, "break_even": self.break_even}

    def scores(self) -> dict[str, float]:
        """The means and ratios by name, for an explainer's card."""
        own = {name: one.mean for name, one in self.close.items()}
        return own | {f"{row.name}, of the reference's": row.ratio for row in (*self.kept, *self.gained)}

    def markdown(self) -> str:
        """The report as Markdown."""
        beside = f"{self.reference} by the size of its scores" if self.absolute else self.reference
        lines = [f"Measured on {self.texts} texts that had no part in training; the reference is {beside}.", ""]
        lines += ["| close to the reference | mean | 95 % interval |", "|---|--:|--:|"]
        lines += [f"| {name} | {one.mean:.3f} | {_ends(one)} |" for name, one in self.close.items()]
        for title, rows in (("faithfulness kept", self.kept), ("stability gained", self.gained)):
            lines += ["", f"| {title} | learned | reference | ratio | n | p |", "|---|--:|--:|--:|--:|--:|"]
            lines += [_line(row) for row in rows]
        return "\n".join([*lines, "", *self._cost()]) + "\n"

    def _cost(self) -> list[str]:
        lines = []
        if self.own_seconds is not None:
            lines.append(f"One explanation takes {_seconds(self.own_seconds)} once the prediction is known.")
        if self.reference_seconds is not None and self.speed_up is not None:
            lines.append(f"The reference takes {_seconds(self.reference_seconds)}: {self.speed_up:,.0f} times as long.")
        if self.break_even is not None:
            lines.append(
                f"Labels and training took {self.training_seconds:,.0f} s, which pays from {self.break_even:,.0f} "
                "explanations on."
            )
        return lines


def fidelity(
    model: Model,
    explainer: LearnedExplainer,
    explained: Sequence[Explanation],
    *,
    training_seconds: float | None = None,
) -> Fidelity:
    """Hold a learned explainer against its reference.

    A network that learnt the order of absolute weights is compared with the reference's absolute scores, in
    faithfulness and stability too: both then choose words by size.

    Args:
        model: the explained model.
        explainer: the learned one.
        explained: the reference's explanations of held-out texts.
        training_seconds: what labels and training took, for the break-even count.
    """
    if not explained:
        raise InputError("fidelity needs the reference's explanations of at least one held-out text")
    own = explainer.explain(
        model,
        [one.example for one in explained],
        [one.target for one in explained],
        predictions=[one.prediction for one in explained],
    )
    theirs = absolute(explained) if explainer.signal.absolute else list(explained)
    rows = _rows(model, own, theirs)
    return Fidelity(
        reference=explained[0].method,
        texts=len(explained),
        close={
            name: interval(values)
            for name, values in agreement_with_reference(own, explained, explainer.signal).items()
        },
        kept=tuple(rows[: len(KEPT)]),
        gained=tuple(rows[len(KEPT) :]),
        absolute=explainer.signal.absolute,
        own_seconds=_mean_seconds(own),
        reference_seconds=_mean_seconds(explained),
        training_seconds=training_seconds,
    )


def _rows(model: Model, learned: Sequence[Explanation], explained: Sequence[Explanation]) -> list[Row]:
    measured: dict[str, tuple[Floats, Floats]] = {}
    for name, (metric, settings) in (KEPT | GAINED).items():
        made = METRICS.get(metric).configured(**settings)
        own, theirs = (
            np.array([grade.value for grade in made.measure(Evidence(some, model))]) for some in (learned, explained)
        )
        measured[name] = own, theirs
    adjusted = mean_tests([differences(*pair) for pair in measured.values()], alpha=ALPHA).adjusted.tolist()
    return [_row(name, *measured[name], p) for name, p in zip(measured, adjusted, strict=True)]


def _row(name: str, own: Floats, reference: Floats, p: float) -> Row:
    both = ~np.isnan(own) & ~np.isnan(reference)
    first, second = (float(values[both].mean()) if both.any() else float("nan") for values in (own, reference))
    metric, _ = (KEPT | GAINED)[name]
    return Row(name, metric, first, second, first / second if second > 0 else float("nan"), int(both.sum()), p)


def _mean_seconds(explained: Sequence[Explanation]) -> float | None:
    known = [one.cost.seconds for one in explained if one.cost.seconds is not None]
    return float(np.mean(known)) if known else None


def _line(row: Row) -> str:
    mark = "*" if row.p < ALPHA else ""
    p = f"{row.p:.3g}" if math.isfinite(row.p) else "not enough texts"
    return f"| {row.name} | {row.own:.3f} | {row.reference:.3f} | {row.ratio:.2f}{mark} | {row.n:,} | {p} |"


def _ends(one: Interval) -> str:
    return f"{one.low:.3f} to {one.high:.3f}" if math.isfinite(one.low) else "not enough texts"


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
