"""Human: the rationale that came with the example, as an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution.base import Attribution, Outcome, register
from didact.errors import InputError
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Span, Target, Units, marked_shares, overlapping


@register(
    Card(
        name="human",
        family="control",
        summary="The example's own human rationale: 1 inside it, 0 elsewhere.",
        reference="control; Zaidan, Eisner and Piatko 2007 (rationales)",
        cost="1 forward (the prediction)",
        signed=False,
        needs_rationale=True,
        aliases=("human_rationale",),
    )
)
@dataclass(frozen=True, kw_only=True)
class Human(Attribution):
    """1 for every word that a span of the rationale overlaps; of an image, the share of each patch that is marked.

    It knows the text and its gold label but not the model, so it is the ceiling for plausibility and a control for
    faithfulness. Examples carry a rationale in ``Example.rationale`` (field "rationale" of a .jsonl file).

    Example:
        >>> import didact
        >>> review = didact.Example("A dull plot.", rationale=(didact.Span(2, 6),))
        >>> didact.explain(review, method="human").scores  # doctest: +SKIP
        (0.0, 1.0, 0.0, 0.0)
    """

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Read the rationales off the examples."""
        return [Outcome(_overlap(unit), None) for unit in units]

    def cost(self, units: Units) -> Cost:
        """Only the plain prediction."""
        return Cost(forwards=1)


def _overlap(units: Units) -> Floats:
    example = units.example
    if example.rationale is None:
        name = f"{example.id}: " if example.id is not None else ""
        raise InputError(
            f"the example {name}{example.preview} has no human rationale; give one as Example(..., rationale=spans) "
            "or in the field 'rationale' of a .jsonl file, or use another method"
        )
    if all(isinstance(region, Span) for region in units.regions):
        return np.asarray(overlapping(units.regions, example.rationale), dtype=np.float64)
    return np.nan_to_num(marked_shares(units.regions, example.rationale))
