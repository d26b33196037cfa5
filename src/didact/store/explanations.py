"""Explanations as a table: one per row, every field kept exactly, in columns that any tool can read.

    method, text, text_pair, units, scores, errors, label, predicted, target, scale, level, truncated, ...
    forwards, backwards, evaluated, seconds                  what it took
    span_start, span_end, span_field, positions              where the units stand in the text and among the tokens
    rationale_start, rationale_end, rationale_field          the human rationale; empty cells where there is none
    annotators                                               per person, per span: start, end, field
    fields                                                   the example's fields as JSON, where they are not texts
    regions, rationale_regions, annotator_regions            as JSON, where they are not spans; the columns above are
                                                             empty then
    labels, outputs, probabilities                           the model's prediction
    parameters, model, versions                              JSON text
    details                                                  name to number

``units`` and ``predicted`` follow from the rest and are there for people. A label that was a number is stored as it is
written, with ``label_is_number``; one that was a span, or several, in ``label_spans``. ``extract`` is a predicted span
or text, ``target_answer`` an explained one, both as JSON; ``target_contrast`` is the output that a contrastive target
subtracts. Columns that older files lack count as empty.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from didact.errors import DidactError, FormatError, InputError
from didact.store import columns, files
from didact.store.regions import (
    is_plain,
    plain_fields,
    plain_lists,
    plain_parts,
    read_lists,
    read_parts,
    row_fields,
    spans_of,
)
from didact.types import (
    Answer,
    Cost,
    Example,
    Explanation,
    Prediction,
    Span,
    Target,
    Units,
    plain_regions,
    read_regions,
)
from didact.validation import finite_number, object_value, parse_json, plain_value, text_value

Row = dict[str, Any]
"""A row of the table as plain values, checked against the schema before."""

INTS = pa.list_(pa.int64())
FLOATS = pa.list_(pa.float64())
NAME, TEXT = columns.NAME, columns.TEXT

# Column -> its type and how it is taken from an explanation, optional ones apart.
NEEDED: dict[str, tuple[pa.DataType, Callable[[Explanation], object]]] = {
    "method": (NAME, lambda e: e.method),
    "text": (TEXT, lambda e: e.example.text if is_plain(e.example) else ""),
    "units": (pa.list_(TEXT), lambda e: e.units.texts),
    "scores": (FLOATS, lambda e: e.scores),
    "errors": (FLOATS, lambda e: e.errors),
    "signed": (pa.bool_(), lambda e: e.signed),
    "level": (NAME, lambda e: e.units.level),
    "truncated": (pa.float64(), lambda e: e.units.truncated),
    "predicted": (NAME, lambda e: e.prediction.label),
    "target": (NAME, lambda e: e.target.label),
    "target_index": (pa.int64(), lambda e: e.target.index),
    "scale": (NAME, lambda e: e.target.scale),
    "labels": (pa.list_(TEXT), lambda e: e.prediction.labels),
    "outputs": (FLOATS, lambda e: e.prediction.outputs),
    "probabilities": (FLOATS, lambda e: e.prediction.probabilities),
    "forwards": (pa.int64(), lambda e: e.cost.forwards),
    "backwards": (pa.int64(), lambda e: e.cost.backwards),
    "span_start": (INTS, lambda e: [span.start for span in spans_of(e.units.regions)]),
    "span_end": (INTS, lambda e: [span.end for span in spans_of(e.units.regions)]),
    "span_field": (INTS, lambda e: [span.field for span in spans_of(e.units.regions)]),
    "positions": (pa.list_(INTS), lambda e: e.units.positions),
    "annotators": (
        pa.list_(pa.list_(INTS)),
        lambda e: [plain_regions(spans_of(marked)) for marked in e.example.annotators],
    ),
    "parameters": (NAME, lambda e: _json(e.parameters)),
    "details": (pa.map_(TEXT, pa.float64()), lambda e: list(e.details.items())),
    "model": (NAME, lambda e: _json(e.model)),
    "versions": (NAME, lambda e: _json(e.versions)),
}
OPTIONAL: dict[str, tuple[pa.DataType, Callable[[Explanation], object]]] = {
    "id": (TEXT, lambda e: e.example.id),
    "text_pair": (TEXT, lambda e: e.example.text_pair if is_plain(e.example) else None),
    "fields": (NAME, lambda e: plain_fields(e.example)),
    "regions": (NAME, lambda e: plain_parts(e.units.regions)),
    "rationale_regions": (NAME, lambda e: plain_parts(e.example.rationale or ())),
    "annotator_regions": (NAME, lambda e: plain_lists(e.example.annotators)),
    "label": (NAME, lambda e: _label(e.example.label)),
    "label_is_number": (pa.bool_(), lambda e: _is_number(e.example.label)),
    "label_spans": (pa.list_(INTS), lambda e: _label_spans(e.example.label)),
    "target_answer": (NAME, lambda e: _extract(e.target.answer)),
    "target_contrast": (pa.int64(), lambda e: e.target.contrast),
    "target_contrast_label": (NAME, lambda e: e.target.contrast_label or None),
    "extract": (TEXT, lambda e: _extract(e.prediction.extract)),
    "rationale_start": (INTS, lambda e: _rationale(e.example, "start")),
    "rationale_end": (INTS, lambda e: _rationale(e.example, "end")),
    "rationale_field": (INTS, lambda e: _rationale(e.example, "field")),
    "evaluated": (pa.int64(), lambda e: e.cost.evaluated),
    "seconds": (pa.float64(), lambda e: e.cost.seconds),
    "unknown": (pa.float64(), lambda e: e.units.unknown or None),
    "warnings": (pa.list_(TEXT), lambda e: e.warnings or None),
}
TAKE = {name: take for name, (_, take) in (NEEDED | OPTIONAL).items()}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name in OPTIONAL) for name, (kind, _) in (NEEDED | OPTIONAL).items()])
EXPLAINER = pa.field("explainer", NAME, nullable=False)
SEED = pa.field("seed", pa.int64(), nullable=False)
BATCH = 1000
"""Rows turned back at once, so that lists on their way do not pile up."""


def to_table(explanations: Sequence[Explanation], explainer: Sequence[str] = (), seeds: Sequence[int] = ()) -> pa.Table:
    """One row per explanation.

    Args:
        explanations: in any order.
        explainer: the label of each explanation's explainer in an experiment; adds the column ``explainer``.
        seeds: the seed of each; adds the column ``seed``.
    """
    added: dict[str, list[object]] = {}
    fields = []
    for field, given in ((EXPLAINER, explainer), (SEED, seeds)):
        if given and len(given) != len(explanations):
            raise InputError(f"{field.name} needs one value per explanation: {len(given)} for {len(explanations)}")
        if given:
            added[field.name] = list(given)
            fields.append(field)
    rows = {name: [take(explanation) for explanation in explanations] for name, take in TAKE.items()}
    return columns.make(pa.schema([*fields, *SCHEMA]), added | rows)


def from_table(table: pa.Table) -> list[Explanation]:
    """Inverse of ``to_table``; further columns are left out."""
    checked = columns.conform(table, SCHEMA, "explanations")
    names = [name for name in SCHEMA.names if name not in ("units", "predicted")]
    spans, mappings = _Spans(), _Mappings()
    explanations = []
    for start in range(0, len(checked), BATCH):
        taken = [columns.values(checked.column(name).slice(start, BATCH)) for name in names]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*taken, strict=True))
        explanations += [_checked(start + at, row, spans, mappings) for at, row in enumerate(rows)]
    return explanations


def write(path: Path | str, table: pa.Table) -> None:
    """Write explanations; equal tables give equal bytes."""
    columns.conform(table, SCHEMA, "explanations")
    files.write(path, table)


def read(path: Path | str) -> pa.Table:
    """Read explanations, with whatever columns were added; a file that holds something else is named."""
    table = files.read(path)
    try:
        columns.conform(table, SCHEMA, "explanations")
    except FormatError as problem:
        raise FormatError(f"{path}: {problem}; delete it and run again") from None
    return table


class _Spans(dict[tuple[int, int, int], Span]):
    """One span for all units that stand at the same place: most of an explanation's memory is spans."""

    def __missing__(self, place: tuple[int, int, int]) -> Span:
        span = self[place] = Span(*place)
        return span

    def of(self, row: Row, kind: str) -> tuple[Span, ...]:
        ends = (row[f"{kind}_{end}"] for end in ("start", "end", "field"))
        return tuple(map(self.__getitem__, zip(*ends, strict=True)))


