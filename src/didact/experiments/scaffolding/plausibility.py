"""Explanations against what people marked: area under the ROC curve, of explainers and of every single head.

What is judged is what students see: the weights of the hints, token by token, which the metric sums into words as in
SMaT. The best head and the best layer are chosen on the judged texts themselves, with the human labels: a ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.data.load import load_data
from didact.errors import InputError
from didact.experiments.engine.facts import facts_table
from didact.experiments.engine.toml import Options, Plain
from didact.experiments.scaffolding.recipe import rated_label
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.models.outputs import predicted_targets
from didact.ops.units import group_words
from didact.progress import advance, working
from didact.protocols import Evidence, Explainer, Heads, Model
from didact.provenance import content_hash
from didact.simulation.hints import HintFormat
from didact.types import Example, Explanation, Floats, Region, Units, inside

TOGETHER = "all"
"""The side of examples whose fields are judged together."""
CHUNK = 64
LEVELS = ("token", "patch")
"""What heads score, as far as the model offers it."""


@dataclass(frozen=True, eq=False)
class RatedData:
    """Examples with human rationales.

    Attributes:
        label: what they are called.
        examples: those that have a rationale.
        sides: name -> the field that is judged; None judges all together.
    """

    label: str
    examples: Sequence[Example]
    sides: Mapping[str, int | None]

    @cached_property
    def identity(self) -> str:
        """Hash of what decides the judgements."""
        return content_hash([[one.to_dict() for one in self.examples], dict(self.sides)])


def rated_data(table: Options) -> RatedData:
    """The data that a table of a recipe names."""
    options = {name: value for name, value in table.items() if name not in ("label", "sides")}
    examples = [one for one in load_data(**options) if one.rationale or any(one.annotators)]
    if not examples:
        raise InputError(f"{options['source']} has no human rationale to compare with; name other data")
    named: dict[str, int | None] = {name: place for place, name in enumerate(table.get("sides", ()))}
    return RatedData(rated_label(table), examples, named or {TOGETHER: None})


def judged(data: RatedData, model: Model, explainer: Explainer, format: HintFormat) -> pa.Table:
    """Facts: side -> the AUC of every text, None where it is not defined."""
    shown: list[Explanation] = []
    with working(f"explaining {data.label}", len(data.examples)):
        for start in range(0, len(data.examples), CHUNK):
            some = explainer.explain(model, data.examples[start : start + CHUNK])
            shown += [replace(one, scores=tuple(format.hint(one).weights.tolist()), signed=False) for one in some]
            advance(len(some))
    evidence = Evidence(shown, model)
    grades = {side: RationaleAuc(field=field).measure(evidence) for side, field in data.sides.items()}
    return facts_table({side: _plain(np.array([one.value for one in own])) for side, own in grades.items()})


def oracles(data: RatedData, model: Heads) -> pa.Table:
    """Facts: side -> the mean AUC of every head and layer, and the values of the best of each."""
    level = next(one for one in (*LEVELS, *model.levels) if one in model.levels)
    units = model.units(data.examples, level)
    layers, heads = model.head_grid
    logits: list[Floats] = []
    for start in range(0, len(units), CHUNK):
        logits += [one.double().numpy() for one in model.head_scores(units[start : start + CHUNK])]
    counted = _counted(data, model, units)
    facts: Plain = {}
    for side, field in data.sides.items():
        if not counted[side].any():
            continue
        alone = np.full((layers * heads, len(units)), np.nan)
        mixed = np.full((layers, len(units)), np.nan)
        for at in np.flatnonzero(counted[side]):
            words, own = _words(units[at]), logits[at]
            within = own.reshape(layers, heads, -1).mean(axis=1)
            alone[:, at], mixed[:, at] = (_areas(units[at], words, some, field) for some in (own, within))
        facts[side] = {
            "heads": _means(alone).reshape(layers, heads).tolist(),
            "layers": _means(mixed).tolist(),
            "best head": _best(alone, [f"layer {h // heads}, head {h % heads}" for h in range(layers * heads)]),
            "best layer": _best(mixed, [f"layer {layer}" for layer in range(layers)]),
        }
    return facts_table(facts)


def _counted(data: RatedData, model: Model, units: Sequence[Units]) -> dict[str, NDArray[np.bool_]]:
    """Side -> the texts that the metric counts, whatever the scores."""
    predictions, targets = predicted_targets(model, data.examples, [None] * len(units), None)
    blank = [
        Explanation("heads", own, (0.0,) * len(own), target, prediction)
        for own, target, prediction in zip(units, targets, predictions, strict=True)
    ]
    evidence = Evidence(blank, model)
    measured = {side: RationaleAuc(field=field).measure(evidence) for side, field in data.sides.items()}
    return {side: np.array([np.isfinite(one.value) for one in own]) for side, own in measured.items()}


Words = tuple[Sequence[Region], Sequence[Sequence[int]]]
"""Regions that are judged, and the units that each is made of."""


def _words(units: Units) -> Words:
    if units.level != "token":
        return units.regions, [[place] for place in range(len(units))]
    return group_words(units.example.texts, [(span.field, span.start, span.end) for span in units.spans])


def _areas(units: Units, words: Words, logits: Floats, field: int | None) -> Floats:
    """AUC of each row of logits (rows, units): their softmax, summed into words, against the mean annotator."""
    regions, members = words
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))  # in proportion to the softmax, which is enough
    kept = [place for place, region in enumerate(regions) if field in (None, region.field)]
    scores = np.stack([weights[:, members[place]].sum(axis=1) for place in kept], axis=1)
    example = units.example
    areas = []
    for marked in example.annotators or (example.rationale or (),):
        marks = inside([regions[place] for place in kept], marked)
        gold, known = marks == 1, ~np.isnan(marks)
        if 0 < gold[known].sum() < known.sum():
            areas.append(_auc(scores[:, known], gold[known]))
    return np.asarray(np.mean(areas, axis=0))


def _auc(scores: Floats, gold: NDArray[np.bool_]) -> Floats:
    """Share of the pairs in the right order, ties counting half: (rows,)."""
    marked, others = scores[:, gold, None], scores[:, None, ~gold]
    return np.asarray(((marked > others) + 0.5 * (marked == others)).mean(axis=(1, 2)))


def _means(values: Floats) -> Floats:
    return np.asarray(values[:, np.isfinite(values).all(axis=0)].mean(axis=1))


def _best(values: Floats, names: Sequence[str]) -> Plain:
    best = int(np.argmax(_means(values)))
    return {"name": names[best], "values": _plain(values[best])}


def _plain(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
