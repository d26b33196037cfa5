"""A learned explainer beside its reference and beside random scores, by several metrics on the same texts.

What is kept of the reference is the share of its advance over random scores, (learned - chance) / (reference - chance):
1 is as good as the reference, 0 is chance, whichever direction the metric has. A ratio of the plain values would
credit an explainer with what random scores have too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from didact.errors import FormatError
from didact.protocols import Model
from didact.stats.bootstrap import differences
from didact.stats.means import MeanTests, mean_tests
from didact.trained.judging import Judge
from didact.types import Explanation, Floats

Beside = Literal["better", "worse", "alike", "unknown"]
"""Significantly better or worse, no significant difference, or too few texts to test."""


KEPT = (
    "Means over n held-out texts. kept: share of what the reference gains over random scores, 1 as good as the "
    "reference, 0 as random scores; (worse), (better): the means differ significantly from the reference's, all "
    "comparisons tested together."
)
"""How the table of a panel is read."""


@dataclass(frozen=True)
class PanelRow:
    """One metric; means are over the texts on which all three are defined.

    Attributes:
        metric: its name.
        lower_is_better: its direction.
        learned: mean of the learned explainer.
        reference: mean of the reference, its scores as given.
        chance: mean of random scores.
        n: texts.
        left_out: texts on which the metric is not defined.
        beside_reference: how the learned explainer's mean compares with the reference's.
        beside_chance: and with that of random scores.
        reference_beside_chance: how the reference's compares with random scores.
    """

    metric: str
    lower_is_better: bool
    learned: float
    reference: float
    chance: float
    n: int
    left_out: int
    beside_reference: Beside
    beside_chance: Beside
    reference_beside_chance: Beside

    @property
    def kept(self) -> float:
        """Share of the reference's advance over random scores; NaN where it has none that is significant."""
        if self.reference_beside_chance != "better":
            return math.nan
        return (self.learned - self.chance) / (self.reference - self.chance)


