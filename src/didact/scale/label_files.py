"""Explanations of a model's predictions read from a file, to learn from instead of computing them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from didact.errors import DidactError, FormatError, InputError
from didact.models.outputs import resolve_target
from didact.protocols import Model
from didact.provenance import is_sampled
from didact.store import explanations as store
from didact.types import Example, Explanation, Prediction, Units

ENDINGS = (".parquet", ".jsonl")


def read_labels(path: Path | str, model: Model, *, force: bool = False) -> list[Explanation]:
    """Explanations of this model's predictions from a file; a row that does not fit is refused with its line.

    Args:
        path: a .parquet file that didact wrote, or a .jsonl file. A line of it is an explanation as ``to_json`` writes
            it, or {"text", "scores"} with one score per word, and perhaps "text_pair", "label" (the output that the
            scores explain; the predicted one where missing), "method", "signed", and "model", the fingerprint of the
            explained model.
        model: the explained model.
        force: accept labels of other models as well, as long as the units are the same.
    """
    place = Path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}")
    if place.suffix not in ENDINGS:
        raise InputError(f"{place} cannot be read as labels; give {' or '.join(ENDINGS)}")
    rows = list(_parquet(place) if place.suffix == ".parquet" else _lines(place))
    if not rows:
        raise InputError(f"{place} holds no labels")
    source = {"name": model.name, "fingerprint": model.fingerprint()}  # once: it looks at every weight
    for row in rows:
        _check_model(row, model, source["fingerprint"], force)
    _check_units(rows, model)
    return _completed(rows, model, source)


@dataclass(frozen=True)
class _Row:
    """A label with the place it was read from.

    Attributes:
        where: file and line.
        example: the explained text.
        scores: one per unit.
        fingerprint: of the explained model; "" where the file does not give it.
        whole: the explanation, where the file holds whole ones.
        plain: the other fields of the line, where it does not.
    """

    where: str
    example: Example
    scores: Sequence[float]
    fingerprint: str
    whole: Explanation | None = None
    plain: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, where: str, whole: Explanation, fingerprint: str) -> _Row:
        return cls(where, whole.example, whole.scores, fingerprint, whole)


def _parquet(path: Path) -> Iterator[_Row]:
    table = store.read(path)
    try:
        explanations = store.from_table(table)
    except DidactError as problem:
        raise FormatError(f"{path}, {problem}") from None
    for number, explanation in enumerate(explanations, start=1):
        yield _Row.of(f"{path}, row {number}", explanation, explanation.model.get("fingerprint", ""))


def _lines(path: Path) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _line(line, f"{path}, line {number}")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text") from None


def _line(line: str, where: str) -> _Row:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as problem:
        raise FormatError(f"{where}: not JSON: {problem}") from None
    if not isinstance(data, dict) or "scores" not in data:
        raise FormatError(f"{where}: a label is an object with 'text' and 'scores', got {line.strip():.60}")
    scores = data["scores"]
    if not isinstance(scores, list) or not all(_is_number(score) for score in scores):
        raise FormatError(f"{where}: 'scores' must be a list of finite numbers, got {scores!s:.80}")
    model = data.get("model") or ""
    fingerprint = str(model.get("fingerprint", "")) if isinstance(model, dict) else str(model)
    try:
        if "units" in data:
            return _Row.of(where, Explanation.from_dict(data), fingerprint)
        if "text" not in data:
            raise FormatError(f"field 'text' is missing; got {', '.join(data)}")
        example = Example.of(Example(data["text"], data.get("text_pair"), label=data.get("label"), id=data.get("id")))
    except DidactError as problem:
        raise FormatError(f"{where}: {problem}") from None
    return _Row(where, example, [float(score) for score in scores], fingerprint, plain=data)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_model(row: _Row, model: Model, fingerprint: str, force: bool) -> None:
    """Refuse labels of another model, and of outputs that this one does not have."""
    if row.fingerprint and row.fingerprint != fingerprint and not force:
        earlier = " (of an earlier didact, which did not look at all of a model)" if is_sampled(row.fingerprint) else ""
        raise FormatError(
            f"{row.where}: this label explains the model with fingerprint {row.fingerprint}{earlier}, and {model.name} "
            f"has {fingerprint}; collect labels of this model, or use force=True if it answers alike"
        )
    if row.whole is not None and row.whole.prediction.labels != model.labels:
        raise FormatError(
            f"{row.where}: the explained model has the labels {', '.join(row.whole.prediction.labels)}, and "
            f"{model.name} has {', '.join(model.labels)}"
        )


def _check_units(rows: Sequence[_Row], model: Model) -> None:
    """Refuse scores that are not one for each unit of this model."""
    levels = [row.whole.units.level if row.whole else model.levels[0] for row in rows]
    for level in dict.fromkeys(levels):
        mine = [row for row, own in zip(rows, levels, strict=True) if own == level]
        for row, units in zip(mine, model.units([row.example for row in mine], level), strict=True):
            if len(row.scores) != len(units):
                raise FormatError(
                    f"{row.where}: {len(row.scores)} scores, but {model.name} reads {len(units)} {level}s: "
                    f"{' '.join(units.texts):.80}"
                )
            if row.whole is not None and row.whole.units.regions != units.regions:
                raise FormatError(
                    f"{row.where}: the scores belong to other {level}s than {model.name} reads: "
                    f"{' '.join(row.whole.units.texts):.60} instead of {' '.join(units.texts):.60}"
                )


def _completed(rows: Sequence[_Row], model: Model, source: Mapping[str, str]) -> list[Explanation]:
    """Explanations; of plain rows with the model's own units and prediction."""
    plain = [row for row in rows if row.whole is None]
    units = iter(model.units([row.example for row in plain]) if plain else [])
    predictions = iter(model.predict([row.example for row in plain]) if plain else [])
    signed = any(score < 0 for row in plain for score in row.scores)
    return [row.whole or _explained(row, model, source, next(units), next(predictions), signed) for row in rows]


def _explained(
    row: _Row, model: Model, source: Mapping[str, str], units: Units, prediction: Prediction, signed: bool
) -> Explanation:
    label = row.plain.get("label")
    try:
        target = resolve_target(model, label if isinstance(label, (int, str)) else None, prediction, None)
    except DidactError as problem:
        raise FormatError(f"{row.where}: {problem}") from None
    return Explanation(
        method=str(row.plain.get("method", "file")),
        units=units,
        scores=tuple(row.scores),
        target=target,
        prediction=prediction,
        signed=bool(row.plain.get("signed", signed)),
        model=source,
    )