class _Mappings(dict[str, Row]):
    """JSON texts, each parsed once; explanations copy what they are given."""

    def __missing__(self, text: str) -> Row:
        try:
            entries = object_value(parse_json(text), "the entries")
        except FormatError as problem:
            raise FormatError(
                f"not a table of explanations: {text!r:.60} is not JSON as it should be ({problem})"
            ) from None
        parsed: Row = {name: plain_value(value, name) for name, value in entries.items()}
        self[text] = parsed
        return parsed


def _checked(number: int, row: Row, spans: _Spans, mappings: _Mappings) -> Explanation:
    """The explanation of a row; what does not fit together is reported with the row."""
    try:
        return _explanation(row, spans, mappings)
    except (DidactError, TypeError, ValueError) as problem:
        raise FormatError(f"row {number + 1}: {problem}") from None


def _explanation(row: Row, spans: _Spans, mappings: _Mappings) -> Explanation:
    units = Units(
        _example(row, spans),
        row["level"],
        read_parts(row["regions"], spans.of(row, "span"), "unit"),
        tuple(map(tuple, row["positions"])),
        row["truncated"],
        row["unknown"] or 0.0,
    )
    return Explanation(
        method=row["method"],
        units=units,
        scores=tuple(row["scores"]),
        target=_target(row),
        prediction=Prediction(
            tuple(row["labels"]), tuple(row["outputs"]), tuple(row["probabilities"]), _read_extract(row["extract"])
        ),
        parameters=mappings[row["parameters"]],
        signed=row["signed"],
        cost=Cost.from_dict({name: row[name] for name in ("forwards", "backwards", "evaluated", "seconds")}),
        details=dict(row["details"]),
        model=mappings[row["model"]],
        versions=mappings[row["versions"]],
        errors=tuple(row["errors"]),
        warnings=() if row["warnings"] is None else tuple(row["warnings"]),
    )


