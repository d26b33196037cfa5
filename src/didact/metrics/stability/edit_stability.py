"""Edit stability: whether an edit that keeps the meaning leaves the ranking of the words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.errors import ParameterError
from didact.metrics._ranks import Coefficient, rank_correlation
from didact.metrics._words import mean_defined, words_of
from didact.metrics.base import BaseMetric, register
from didact.metrics.stability._edits import KINDS, Edited, Kind, edited, matched
from didact.protocols import Evidence, Explainer, Model
from didact.types import Explanation, Grade, MetricCard


@register(
    MetricCard(
        name="edit_stability",
        family="stability",
        summary="Rank correlation of the scores before and after edits that keep meaning and prediction.",
        reference="our own; after Alvarez-Melis and Jaakkola 2018 (like inputs, like explanations)",
        low=-1.0,
        high=1.0,
        needs=frozenset({"model", "explainer", "text"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class EditStability(BaseMetric):
    """Mean over kinds of edit of the rank correlation between the words' scores before and after.

    The edits are rules for English, each made wherever it applies: "case" changes the case of the text's first letter;
    "punctuation" takes the final full stop away or adds one; "blanks" doubles the blanks between words; "contractions"
    writes "don't" as "do not"; "synonyms" swaps listed neutral words such as film and movie. An edit counts only when
    it changes the text and the model still predicts the same label (for a regression it always counts). The edited text
    is explained with the same explainer, settings and target. Words are compared with the word in their place, the
    scores of words that were split or joined are summed, and words that came or went are left out.

    The parts are the kinds of edit, NaN where one did not count; the value is NaN when none did. Explaining costs as
    much as for that many further texts.

    Args:
        edits: which kinds.
        coefficient: "spearman" or "kendall".

    Example:
        >>> EditStability(edits=("blanks",)).measure(Evidence(explanations, model, explainer))  # doctest: +SKIP
    """

    edits: tuple[Kind, ...] = KINDS
    coefficient: Coefficient = "spearman"

    def __post_init__(self) -> None:
        wrong = [kind for kind in self.edits if kind not in KINDS]
        if wrong or not self.edits:
            raise ParameterError(f"edits of {self.card.name} must be some of {', '.join(KINDS)}; got {self.edits!r}")
        object.__setattr__(self, "edits", tuple(self.edits))

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Edit, see which edits count, explain these together, compare."""
        explanations, model, explainer = evidence.explanations, evidence.model, evidence.explainer
        if model is None or explainer is None:  # refused before; narrows the types
            return []
        edits = [
            (number, kind, edit)
            for number, explanation in enumerate(explanations)
            for kind in self.edits
            if (edit := edited(explanation.example, kind)) is not None
        ]
        explained = _explain(model, explainer, [(explanations[number], edit) for number, _, edit in edits])
        parts: list[dict[str, float]] = [{kind: float("nan") for kind in self.edits} for _ in explanations]
        for (number, kind, edit), after in zip(edits, explained, strict=True):
            if after is not None:
                scores = matched(words_of(explanations[number]), words_of(after), edit)
                parts[number][kind] = rank_correlation(*scores, self.coefficient)
        return [Grade(mean_defined(own.values()), own) for own in parts]


def _explain(
    model: Model, explainer: Explainer, pairs: Sequence[tuple[Explanation, Edited]]
) -> list[Explanation | None]:
    """Explanations of the edited texts; None for those that are predicted otherwise."""
    explanations: list[Explanation | None] = [None] * len(pairs)
    if not pairs:
        return explanations
    predictions = model.predict([edit.example for _, edit in pairs])
    same = [
        number
        for number, ((before, _), now) in enumerate(zip(pairs, predictions, strict=True))
        if now.is_regression or now.index == before.prediction.index
    ]
    examples = [pairs[number][1].example for number in same]
    targets = [pairs[number][0].target for number in same]
    for number, explanation in zip(same, explainer.explain(model, examples, targets), strict=True):
        explanations[number] = explanation
    return explanations
