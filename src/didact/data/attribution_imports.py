"""Attributions made elsewhere, read as explanations: plain arrays, and the result objects of other libraries.

None of these libraries is imported. An object is known by the module its class comes from, so reading works with
whatever version made it, as long as the fields are there.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from didact.data.alignment import align, joined
from didact.errors import DidactError, FormatError, InputError, ParameterError
from didact.protocols import ExampleLike, Model
from didact.types import (
    Example,
    Explanation,
    Floats,
    JsonValue,
    Level,
    Prediction,
    Scale,
    Span,
    Target,
    Units,
    overlaps,
)
from didact.validation import shown


class Foreign(Protocol):
    """An object of another library, read by the names of its attributes."""

    def __getattr__(self, name: str) -> Any: ...


Offsets = Sequence[Span] | Sequence[Sequence[int]]
"""Start, end and perhaps field per unit."""


@dataclass(frozen=True)
class Outside:
    """What another library computed, before it is tied to a prediction of a model.

    Attributes:
        method: library and method, as in "shap:partition".
        units: what was scored, special tokens left out.
        scores: one per unit.
        target: label or index that was explained, where the object holds it.
        scale: scale of the explained number, where the object holds it.
        prediction: the model's prediction, where the object holds it.
        signed: whether a negative score means evidence against the target.
        details: further numbers.
        parameters: further facts.
    """

    method: str
    units: Units
    scores: tuple[float, ...]
    target: str | int | None = None
    scale: Scale | None = None
    prediction: Prediction | None = None
    signed: bool = True
    details: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)

    def explanation(self, target: Target, prediction: Prediction) -> Explanation:
        """The explanation, once the target and the prediction are known."""
        return Explanation(
            method=self.method,
            units=self.units,
            scores=self.scores,
            target=target,
            prediction=prediction,
            parameters=self.parameters,
            signed=self.signed,
            details=self.details,
        )


def read(obj: object, source: ExampleLike | None = None, target: str | int | None = None) -> Outside | list[Outside]:
    """Recognise an object and take its attributions out; a list where it holds several texts.

    Args:
        obj: a ``shap.Explanation``, a ``lime`` explanation, captum's ``VisualizationDataRecord``, inseq's
            ``FeatureAttributionOutput``, ferret's ``Explanation``, or a mapping with "scores" (or "attributions") and
            either "spans" (or "offsets") or "tokens", and perhaps "method".
        source: the explained text, where the object does not hold it (captum, inseq, mappings).
        target: the class to take out of an object that holds several.
    """
    library = "mapping" if isinstance(obj, Mapping) else type(obj).__module__.partition(".")[0]
    reader = _mapping if isinstance(obj, Mapping) else READERS.get(library)
    if reader is None:
        raise InputError(
            f"cannot read attributions from {type(obj).__module__}.{type(obj).__name__}; known: objects of "
            f"{', '.join(READERS)}, or a mapping with 'scores' and 'spans' (or 'tokens')"
        )
    try:
        return reader(cast("Foreign", obj), source, target)
    except DidactError:
        raise
    except Exception as problem:  # whatever an object of another library raises when it is looked into
        raise FormatError(f"this {library} object cannot be read: {problem}") from None


def resolve(label: str | int | None, prediction: Prediction, scale: Scale | None) -> Target:
    """The target among the labels of a prediction; the predicted label when none is given."""
    index = prediction.index if label is None else _index(label, prediction.labels)
    return Target(index, prediction.labels[index], scale or "logit")


def _mapping(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside:
    """Arrays by name: spans, or tokens as captum's users keep them."""
    scores = obj.get("scores", obj.get("attributions"))
    spans = obj.get("spans", obj.get("offsets"))
    method = str(obj.get("method", "outside"))
    if scores is None or (spans is None and obj.get("tokens") is None):
        raise FormatError(
            f"a mapping needs 'scores' (or 'attributions') and 'spans' (or 'offsets') or 'tokens'; it has "
            f"{sorted(map(str, obj.keys()))}"
        )
    text = _needed(obj.get("text", source), method)
    if spans is None:
        return _tokens(method, text, [str(token) for token in obj.get("tokens")], _per_token(scores))
    return _outside(method, text, spans, _per_token(scores), "token" if obj.get("tokens") is not None else "word")


