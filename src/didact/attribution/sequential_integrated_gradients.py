"""Sequential integrated gradients: one line per token, all other tokens in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from didact.attribution._completeness import misses
from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.paths import Followed, OneByOne, OwnPosition, covered, quadrature
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.types import Card, Cost, Floats, Target, Units


@register(
    Card(
        name="sequential_integrated_gradients",
        family="gradient",
        summary="For each token, integrated gradients from the text with only that token masked to the text.",
        reference="Enguehard 2023",
        cost="tokens x (steps + 1) + 2 forwards, tokens x steps backwards",
        needs=frozenset({DIFFERENTIABLE}),
        aliases=("sig",),
    )
)
@dataclass(frozen=True, kw_only=True)
class SequentialIntegratedGradients(Attribution):
    """Every token starts from a baseline of its own, the text without that token, so its context stays meaningful.

    Since only one token moves, its score tends to target(text) - target(text with that token masked) as steps grow:
    what ``occlusion`` at token level computes with one evaluation per token. ``completeness_gap`` is what the tokens'
    scores miss of it together, with a warning where that is over 5 %. The paper divides the scores of a text by
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
        """Differentiate along all lines; their beginnings and the text itself, only evaluated, give gaps and check."""
        alphas, weights = quadrature(self.rule, self.steps)
        ends, starts = model.embed(units), model.embed(units, absent=self.baseline)
        lines = [
            OneByOne(start, end, covered(unit), alphas) for unit, start, end in zip(units, starts, ends, strict=True)
        ]
        points = [Followed(own, Followed(dataclasses.replace(own, alphas=np.zeros(1)), own.end[None])) for own in lines]
        gradients = model.gradients(units, targets, points, [OwnPosition(own, weights) for own in lines])
        return [
            self._outcome(model, unit, own, values, gradient * (own.end - own.start))
            for unit, own, (values, gradient) in zip(units, lines, gradients, strict=True)
        ]

    def _outcome(self, model: Differentiable, units: Units, lines: OneByOne, values: Floats, parts: Tensor) -> Outcome:
        summed = parts.sum(-1)
        tokens = summed if self.aggregate == "sum" else parts.norm(dim=-1)
        changes = values[-1] - values[len(lines) : -1]  # by each token alone
        gaps = summed.double().cpu().numpy()[lines.positions] - changes
        missed, total = float(np.abs(gaps).sum()), float(np.abs(changes).sum())
        warning = (
            f"the scores of {self.card.name} miss {missed / max(total, 1e-9):.0%} of what masking each token changes: "
            f"{self.steps} steps are too few; raise steps, or use another baseline"
        )
        warnings = (warning,) if misses(model, missed, total) else ()
        details = {"completeness_gap": float(gaps.sum())}
        return Outcome(sum_to_units(units, tokens), float(values[-1]), details, warnings=warnings)

    def cost(self, units: Units) -> Cost:
        """The plain prediction, the points and the beginning of every token's line, and the text, which ends all."""
        tokens = len(covered(units))
        return Cost(forwards=tokens * (self.steps + 1) + 2, backwards=tokens * self.steps)