def _example(row: Row, spans: _Spans) -> Example:
    rationale = None if row["rationale_start"] is None else spans.of(row, "rationale")
    annotators = tuple(tuple(spans[tuple(place)] for place in marked) for marked in row["annotators"])
    return Example(
        fields=row_fields(row),
        label=_read_label(row),
        rationale=None if rationale is None else read_parts(row["rationale_regions"], rationale, "rationale"),
        id=row["id"],
        annotators=read_lists(row["annotator_regions"], annotators),
    )


def _target(row: Row) -> Target:
    answer = _read_extract(row["target_answer"])
    plain = {"index": row["target_index"], "label": row["target"], "scale": row["scale"]}
    contrast = {"contrast": row["target_contrast"], "contrast_label": row["target_contrast_label"] or ""}
    return dataclasses.replace(Target.from_dict(plain | contrast), answer=answer)


def _label(label: Answer | None) -> str | None:
    """A class or a number as text; spans have a column of their own."""
    if label is None or isinstance(label, (Span, tuple)):
        return None
    return label if isinstance(label, str) else repr(int(label) if isinstance(label, bool) else label)


def _is_number(label: Answer | None) -> bool | None:
    return None if _label(label) is None else not isinstance(label, str)


def _label_spans(label: Answer | None) -> list[list[int]] | None:
    """A list of one for a single span; several are marked by an empty last row, however many there are."""
    if isinstance(label, Span):
        return plain_regions([label])
    return [*plain_regions(label), []] if isinstance(label, tuple) else None


def _read_label(row: Row) -> Answer | None:
    if row["label_spans"] is not None:
        spans = tuple(Span(*place) for place in row["label_spans"] if len(place))
        return spans if not len(row["label_spans"][-1]) else spans[0]
    if row["label"] is None or not row["label_is_number"]:
        name: str | None = row["label"]
        return name
    try:
        number: object = int(row["label"]) if re.fullmatch("-?[0-9]+", row["label"]) else float(row["label"])
    except ValueError:
        raise FormatError(f"not a table of explanations: the label {row['label']!r:.60} is no number") from None
    return number if isinstance(number, int) else finite_number(number, "a label that is a number")


def _extract(answer: Span | str | None) -> str | None:
    """A span or a text as JSON."""
    if answer is None:
        return None
    return json.dumps(plain_regions([answer])[0] if isinstance(answer, Span) else answer, ensure_ascii=False)


def _read_extract(text: str | None) -> Span | str | None:
    if text is None:
        return None
    content = parse_json(text, "an answer")
    if isinstance(content, list):
        (region,) = read_regions([content], "an answer")
        if isinstance(region, Span):
            return region
    return text_value(content, "an answer")


def _rationale(example: Example, end: str) -> list[int] | None:
    return None if example.rationale is None else [getattr(span, end) for span in spans_of(example.rationale)]


def _json(mapping: Mapping[str, object]) -> str:
    return json.dumps(dict(mapping), ensure_ascii=False)
