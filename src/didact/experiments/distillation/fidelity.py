"""What a learned explainer keeps of its teacher, and what it gains, on texts that it was not trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from didact.errors import InputError
from didact.experiments.distillation.grading import absolute
from didact.metrics.base import METRICS
from didact.protocols import Evidence, Model
from didact.stats.bootstrap import Interval, interval
from didact.stats.paired import holm, wilcoxon
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference
from didact.types import Explanation, Floats

ALPHA = 0.05

KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "fall of the log-odds": ("log_odds_difference", {}),
    "same prediction from the top words": ("prediction_agreement", {}),
    "fall of the probability": ("comprehensiveness", {}),
}
GAINED: dict[str, tuple[str, dict[str, Any]]] = {
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
        teacher: mean of the teacher.
        ratio: own / teacher; NaN where the teacher's mean is not above 0.
        n: texts.
        p: of Wilcoxon's signed-rank test, after Holm's correction over all rows.
    """

    name: str
    metric: str
    own: float
    teacher: float
    ratio: float
    n: int
    p: float


@dataclass(frozen=True)
class Fidelity:
    """A learned explainer beside its teacher.

    Attributes:
        teacher: its name.
        texts: how many were explained by both.
        close: rank correlations with the teacher and IoU of the top 30 %, with intervals.
        kept: faithfulness of both.
        gained: stability of both.
        own_seconds: per text; the explained model's prediction is known to both.
        teacher_seconds: per text; None where it was not measured.
        training_seconds: labels and training together; None where unknown.
    """

    teacher: str
    texts: int
    close: dict[str, Interval]
    kept: tuple[Row, ...]
    gained: tuple[Row, ...]
    own_seconds: float | None
    teacher_seconds: float | None
    training_seconds: float | None

    @property
    def speed_up(self) -> float | None:
        """How many times faster than the teacher."""
        if not self.own_seconds or self.teacher_seconds is None:
            return None
        return self.teacher_seconds / self.own_seconds

    @property
    def break_even(self) -> float | None:
        """Explanations after which training has paid; None where it never does or times are unknown."""
        if self.training_seconds is None or self.own_seconds is None or self.teacher_seconds is None:
            return None
        saved = self.teacher_seconds - self.own_seconds
        return self.training_seconds / saved if saved > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "speed_up": self.speed_up, "break_even": self.break_even}

    def scores(self) -> dict[str, float]:
        """The means and ratios by name, for an explainer's card."""
        found = {name: one.mean for name, one in self.close.items()}
        return found | {f"{row.name}, of the teacher's": row.ratio for row in (*self.kept, *self.gained)}

    def markdown(self) -> str:
        """The report as Markdown."""
        lines = [f"Measured on {self.texts} texts that had no part in training; the teacher is {self.teacher}.", ""]
        lines += ["| close to the teacher | mean | 95 % interval |", "|---|--:|--:|"]
        lines += [f"| {name} | {one.mean:.3f} | {one.low:.3f} to {one.high:.3f} |" for name, one in self.close.items()]
        for title, rows in (("faithfulness kept", self.kept), ("stability gained", self.gained)):
            lines += ["", f"| {title} | learned | teacher | ratio | p |", "|---|--:|--:|--:|--:|"]
            lines += [_line(row) for row in rows]
        return "\n".join([*lines, "", *self._cost()]) + "\n"

    def _cost(self) -> list[str]:
        lines = []
        if self.own_seconds is not None:
            lines.append(f"One explanation takes {_seconds(self.own_seconds)} once the prediction is known.")
        if self.teacher_seconds is not None and self.speed_up is not None:
            lines.append(f"The teacher takes {_seconds(self.teacher_seconds)}: {self.speed_up:,.0f} times as long.")
        if self.break_even is not None:
            lines.append(
                f"Labels and training took {self.training_seconds:,.0f} s, which pays from {self.break_even:,.0f} "
                "explanations on."
            )
        return lines


def fidelity(
    model: Model,
    explainer: LearnedExplainer,
    taught: Sequence[Explanation],
    *,
    training_seconds: float | None = None,
) -> Fidelity:
    """Hold a learned explainer against its teacher.

    A student that learnt the order of absolute weights is compared with the teacher's absolute scores, in faithfulness
    and stability too: both then choose words by size.

    Args:
        model: the explained model.
        explainer: the learned one.
        taught: the teacher's explanations of held-out texts.
        training_seconds: what labels and training took, for the break-even count.
    """
    if not taught:
        raise InputError("fidelity needs the teacher's explanations of at least one held-out text")
    found = explainer.explain(
        model,
        [one.example for one in taught],
        [one.target for one in taught],
        predictions=[one.prediction for one in taught],
    )
    by_size = explainer.signal.absolute
    theirs = absolute(taught) if by_size else list(taught)
    rows = _rows(model, found, theirs)
    return Fidelity(
        teacher=taught[0].method,
        texts=len(taught),
        close={
            name: interval(values) for name, values in agreement_with_reference(found, taught, explainer.signal).items()
        },
        kept=tuple(rows[: len(KEPT)]),
        gained=tuple(rows[len(KEPT) :]),
        own_seconds=_mean_seconds(found),
        teacher_seconds=_mean_seconds(taught),
        training_seconds=training_seconds,
    )


def _rows(model: Model, found: Sequence[Explanation], taught: Sequence[Explanation]) -> list[Row]:
    measured: dict[str, tuple[Floats, Floats]] = {}
    for name, (metric, settings) in (KEPT | GAINED).items():
        made = METRICS.get(metric).configured(**settings)
        own, theirs = (
            np.array([grade.value for grade in made.measure(Evidence(some, model))]) for some in (found, taught)
        )
        measured[name] = own, theirs
    adjusted = holm([wilcoxon(*pair).p for pair in measured.values()]).tolist()
    return [_row(name, *measured[name], p) for name, p in zip(measured, adjusted, strict=True)]


def _row(name: str, own: Floats, teacher: Floats, p: float) -> Row:
    both = ~np.isnan(own) & ~np.isnan(teacher)
    first, second = (float(values[both].mean()) if both.any() else float("nan") for values in (own, teacher))
    metric, _ = (KEPT | GAINED)[name]
    return Row(name, metric, first, second, first / second if second > 0 else float("nan"), int(both.sum()), p)


def _mean_seconds(found: Sequence[Explanation]) -> float | None:
    known = [one.cost.seconds for one in found if one.cost.seconds is not None]
    return float(np.mean(known)) if known else None


def _line(row: Row) -> str:
    mark = "*" if row.p < ALPHA else ""
    return f"| {row.name} | {row.own:.3f} | {row.teacher:.3f} | {row.ratio:.2f}{mark} | {row.p:.3g} |"


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
