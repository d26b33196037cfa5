"""Explanations that a network learns from: a reference explainer's, several references' together, or given ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from didact.errors import InputError
from didact.protocols import Explainer, Model
from didact.scale.collect import CHUNK, collect, fresh, reseeded
from didact.store.parts import Parts
from didact.types import Cost, Example, Explanation, Floats, JsonValue

Normalise = Literal["max", "sum", "norm", "none"]

Labels = list[list[Explanation]]
"""Per reference, an explanation per example."""


@dataclass(frozen=True, eq=False)
class ReferenceLabels:
    """Where explanations to learn from come from.

    Attributes:
        of: examples -> their explanations by each reference.
        name: of the reference, or of several joined by "+".
        parameters: of the reference; those of several are called NAME.SETTING.
        count: number of references.
        apart: whether several references are distinguished by the network; otherwise their average is learned.
        fresh: examples -> epoch -> explanations drawn for that epoch; None where every epoch has the same.
        further: the same as ``of`` for texts that are in no pool; None where no reference is run.
    """

    of: Callable[[Sequence[Example]], Labels]
    name: str
    parameters: Mapping[str, JsonValue]
    count: int = 1
    apart: bool = False
    fresh: Callable[[Sequence[Example]], Callable[[int], Labels]] | None = None
    further: Callable[[Sequence[Example]], Labels] | None = None

    def compared(self, labels: Labels) -> list[Explanation]:
        """What the learned scores are compared with: the only reference, the first of several apart, or the average."""
        if len(labels) == 1 or self.apart:
            return labels[0]
        return [averaged(several) for several in zip(*labels, strict=True)]


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """How references are run.

    Args:
        parts: where explanations are stored.
        pools: all texts in the order they were given: texts share a part of the store whatever the split.
        apart: whether several references are distinguished.
        fresh: draw new explanations in every epoch, with the reference's seed + epoch.
        chunk: texts of a stored part.
    """

    parts: Parts
    pools: Sequence[Sequence[Example]]
    apart: bool = False
    fresh: bool = False
    chunk: int = CHUNK


def from_references(model: Model, references: Sequence[Explainer], config: LabelConfig) -> ReferenceLabels:
    """Explanations that references compute when they are first needed."""
    parts, chunk = config.parts, config.chunk
    if config.fresh:
        for reference in references:
            reseeded(reference, 0)  # refused before anything is computed

    def pooled(reference: Explainer) -> dict[str, Explanation]:
        explained = [e for pool in config.pools for e in collect(model, pool, reference, parts, chunk=chunk)]
        return {explanation.example.fingerprint: explanation for explanation in explained}

    @cache
    def known() -> list[dict[str, Explanation]]:
        return [pooled(reference) for reference in references]

    def of(examples: Sequence[Example]) -> Labels:
        return [[by_text[example.fingerprint] for example in examples] for by_text in known()]

    def further(examples: Sequence[Example]) -> Labels:
        return [collect(model, examples, reference, parts, chunk=chunk) for reference in references]

    def anew(examples: Sequence[Example]) -> Callable[[int], Labels]:
        drawn = [fresh(model, examples, reference, parts, chunk=chunk) for reference in references]
        return lambda epoch: [draw(epoch) for draw in drawn]

    return ReferenceLabels(
        of,
        "+".join(reference.card.name for reference in references),
        joint_parameters([(reference.card.name, reference.parameters) for reference in references]),
        len(references),
        config.apart and len(references) > 1,
        anew if config.fresh else None,
        further,
    )


def from_explanations(given: Sequence[Explanation]) -> ReferenceLabels:
    """Explanations that exist already; no reference is run."""
    by_text = {explanation.example.fingerprint: explanation for explanation in given}

    def of(examples: Sequence[Example]) -> Labels:
        missing = next((example for example in examples if example.fingerprint not in by_text), None)
        if missing is not None:
            raise InputError(f"there is no label for {missing.preview}; give texts that the labels explain")
        return [[by_text[example.fingerprint] for example in examples]]

    names = sorted({explanation.method for explanation in given})
    same = len({str(explanation.parameters) for explanation in given}) == 1
    return ReferenceLabels(of, "+".join(names), dict(given[0].parameters) if same else {})


def joint_parameters(named: Sequence[tuple[str, Mapping[str, JsonValue]]]) -> dict[str, JsonValue]:
    """Settings of a reference, or of several, each setting then called after its reference."""
    if len(named) == 1:
        return dict(named[0][1])
    return {f"{name}.{setting}": value for name, own in named for setting, value in own.items()}


def averaged(explanations: Sequence[Explanation], how: Normalise = "max") -> Explanation:
    """Several references as one: the mean of their normalised scores for the same units and target.

    A reference without signs cannot show evidence against, so where there is one, all count by absolute value.
    """
    first = explanations[0]
    for other in explanations[1:]:
        if (other.units.example, other.units.regions) != (first.units.example, first.units.regions):
            raise InputError(f"{first.method} and {other.method} explain different units; average those of one text")
        if other.target.index != first.target.index:
            raise InputError(
                f"{first.method} explains {first.target.label!r} and {other.method} {other.target.label!r}; "
                "average explanations of one output"
            )
    signed = all(explanation.signed for explanation in explanations)
    arrays = [explanation.array if signed else abs(explanation.array) for explanation in explanations]
    scores = np.mean([normalised(array, how) for array in arrays], axis=0)
    return dataclasses.replace(
        first,
        method="+".join(explanation.method for explanation in explanations),
        scores=tuple(scores.tolist()),
        parameters={},
        signed=signed,
        cost=_together([explanation.cost for explanation in explanations]),
        details={},
        errors=(),
    )


def _together(costs: Sequence[Cost]) -> Cost:
    """What several explanations took; times that are not known count as none."""
    return Cost(
        sum(cost.forwards for cost in costs),
        sum(cost.backwards for cost in costs),
        seconds=sum(cost.seconds or 0.0 for cost in costs),
    )


def normalised(weights: Floats, how: Normalise = "max") -> Floats:
    """A document's weights brought to one size; weights that are all 0 stay as they are."""
    if how == "none":
        return weights
    size = float(np.linalg.norm(weights, {"max": np.inf, "sum": 1, "norm": 2}[how]))
    return weights / size if size > 0 else weights