@dataclass(frozen=True)
class HeldOutPanel:
    """What several metrics say of a learned explainer on held-out texts.

    Attributes:
        rows: one per metric.
    """

    rows: tuple[PanelRow, ...]

    @property
    def kept(self) -> float:
        """Mean over the metrics of what is kept of the reference; NaN where no metric tells."""
        known = [row.kept for row in self.rows if not math.isnan(row.kept)]
        return float(np.mean(known)) if known else math.nan

    def sentence(self, reference: str) -> str:
        """The verdict with what it rests on."""
        if not self.rows or not max(row.n for row in self.rows):
            return "No held-out texts: its faithfulness was not measured."
        n, left_out = max(row.n for row in self.rows), max(row.left_out for row in self.rows)
        texts = f"{n:,} held-out texts ({left_out:,} left out)"
        if all(math.isnan(row.kept) for row in self.rows):
            return (
                f"By none of {len(self.rows)} metrics {reference} is significantly better than random scores on "
                f"{texts}, so what this explainer keeps of it cannot be measured."
            )
        return (
            f"On {texts} it keeps {self.kept:.2f} of what {reference} gains over random scores, the mean of "
            f"{_listed([row for row in self.rows if not math.isnan(row.kept)])}; {self._beside(reference)}."
        )

    def _beside(self, reference: str) -> str:
        worse = [row.metric for row in self.rows if row.beside_reference == "worse"]
        better = [row.metric for row in self.rows if row.beside_reference == "better"]
        chance = [row.metric for row in self.rows if row.beside_chance != "better"]
        parts = [f"significantly worse than {reference} by {', '.join(worse)}"] if worse else []
        parts += [f"significantly better by {', '.join(better)}"] if better else []
        parts = parts or [f"by no metric significantly different from {reference}"]
        parts.append(
            f"not significantly better than random scores by {', '.join(chance)}"
            if chance
            else f"better than random scores by all {len(self.rows)}"
        )
        return "; ".join(parts)

    def table(self, reference: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heads and rows of readable cells."""
        heads = ("metric", "this explainer", reference, "random scores", "kept", "n", "left out")
        return heads, [_cells(row) for row in self.rows]

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; None for NaN."""
        return {"rows": [{name: _plain(value) for name, value in vars(row).items()} for row in self.rows]}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> HeldOutPanel:
        """Inverse of ``to_dict``."""
        try:
            rows = cast("Sequence[Mapping[str, object]]", data["rows"])
            return cls(tuple(_row(row) for row in rows))
        except (KeyError, TypeError, AttributeError) as problem:
            raise FormatError(f"not a panel of metrics: {problem}") from None


def held_out_panel(
    judges: Sequence[Judge], model: Model, learned: Sequence[Explanation], reference: Sequence[Explanation]
) -> HeldOutPanel:
    """Grade learned explanations, the reference's and random scores of the same texts.

    Args:
        judges: the metrics.
        model: the explained model.
        learned: explanations of held-out texts.
        reference: the reference's of the same texts.
    """
    fitting = suited(judges, reference)
    if not fitting or not reference:
        return HeldOutPanel(())
    sets = (learned, reference, random_scores(reference))
    grades = [np.stack([judge.grades(model, some) for some in sets]) for judge in fitting]  # each (3, texts)
    signs = [-1.0 if judge.lower_is_better else 1.0 for judge in fitting]
    pairs = ((0, 1), (0, 2), (1, 2))
    tested = mean_tests(
        [sign * differences(values[a], values[b]) for sign, values in zip(signs, grades, strict=True) for a, b in pairs]
    )
    return HeldOutPanel(
        tuple(
            _measured(judge, values, [_beside(tested, len(pairs) * number + place) for place in range(len(pairs))])
            for number, (judge, values) in enumerate(zip(fitting, grades, strict=True))
        )
    )


def panel_value(
    judges: Sequence[Judge], model: Model, reference: Sequence[Explanation]
) -> Callable[[Sequence[Explanation]], float] | None:
    """What epochs can be compared by: how learned explanations of some texts stand beside the reference's.

    The mean over metrics of the learned mean less the reference's, in standard deviations of the reference's advance
    over random scores, so that no metric outweighs the others by its scale. Higher is better; 0 is the reference. None
    where no metric tells the reference from random scores on any of the texts.

    Args:
        judges: the metrics.
        model: the explained model.
        reference: the reference's explanations of the texts.
    """
    chance, known = random_scores(reference), []
    for judge in suited(judges, reference):
        theirs = judge.grades(model, reference)
        spread = _spread(differences(theirs, judge.grades(model, chance)))
        if spread > 0:
            known.append((judge, theirs, (-1.0 if judge.lower_is_better else 1.0) / spread))
    if not known:
        return None

    def value(learned: Sequence[Explanation]) -> float:
        gaps = [unit * _mean_gap(judge.grades(model, learned), theirs) for judge, theirs, unit in known]
        return float(np.mean(gaps))

    return value


def suited(judges: Sequence[Judge], explanations: Sequence[Explanation]) -> list[Judge]:
    """The judges that can grade predictions of this kind."""
    classes = all(explanation.prediction.kind == "class" for explanation in explanations)
    return [judge for judge in judges if classes or not judge.of_classes]


def random_scores(explanations: Sequence[Explanation], seed: int = 0) -> list[Explanation]:
    """The same explanations with scores drawn at random; a text's depend on the seed and its place alone."""
    return [
        dataclasses.replace(
            one, scores=tuple(np.random.default_rng([seed, place]).random(len(one.scores)).tolist()), errors=()
        )
        for place, one in enumerate(explanations)
    ]


def _spread(values: Floats) -> float:
    """Standard deviation of those that are defined; 0 where none is."""
    return float(np.nanstd(values)) if np.isfinite(values).any() else 0.0


def _mean_gap(own: Floats, theirs: Floats) -> float:
    """Mean difference over the texts where both are defined; 0 where none is."""
    gap = differences(own, theirs)
    return float(np.nanmean(gap)) if np.isfinite(gap).any() else 0.0


def _measured(judge: Judge, values: Floats, beside: Sequence[Beside]) -> PanelRow:
    """A row from the grades of the learned, the reference's and random scores: (3, texts)."""
    defined = np.flatnonzero(np.isfinite(values).all(axis=0))
    learned, reference, chance = (float(line[defined].mean()) if len(defined) else math.nan for line in values)
    return PanelRow(
        judge.name,
        judge.lower_is_better,
        learned,
        reference,
        chance,
        n=len(defined),
        left_out=values.shape[1] - len(defined),
        beside_reference=beside[0],
        beside_chance=beside[1],
        reference_beside_chance=beside[2],
    )


def _beside(tests: MeanTests, number: int) -> Beside:
    if np.isnan(tests.adjusted[number]):
        return "unknown"
    if not tests.significant[number]:
        return "alike"
    return "better" if tests.difference[number] > 0 else "worse"


def _listed(rows: Sequence[PanelRow]) -> str:
    return ", ".join(f"{row.metric} {row.kept:.2f}" for row in rows)


def _cells(row: PanelRow) -> tuple[str, ...]:
    arrow = "↓" if row.lower_is_better else "↑"
    mark = {"worse": " (worse)", "better": " (better)", "unknown": " (not tested)", "alike": ""}[row.beside_reference]
    kept = "–" if math.isnan(row.kept) else f"{row.kept:.2f}{mark}"
    means = (f"{value:.3f}" for value in (row.learned, row.reference, row.chance))
    return (f"{row.metric} {arrow}", *means, kept, f"{row.n:,}", f"{row.left_out:,}")


def _row(data: Mapping[str, object]) -> PanelRow:
    values = {name: data[name] for name in (item.name for item in dataclasses.fields(PanelRow))}
    for name in ("learned", "reference", "chance"):
        values[name] = math.nan if values[name] is None else float(cast("float", values[name]))
    return PanelRow(**values)  # type: ignore[arg-type] # plain JSON values that to_dict wrote


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
