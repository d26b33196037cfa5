"""Layer conductance: what passes through each token's hidden state on the way from a baseline to the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from didact.attribution._completeness import missed_warning, misses
from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.paths import Line
from didact.ops.units import sum_to_units
from didact.protocols import DIFFERENTIABLE, HIDDEN, Differentiable, Hidden
from didact.types import Card, Cost, Target, Units


class _Model(Differentiable, Hidden, Protocol):
    """What the card needs."""


@register(
    Card(
        name="layer_conductance",
        family="gradient",
        summary="Part of the change from a baseline to the text that passes through each token's state after a layer.",
        reference="Dhamdhere, Sundararajan and Yan 2019; Pruthi et al. 2022 (first encoder layer)",
        cost="steps + 2 forwards, steps + 1 backwards",
        needs=frozenset({DIFFERENTIABLE, HIDDEN}),
        aliases=("conductance",),
    )
)
@dataclass(frozen=True, kw_only=True)
class LayerConductance(Attribution):
    """Integral of gradient x change of the state after a layer, along the line from the baseline's embeddings.

    ``integrated_gradients`` measures what enters at a token, this what passes through its position once tokens have
    exchanged information; they agree before the first layer. All positions together pass on target(text) -
    target(baseline); special tokens have states of their own, and their part, which no unit gets, is kept in
    ``details`` as ``specials``. ``completeness_gap`` is what the steps miss, with a warning where it is over 5 %: much
    from a zero embedding in models that normalise embeddings without positions (Llama, ModernBERT), for which it is a
    singular point. After the last layer of a classifier that reads one position, everything stands there.

    Args:
        steps: pieces of the line.
        baseline: "mask", "pad" or "zero" embedding, or "token:X"; "mask" falls back to "pad" without a mask token.
        layer: index of the layer (negative counts from the end).
        rule: gradient of a piece: the mean of both its ends ("trapezoid"), or of its beginning alone ("left", as
            captum does), which needs many more steps for the same accuracy.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="layer_conductance", layer=1)  # doctest: +SKIP
    """

    steps: int = 50
    baseline: str = "mask"
    layer: int = 0
    rule: Literal["trapezoid", "left"] = "trapezoid"

    def __post_init__(self) -> None:
        at_least(self, steps=1)

    def attribute(self, model: _Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Walk along each line and add up what its pieces pass on; both ends belong to it."""
        alphas = np.linspace(0, 1, self.steps + 1)
        starts, ends = model.embed(units, absent=self.baseline), model.embed(units)
        lines = [Line(start, end, alphas) for start, end in zip(starts, ends, strict=True)]
        flows = [_Flow(self.rule) for _ in units]
        path_values = model.hidden_gradients(units, targets, lines, self.layer, lambda i, _, *seen: flows[i].add(*seen))
        outcomes = []
        for unit, flow, values in zip(units, flows, path_values, strict=True):
            scores = sum_to_units(unit, flow.passed)
            base, full, total = float(values[0]), float(values[-1]), float(flow.passed.sum())
            gap = total - (full - base)
            details = {"base_value": base, "specials": total - float(scores.sum()), "completeness_gap": gap}
            missed = misses(model, gap, full - base)
            cure = f"{self.steps} steps are too few; raise steps, or use another baseline"
            warnings = (missed_warning(self.card.name, gap, full - base, cure),) if missed else ()
            outcomes.append(Outcome(scores, full, details, warnings=warnings))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction and the points from baseline to text."""
        return Cost(forwards=self.steps + 2, backwards=self.steps + 1)


class _Flow:
    """Conductance of each token, added up while the points of a line go by."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.passed = torch.zeros(())  # (tokens,) from the second point on
        self.last: tuple[Tensor, Tensor] | None = None

    def add(self, states: Tensor, gradients: Tensor) -> None:
        """Further points in order: (k, tokens, dim). Nothing is kept before the last allocation."""
        if self.last is not None:
            states, gradients = torch.cat([self.last[0], states]), torch.cat([self.last[1], gradients])
        slopes = gradients[:-1] if self.rule == "left" else (gradients[:-1] + gradients[1:]) / 2
        passed = self.passed.to(states.device) + (slopes * states.diff(dim=0)).sum((0, 2)).double()
        last = states[-1:].clone(), gradients[-1:].clone()
        self.passed, self.last = passed, last
