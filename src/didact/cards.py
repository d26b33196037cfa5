"""Cards: what a registered explainer or metric is and needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Card:
    """What a registered explainer is and needs; lists in docs, CLI and tests are made from cards.

    Attributes:
        name: registered name; also its file, its CLI name and its test id.
        family: gradient, relevance, decomposition, attention, perturbation, self-report or control.
        summary: one sentence.
        reference: where it was published.
        cost: forwards and backwards in words, for n units; ``Explainer.cost`` gives the numbers.
        needs: capabilities of the model beyond ``score``.
        signed: whether scores carry a sign.
        seeded: whether the result depends on a seed.
        axioms: completeness, dummy, symmetry, as far as the method promises them.
        tolerance: how far completeness may be missed at default settings, relative to 1 + |difference|.
        inputs: kinds of example it takes: "text", "pair", "image".
        needs_rationale: whether it explains only examples that have a human rationale.
        default: whether an evaluation that names no methods grades it.
        aliases: other names it is known by, which stand for ``name``.
    """

    name: str
    family: str
    summary: str
    reference: str
    cost: str
    needs: frozenset[str] = frozenset()
    signed: bool = True
    seeded: bool = False
    axioms: frozenset[str] = frozenset()
    tolerance: float = 1e-4
    inputs: tuple[str, ...] = ("text", "pair", "image")
    needs_rationale: bool = False
    default: bool = False
    aliases: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = vars(self).copy()
        lists = {"needs": sorted(self.needs), "axioms": sorted(self.axioms)}
        return plain | lists | {"inputs": list(self.inputs), "aliases": list(self.aliases)}


Invariance = Literal["order", "scale", "affine", "none"]
"""What may happen to the scores of an explanation without changing a metric."""


@dataclass(frozen=True)
class MetricCard:
    """What a registered metric is and needs.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: faithfulness, stability, plausibility, agreement or efficiency.
        summary: one sentence.
        reference: where it was published, or what it follows.
        higher_is_better: the direction; None where neither is better.
        low: smallest possible value.
        high: largest possible value.
        needs: what it looks at beyond the explanations: "model", "rationale", "explainer" (to explain further texts),
            "corpus" (all examples at once), "repeats" (other seeds), "others" (other explainers), "surrogate"; of the
            explained examples "text" (not images) and "classes" (a prediction with probabilities).
        invariant: to any strictly increasing map of a text's scores ("order"), to a x + b with a > 0 ("affine"), to a x
            ("scale"), or to "none" of these.
        timed: whether it measures time or memory, so that no two runs give the same number.
        default: whether an evaluation that names no metrics computes it, as far as the data allow.
        aliases: other names it is known by, which stand for ``name``.
    """

    name: str
    family: str
    summary: str
    reference: str
    higher_is_better: bool | None = True
    low: float = -math.inf
    high: float = math.inf
    needs: frozenset[str] = frozenset()
    invariant: Invariance = "order"
    timed: bool = False
    default: bool = False
    aliases: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an open end of the range is None."""
        plain = vars(self).copy()
        ends = {end: plain[end] if math.isfinite(plain[end]) else None for end in ("low", "high")}
        plain.update(ends, needs=sorted(self.needs), aliases=list(self.aliases))
        return plain
