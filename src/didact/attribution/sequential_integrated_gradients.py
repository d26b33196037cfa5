"""Sequential integrated gradients: one line per token, all other tokens in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.paths import Followed, OneByOne, OwnPosition, covered, quadrature
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Target, Units


@register(
    Card(
        name="sequential_integrated_gradients",
        family="gradient",
        summary="For each token, integrated gradients from the text with only that token masked to the text.",
        reference="Enguehard 2023",
        cost="tokens x steps + 2 forwards, tokens x steps backwards",
        needs=frozenset({DIFFERENTIABLE}),
    )
)
@dataclass(frozen=True, kw_only=True)
class SequentialIntegratedGradients(Attribution):
    """Every token starts from a baseline of its own, the text without that token, so its context stays meaningful.

    Since only one token moves, its score tends to target(text) - target(text with that token masked) as steps grow:
    what ``occlusion`` at token level finds with one evaluation per token. The paper divides the scores of a text by
    their norm; here they stay on the target's scale. A word's score is the sum over its tokens.

    Args:
        steps: points on each line; ten of Gauss and Legendre's come as near as about fifty of "right".
        baseline: "mask", "pad" or "zero" embedding, or "token:X"; "mask" falls back to "pad" without a mask token.
        rule: where the points lie: "gauss_legendre", "midpoint" or "right".
        aggregate: "sum" over the embedding's dimensions, or their "norm", which has no sign.

    Example:
        >>> import didact
        >>> didact.explain("A fine film.", method="sequential_integrated_gradients", steps=5)  # doctest: +SKIP
    """

    steps: int = 10
    baseline: str = "mask"
    rule: Literal["gauss_legendre", "midpoint", "right"] = "gauss_legendre"
    aggregate: Literal["sum", "norm"] = "sum"

    def __post_init__(self) -> None:
        at_least(self, steps=1)

    @property
    def signed(self) -> bool:
        """A norm has no sign."""
        return self.aggregate == "sum"

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Differentiate along all lines; the text itself, evaluated last, gives the check."""
        alphas, weights = quadrature(self.rule, self.steps)
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        lines = [
            OneByOne(start, end, covered(unit), alphas) for unit, start, end in zip(units, starts, ends, strict=True)
        ]
        points = [Followed(own, own.end) for own in lines]
        gradients = model.gradients(units, targets, points, [OwnPosition(own, weights) for own in lines])
        outcomes = []
        for unit, own, (values, gradient) in zip(units, lines, gradients, strict=True):
            parts = gradient * (own.end - own.start)
            tokens = parts.sum(-1) if self.aggregate == "sum" else parts.norm(dim=-1)
            outcomes.append(Outcome(sum_to_units(unit, tokens), float(values[-1])))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the points of every token's line and the text itself."""
        points = len(covered(units)) * self.steps
        return Cost(forwards=points + 2, backwards=points)