def _captum(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside:
    """Captum's record for visualisation: tokens with the attribution of each."""
    outside = _tokens(
        "captum",
        _needed(source, "captum"),
        [str(token) for token in obj.raw_input_ids],
        _per_token(obj.word_attributions),
    )
    explained = obj.attr_class if target is None else target
    number = re.fullmatch("[0-9]{1,9}", explained) is not None if isinstance(explained, str) else True
    return dataclasses.replace(outside, target=int(explained) if number else explained)


def _shap(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside | list[Outside]:
    """One text, or many in one object; base values and values add up to the model's output."""
    values = obj.values
    if len(obj.data) and not isinstance(obj.data[0], str):
        return [
            _shap_one(obj, _part(values, i), _part(obj.base_values, i), obj.data[i], target) for i in range(len(values))
        ]
    return _shap_one(obj, values, obj.base_values, obj.data, target, source)


def _shap_one(
    obj: Foreign,
    values: object,
    base: object,
    data: Sequence[object],
    target: str | int | None,
    source: ExampleLike | None = None,
) -> Outside:
    tokens = [str(token) for token in data]
    columns = _floats(values)
    columns = columns[:, None] if columns.ndim == 1 else columns
    bases = np.broadcast_to(_floats(base).ravel(), columns.shape[1:])
    names = obj.output_names
    labels = [names] if isinstance(names, str) else list(names) if names is not None else []
    if len(labels) != columns.shape[1]:
        labels = [f"output {i}" for i in range(columns.shape[1])] if columns.shape[1] > 1 else ["output"]
    labels = [str(label) for label in labels]
    totals = bases + columns.sum(axis=0)
    chosen = int(totals.argmax()) if target is None else _index(target, labels)
    prediction, scale = _answer(labels, totals)
    method = "shap" if obj.hierarchical_values is None else "shap:partition"
    text = Example.of("".join(tokens) if source is None else source)
    outside = _tokens(method, text, tokens, columns[:, chosen])
    return dataclasses.replace(
        outside,
        target=labels[chosen],
        scale=scale,
        prediction=prediction,
        signed=True,
        details={**outside.details, "base_value": float(bases[chosen])},
    )


def _lime(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside:
    """LIME's words: one weight per word type, given to each of its places."""
    string = obj.domain_mapper.indexed_string
    labels = [str(name) for name in obj.class_names]
    known = [int(label) for label in obj.available_labels()]
    chosen = known[0] if target is None else _index(target, labels)
    if chosen not in known:
        raise InputError(
            f"this LIME explanation holds labels {known}, not {chosen}; explain that label with LIME first"
        )
    places: list[tuple[int, int, float]] = []
    for word, weight in obj.as_map()[chosen]:
        starts = np.atleast_1d(string.string_position(int(word)))
        places += [(int(start), int(start) + len(str(string.word(int(word)))), float(weight)) for start in starts]
    places.sort()
    spans = [place[:2] for place in places]
    outside = _outside("lime:text", Example.of(string.raw_string()), spans, [place[2] for place in places], "word")
    prediction, scale = _answer(labels, _floats(obj.predict_proba))
    return dataclasses.replace(outside, target=labels[chosen], scale=scale, prediction=prediction, signed=True)


def _inseq(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside | list[Outside]:
    """What led to the generated tokens: mean over the steps; vectors count with their length, as inseq shows them."""
    info = obj.info if isinstance(obj.info, Mapping) else {}
    method = f"inseq:{info.get('attribution_method', 'unknown')}"
    sequences = [
        _inseq_one(sequence, method, source if len(obj.sequence_attributions) == 1 else None)
        for sequence in obj.sequence_attributions
    ]
    named = [dataclasses.replace(outside, target=target) for outside in sequences]
    return named[0] if len(named) == 1 else named


def _inseq_one(sequence: Foreign, method: str, source: ExampleLike | None) -> Outside:
    encoder = sequence.source_attributions is not None
    matrix = _floats(sequence.source_attributions if encoder else sequence.target_attributions)
    pieces = sequence.source if encoder else sequence.target[: sequence.attr_pos_start]
    tokens = [str(getattr(piece, "token", piece)) for piece in pieces]
    matrix = matrix[: len(tokens)]
    if matrix.ndim == 3:
        matrix = np.linalg.norm(matrix, axis=2)
    text = joined(tokens) if source is None else source
    return _tokens(method, text, tokens, matrix.mean(axis=1) if matrix.ndim == 2 else matrix)


def _ferret(obj: Foreign, source: ExampleLike | None, target: str | int | None) -> Outside:
    """Ferret's tokens and scores; its class is called target_pos_idx, and target in earlier versions."""
    name = str(obj.explainer).strip().lower().replace(" ", "_")
    outside = _tokens(
        f"ferret:{name}", obj.text if source is None else source, [str(t) for t in obj.tokens], _floats(obj.scores)
    )
    explained = getattr(obj, "target_pos_idx", getattr(obj, "target", None)) if target is None else target
    return dataclasses.replace(outside, target=explained, signed=True)


READERS: dict[str, Callable[[Foreign, ExampleLike | None, str | int | None], Outside | list[Outside]]] = {
    "captum": _captum,
    "shap": _shap,
    "lime": _lime,
    "inseq": _inseq,
    "ferret": _ferret,
}


def _tokens(method: str, source: ExampleLike, tokens: Sequence[str], scores: Floats) -> Outside:
    """Scores of tokens that are located by search; special tokens are left out, and their sum goes into the details."""
    if len(tokens) != len(scores):
        raise FormatError(f"{method} has {len(scores)} scores for {len(tokens)} tokens; there must be one for each")
    example = Example.of(source)
    spans = align(example, tokens)
    placed = [(span, float(score)) for span, score in zip(spans, scores, strict=True) if span is not None]
    left_out = float(sum(score for span, score in zip(spans, scores, strict=True) if span is None))
    outside = _outside(method, example, [span for span, _ in placed], [score for _, score in placed], "token")
    return dataclasses.replace(outside, details={"left_out": left_out} if len(placed) < len(tokens) else {})


def _outside(
    method: str, source: ExampleLike, spans: Offsets, scores: Sequence[float] | Floats, level: Level
) -> Outside:
    """Check spans and scores, and put them together."""
    values = _floats(scores)
    if values.ndim != 1 or len(values) != len(spans):
        raise FormatError(
            f"{method} has scores of shape {values.shape} for {len(spans)} spans; there must be one for each"
        )
    if not len(values):
        raise FormatError(f"{method} scores nothing: there is no unit")
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise FormatError(f"score {bad} of {method} is {values[bad]}; scores must be finite")
    units = Units(Example.of(source), level, tuple(_span(span) for span in spans))
    if any(span.start == span.end for span in units.spans):
        raise FormatError(f"{method} has a unit that covers no character; leave special tokens out")
    return Outside(method, units, tuple(values.tolist()), signed=bool((values < 0).any()))


def _span(source: Span | Sequence[int]) -> Span:
    if isinstance(source, Span):
        return source
    try:
        return Span(*(operator.index(part) for part in source))
    except TypeError:
        raise FormatError(f"a span is (start, end) or (start, end, field), all whole, got {shown(source)}") from None


def _needed(source: object, method: str) -> ExampleLike:
    if source is None:
        raise InputError(f"attributions of {method} do not hold the text; give it with text=...")
    return cast("ExampleLike", source)


def _floats(values: object) -> Floats:
    """Arrays, lists and tensors of any library, also those that require a gradient."""
    if hasattr(values, "detach"):  # a torch tensor, which numpy does not take while it has a gradient
        values = values.detach().cpu()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise FormatError(f"scores must be numbers, got {values!r:.80}") from None


def _per_token(values: object) -> Floats:
    """One number per token: a batch of one is opened, and the dimensions of an embedding are added up."""
    numbers = _floats(values)
    if numbers.ndim > 1 and len(numbers) == 1:
        numbers = numbers[0]
    return numbers.sum(axis=-1) if numbers.ndim == 2 else numbers


def _part(values: object, i: int) -> object:
    if isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.ndim):
        return values[i]
    return values


def _answer(labels: Sequence[str], totals: Floats) -> tuple[Prediction, Scale]:
    """A prediction from the outputs of all labels, taken as probabilities where they add up to 1."""
    shares = tuple(float(total) for total in np.atleast_1d(totals))
    if not all(math.isfinite(share) for share in shares):
        raise FormatError(f"the outputs of the explained model must be finite, got {shown(shares)}")
    if len(shares) > 1 and min(shares) >= -1e-6 and abs(sum(shares) - 1) <= 1e-3:
        logs = tuple(float(np.log(max(share, 1e-300))) for share in shares)
        return Prediction(tuple(labels), logs, shares), "probability"
    return Prediction(tuple(labels), shares), "logit"


def _index(target: object, labels: Sequence[str]) -> int:
    if isinstance(target, str):
        if target in labels:
            return labels.index(target)
        raise InputError(f"there is no label {target!r} in these attributions; they have {', '.join(labels)}")
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)) or not 0 <= target < len(labels):
        raise InputError(f"label index {target} does not exist in these attributions; they have {', '.join(labels)}")
    return int(target)


def placed(units: Units, model: Model) -> Units:
    """The same units with the token positions they cover in this model; a black box shows none."""
    try:
        (tokens,) = model.units([units.example], "token")
    except ParameterError:
        return units
    positions = tuple(
        tuple(
            position
            for token, places in zip(tokens.regions, tokens.positions, strict=True)
            if overlaps(token, unit)
            for position in places
        )
        for unit in units.regions
    )
    return dataclasses.replace(units, positions=positions, truncated=tokens.truncated, unknown=tokens.unknown)
